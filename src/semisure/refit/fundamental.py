"""The fundamental matrix after any RANSAC: two views, no intrinsics, no depth.

``core+`` is ours: the likelihood of all matches by the law of their error across the
epipolar lines (:mod:`semisure.refit.lines`), maximised over the seven degrees of
freedom of a matrix of rank 2. ``core`` is the paper's epipolar CoRe without intrinsics:
ω from each point's foot on its line, then one weighted eight-point fit.

Where the matches lie on a plane, or the camera only turned, many fundamental matrices
fit equally well. The refit then returns the start, and `reason` says so.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.geometry import homography as plane
from semisure.refit.core import no_start, refit_once, start_of, without_bias
from semisure.refit.lines import AcrossLines, refit_lines
from semisure.refit.model_choice import weigh_depth
from semisure.refit.planes import refit_homography
from semisure.types import (
    Calibration,
    Estimate,
    Matches,
    Matrix3,
    PerMatch,
    Refit,
    as_choice,
)
from semisure.types.display import counted

FundamentalMethod = Literal["core+", "core"]
FUNDAMENTAL_METHODS: tuple[FundamentalMethod, ...] = get_args(FundamentalMethod)


def refit_fundamental(
    matches: Matches,
    calibration: Calibration,
    initial: Estimate | ArrayLike,
    *,
    method: FundamentalMethod = "core+",
) -> Refit:
    """θ* from θ₀: F with y F x = 0, refitted to all matches by their law.

    Its ``covariance`` is 7 × 7 in the tangent of
    :class:`semisure.geometry.fundamental.Seven` at the returned model.

    Parameters
    ----------
    matches
        As the matcher gave them: a calibrated location is subtracted here.
    initial
        What :func:`estimate_fundamental` returned, or any F from image 0 to image 1,
        such as that of ``cv2.findFundamentalMat``.

    Examples
    --------
    >>> import numpy as np, semisure
    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
    >>> P_01 = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    >>> matches, _ = SyntheticMatcher().match_views(P_01, K, count=500)
    >>> start = semisure.estimate_fundamental(matches, "ransac")
    >>> refit = refit_fundamental(matches, EXAMPLE_CALIBRATION, start)
    >>> refit.reason is None, refit.covariance.shape
    (True, (7, 7))
    """
    as_choice("method", method, FUNDAMENTAL_METHODS)
    matches, calibration = without_bias(matches, calibration)
    start, _ = start_of(initial, len(matches), fm.checked)
    if start is None:
        return no_start(initial, len(matches), method)
    if method == "core":

        def fit(weight: PerMatch) -> tuple[Matrix3 | None, int]:
            F = epipolar.weighted_eight_point(matches.source, matches.target, weight)
            return None if F is None else fm.of_rank_2(F), 1

        offset = epipolar.lines_of(start[None], matches).offset
        name = "a fundamental matrix"
        return refit_once(method, matches, calibration, start, offset, fit, name=name)
    sizes = matches.source_size, matches.target_size
    return refit_lines(
        start,
        lambda F: fm.Seven.of(F, *sizes),
        matches,
        calibration,
        partial(_objection, calibration=calibration),
    )


def _objection(view: AcrossLines[fm.Seven], calibration: Calibration) -> str | None:
    """Why the matches do not determine a fundamental matrix, or None."""
    if len(view.matches) <= fm.MINIMAL_SAMPLE:
        few = counted(len(view.matches), "match", "matches")
        return f"only {few}, a fundamental matrix needs 8"
    if not _shows_depth(view, calibration):
        return (
            "the matches lie on one plane or the camera only turned, so that the "
            "fundamental matrix is not determined; fit a homography"
        )
    return None


def _shows_depth(view: AcrossLines[fm.Seven], calibration: Calibration) -> bool:
    """True unless one plane explains nearly all matches that the lines explain."""
    matches = view.matches
    H = plane.weighted_dlt(matches.source, matches.target, view.weight())
    if H is None:
        return False
    if np.linalg.matrix_rank(H) == 3:
        H = refit_homography(matches, calibration, H).model
        assert H is not None  # a start is returned where nothing is better
    return weigh_depth(view, H).depth
