"""From images or matches to a result: estimate, refit, choose."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.estimators import (
    RansacSettings,
    estimate_fundamental,
    estimate_homography,
)
from semisure.estimators.settings import LINE_PX, POINT_PX, own_estimate
from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.geometry import homography as plane
from semisure.io.images import Image
from semisure.law.error_laws import error_law
from semisure.law.families import LAPLACE
from semisure.pairs.models import (
    Cameras,
    Kind,
    Model,
    chance_of,
    checked_choice,
    lines_matrix,
)
from semisure.pairs.result import PairResult
from semisure.refit.core import without_bias
from semisure.refit.fundamental import FUNDAMENTAL_METHODS, refit_fundamental
from semisure.refit.model_choice import Evidence, weigh_depth
from semisure.refit.planes import refit_homography
from semisure.refit.weights import RefitMethod
from semisure.types import (
    Calibration,
    Estimate,
    Matcher,
    Matches,
    RobustEstimator,
    as_choice,
)
from semisure.types.calibration import require_calibration
from semisure.types.checks import require_kind

# A distance from a line ignores the error along it: lines get this share of a given
# threshold for points. Without one, relative poses by these estimators get so many
# medians of the fine scales. Chosen on one scene of MegaDepth-1500 and judged on the
# other, where fundamental matrices, LO-RANSAC and PoseLib gain nothing from it.
LINE_THRESHOLD = 1 / 3
POSE_SCALES = 0.7
_BY_SCALES = "ransac", "magsac++"


def match_pair(
    image0: Image,
    image1: Image,
    matcher: Matcher,
    calibration: Calibration,
    *,
    model: Model = "auto",
    estimator: str | RobustEstimator = "magsac++",
    method: RefitMethod = "core+",
    settings: RansacSettings | None = None,
    K0: ArrayLike | None = None,
    K1: ArrayLike | None = None,
) -> PairResult:
    """Match two images, choose their model, estimate it and refit it.

    :func:`semisure.match` takes paths and names too, and calls this.

    Parameters
    ----------
    model
        ``auto`` returns a homography where one plane, or a camera that only turned,
        explains the matches, and otherwise a fundamental matrix, or a relative pose
        (``essential``) if intrinsics are given.
    settings
        Of the robust estimator; epipolar lines get a third of the threshold. Without a
        threshold, points get 3 px and lines 1 px, but those of a relative pose by
        RANSAC or MAGSAC++ 0.7 of the matches' median fine scale.
    K0, K1
        Intrinsics in px, pixel centres at integers; without `K1`, `K0` is for both.

    Examples
    --------
    >>> import semisure
    >>> blobs = np.random.default_rng(0).normal(size=(30, 40))
    >>> image0 = np.uint8(128 + 40 * np.clip(blobs, -3, 3)).repeat(8, 0).repeat(8, 1)
    >>> image1 = np.roll(image0, (9, 14), axis=(0, 1))
    >>> matcher, calibration = (
    ...     semisure.load_matcher("daisy"), semisure.load_calibration("daisy"))
    >>> result = match_pair(image0, image1, matcher, calibration)
    >>> result.kind, result.H_01[:2, 2].round().tolist()
    ('homography', [14.0, 9.0])
    """
    require_calibration(calibration)
    checked_choice(model, estimator, K0, K1)
    result = refit_matches(
        _matched(matcher, image0, image1),
        calibration,
        model=model,
        estimator=estimator,
        method=method,
        settings=settings,
        K0=K0,
        K1=K1,
    )
    return replace(result, images=(image0, image1))


def _matched(matcher: Matcher, image0: Image, image1: Image) -> Matches:
    """The matches; an error for a matcher's name or an image's path."""
    if not callable(matcher):
        raise InputError(
            f"matcher must be callable, but is {matcher!r}: load it with "
            "semisure.load_matcher(name), or call semisure.match, which takes names."
        )
    for image in (image0, image1):
        if image is None or isinstance(image, str | PathLike):
            raise InputError(
                f"An image must be an array, but is {image!r}: read it with "
                "semisure.read_image, or call semisure.match, which takes paths."
            )
    matches = matcher(image0, image1)
    advice = "A matcher returns semisure.Matches(source=…, target=…, …)."
    require_kind("what the matcher returned", matches, Matches, advice)
    return matches


def refit_matches(
    matches: Matches,
    calibration: Calibration,
    *,
    model: Model = "auto",
    estimator: str | RobustEstimator = "magsac++",
    method: RefitMethod = "core+",
    settings: RansacSettings | None = None,
    initial: ArrayLike | None = None,
    K0: ArrayLike | None = None,
    K1: ArrayLike | None = None,
) -> PairResult:
    """The same from matches, such as those of a file.

    With `initial`, the refit starts from that model and nothing is estimated; ``auto``
    takes it for a homography.
    """
    cameras = checked_choice(model, estimator, K0, K1)
    fitted = partial(
        _fitted,
        matches,
        calibration,
        estimator=estimator,
        method=method,
        settings=settings or RansacSettings(),
        cameras=cameras,
    )
    if model != "auto":
        return fitted(model, initial=initial)
    flat = fitted("homography", initial=initial)
    law = error_law(matches.take(slice(0)), calibration)
    has_lines = method in FUNDAMENTAL_METHODS and law.family is LAPLACE
    if initial is not None or not has_lines:
        return replace(flat, chosen=initial is None)
    return _chosen(flat, fitted(_kind_of_lines(estimator, cameras)))


def _kind_of_lines(estimator: str | RobustEstimator, cameras: Cameras | None) -> Kind:
    if cameras is None:
        return "fundamental"
    from semisure.estimators.relative import RELATIVE_ESTIMATORS

    return "essential" if estimator in RELATIVE_ESTIMATORS else "fundamental"


def _chosen(flat: PairResult, deep: PairResult) -> PairResult:
    """The homography `flat`, unless lines explain clearly more, or alone.

    A plane that chance does not explain shows that the images are related, so the
    lines are related too.
    """
    evidence = _evidence(flat, deep)
    if flat.related and evidence is not None:
        best = deep if evidence.depth else flat
    else:
        best = deep if deep.related else flat
    chance = min(best.model_failure, flat.model_failure)
    return replace(best, chosen=True, evidence=evidence, model_failure=chance)


def _evidence(flat: PairResult, deep: PairResult) -> Evidence | None:
    """The evidence for depth, against the better of two homographies.

    One is the estimator's; the other is fitted to the matches on their lines.
    """
    view = deep.lines_view()
    if view is None:
        return None
    source, target = view.matches.source, view.matches.target
    H = plane.weighted_dlt(source, target, view.weight())
    if H is not None:
        H = refit_homography(deep.matches, deep.calibration, H).model
    models = [model for model in (flat.H_01, H) if model is not None]
    evidence = [weigh_depth(view, model) for model in models]
    return min(evidence, key=lambda e: e.depth_share, default=None)


def _fitted(
    matches: Matches,
    calibration: Calibration,
    kind: Kind,
    *,
    estimator: str | RobustEstimator,
    method: RefitMethod,
    settings: RansacSettings,
    cameras: Cameras | None,
    initial: ArrayLike | None = None,
) -> PairResult:
    """One model estimated, or taken as `initial`, and refitted."""
    # Estimators ignore the location: it is subtracted from their input, and only there.
    unbiased, _ = without_bias(matches, calibration)
    if kind != "homography":
        by_law = kind == "essential" and estimator in _BY_SCALES
        settings = _for_lines(settings, by_law, matches, calibration)
    if initial is None:
        start = _estimated(kind, unbiased, estimator, settings, cameras)
    else:
        limit = settings.within(POINT_PX).threshold
        start = _given(kind, initial, unbiased, limit, cameras)
    if kind == "homography":
        refit = refit_homography(matches, calibration, start, method=method)
    else:
        way = as_choice("method", method, FUNDAMENTAL_METHODS)
        if kind == "fundamental":
            refit = refit_fundamental(matches, calibration, start, method=way)
        else:
            from semisure.refit.relative import refit_relative

            assert cameras is not None
            refit = refit_relative(matches, calibration, start, *cameras, method=way)
    chance = 1.0
    if refit.model is not None:
        chance = chance_of(kind, refit.model, unbiased, cameras)
    return PairResult(
        matches=matches,
        calibration=calibration,
        estimate=start,
        refit=refit,
        model_failure=chance,
        kind=kind,
        cameras=cameras if kind == "essential" else None,
    )


def _for_lines(
    settings: RansacSettings,
    by_law: bool,
    matches: Matches,
    calibration: Calibration,
) -> RansacSettings:
    """The settings with the threshold for distances from epipolar lines."""
    if settings.threshold_px is not None:
        return replace(settings, threshold_px=LINE_THRESHOLD * settings.threshold_px)
    if not (by_law and len(matches)):
        return settings.within(LINE_PX)
    fine = error_law(matches, calibration).fine_scale
    return settings.within(POSE_SCALES * float(np.median(fine)))


def _estimated(
    kind: Kind,
    matches: Matches,
    estimator: str | RobustEstimator,
    settings: RansacSettings,
    cameras: Cameras | None,
) -> Estimate:
    if not isinstance(estimator, str):
        return own_estimate(estimator, matches, kind)
    if kind == "homography":
        return estimate_homography(matches, estimator, settings)
    if kind == "fundamental":
        return estimate_fundamental(matches, estimator, settings)
    assert cameras is not None
    from semisure.estimators.relative import estimate_relative

    return estimate_relative(matches, *cameras, estimator, settings)


def _given(
    kind: Kind,
    initial: ArrayLike,
    matches: Matches,
    threshold_px: float,
    cameras: Cameras | None,
) -> Estimate:
    """The caller's model as an estimate, with its inliers among the matches."""
    if kind == "homography":
        model = plane.checked(initial, name="initial")
        distance = np.linalg.norm(plane.residual(model, matches), axis=1)
    else:
        check = fm.checked if kind == "fundamental" else epipolar.checked_pose
        model = check(initial)
        F = lines_matrix(kind, model, cameras)
        assert F is not None
        distance = np.abs(epipolar.lines_of(F[None], matches).distance)
    inliers = distance <= threshold_px
    return Estimate(model=model, inliers=inliers, estimator="given")
