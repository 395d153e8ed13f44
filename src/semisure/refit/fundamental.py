"""The fundamental matrix after any RANSAC: two views, no intrinsics, no depth.

``core+`` is ours: the likelihood of all matches by the law of their error across the
epipolar lines (:mod:`semisure.refit.line_law`), climbed on the seven degrees of freedom
of a matrix of rank 2; where few matches agree, other peaks are looked for
(:mod:`semisure.refit.other_peaks`). ``core`` is the paper's epipolar CoRe without
intrinsics: ω from each point's foot on its line, then one weighted eight-point fit.

Where the matches lie on a plane, or the camera only turned, many fundamental matrices
fit equally well. The start is then kept, and `reason` says so.
Every method takes raw matches: a calibrated location is taken off first.
"""

from __future__ import annotations

from functools import partial
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike

from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.geometry import homography as plane
from semisure.law.error_laws import error_law
from semisure.law.mixture import ErrorLaw
from semisure.refit import weights
from semisure.refit.across_lines import AcrossLines
from semisure.refit.climbing import climb
from semisure.refit.homography import refit_homography
from semisure.refit.initial import kept, made, no_start, start_of, without_bias
from semisure.refit.model_choice import weigh_depth
from semisure.refit.other_peaks import aside, highest
from semisure.types import (
    Calibration,
    Estimate,
    Matches,
    Matrix3,
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
        As the matcher gave them; a calibrated location is taken off here.
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
    law = error_law(matches, calibration)
    if method == "core":
        return _epipolar_core(matches, law, start)
    form = fm.Seven.of(start, matches.source_size, matches.target_size)
    first = AcrossLines.at(form, matches, law)
    last, iterations, reason = first, 0, None
    if len(matches) <= fm.MINIMAL_SAMPLE:
        few = counted(len(matches), "match", "matches")
        reason = f"only {few}, a fundamental matrix needs 8"
    else:
        last, iterations = climb(first)
        last, more = highest(last, aside(last))
        iterations += more
        if not shows_depth(last, calibration):
            reason = (
                "the matches lie on one plane or the camera only turned, so that the "
                "fundamental matrix is not determined; fit a homography"
            )
    if reason is not None:
        both = (first.score, first.score)
        return kept(len(matches), start, method, reason, first.weight(), both)
    F = last.geometry.matrix
    # The tangent of the form that F itself has, whichever way the climb went.
    form = fm.Seven.of(F, matches.source_size, matches.target_size)
    final = AcrossLines.at(form, matches, law)
    return made(
        F,
        start,
        method,
        final.weight(),
        iterations,
        (first.score, final.score),
        partial(final.covariance, calibration),
    )


def shows_depth(view: AcrossLines[fm.Seven], calibration: Calibration) -> bool:
    """True unless one plane explains nearly all that the epipolar lines explain."""
    matches = view.matches
    H = plane.weighted_dlt(matches.source, matches.target, view.weight())
    if H is None:
        return False
    regular = np.linalg.matrix_rank(H) == 3
    refitted = refit_homography(matches, calibration, H).model if regular else None
    return weigh_depth(view, H if refitted is None else refitted).depth


def _epipolar_core(matches: Matches, law: ErrorLaw, start: Matrix3) -> Refit:
    lines = epipolar.lines_of(start[None], matches)
    weight = weights.core(law, lines.offset)
    F = epipolar.weighted_fundamental(matches.source, matches.target, weight)
    if F is None:
        reason = "the weighted matches do not determine a fundamental matrix"
        return kept(len(matches), start, "core", reason, weight)
    return made(fm.of_rank_2(F), start, "core", weight)
