"""From images or matches to a result: estimate, refit, choose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.estimators import (
    RansacSettings,
    estimate_fundamental,
    estimate_homography,
)
from semisure.estimators.settings import own_estimate
from semisure.geometry import epipolar
from semisure.geometry import fundamental as fm
from semisure.geometry import homography as plane
from semisure.io.images import Image
from semisure.law.error_laws import error_law
from semisure.law.mixture import LAPLACE
from semisure.pairs.models import (
    MODELS,
    Cameras,
    Kind,
    Model,
    chance_of,
    checked_cameras,
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
    FloatArray,
    Matcher,
    Matches,
    Refit,
    RobustEstimator,
    as_choice,
)
from semisure.types.calibration import require_calibration
from semisure.types.checks import require_kind

# A distance from a line ignores the error along it: lines get this share of the
# threshold for points.
LINE_THRESHOLD = 1 / 3


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
    """Match two images, find out what model they obey, estimate and refit it.

    :func:`semisure.match` takes paths and names too, and calls this.

    Parameters
    ----------
    model
        ``auto`` returns a homography where one plane, or a camera that only turned,
        explains the matches, and otherwise a fundamental matrix, or a relative pose
        (``essential``) if intrinsics are given.
    settings
        Of the robust estimator; epipolar lines get a third of the threshold.
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
    cameras = checked_cameras(model, K0, K1)
    _check_estimator(estimator, model)
    matches = _matched(matcher, image0, image1)
    result = refit_matches(
        matches,
        calibration,
        model=model,
        estimator=estimator,
        method=method,
        settings=settings,
        K0=None if cameras is None else cameras[0],
        K1=None if cameras is None else cameras[1],
    )
    return replace(result, images=(image0, image1))


def _matched(matcher: Matcher, image0: Image, image1: Image) -> Matches:
    """The matches; a name, a path and foreign answers are told in a sentence."""
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


def _check_estimator(estimator: str | RobustEstimator, model: Model) -> None:
    if model == "auto" and not isinstance(estimator, str):
        raise InputError(
            "An estimator of your own finds models of one kind: say which by "
            "model='homography', 'fundamental' or 'essential'."
        )


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
    as_choice("model", model, MODELS)
    _check_estimator(estimator, model)
    task = _Task(
        matches=matches,
        calibration=calibration,
        estimator=estimator,
        method=method,
        settings=settings or RansacSettings(),
        cameras=checked_cameras(model, K0, K1),
    )
    if model != "auto":
        return task.fitted(model, initial)
    first = task.fitted("homography", initial)
    if initial is not None or not task.has_lines():
        return replace(first, chosen=initial is None)
    return _chosen(first, task.fitted(task.kind_of_lines()))


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

    One is the estimator's, the other fitted to the matches that lie on their lines.
    """
    view = deep.lines_view()
    if view is None:
        return None
    source, target = view.matches.source, view.matches.target
    through = plane.weighted_dlt(source, target, view.weight())
    if through is not None:
        refit = refit_homography(deep.matches, deep.calibration, through)
        through = refit.model
    planes = [H for H in (flat.H_01, through) if H is not None]
    weighed = [weigh_depth(view, H) for H in planes]
    return min(weighed, key=lambda e: e.depth_share, default=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Task:
    """What every model of one pair is fitted with."""

    matches: Matches
    calibration: Calibration
    estimator: str | RobustEstimator
    method: RefitMethod
    settings: RansacSettings
    cameras: Cameras | None

    def has_lines(self) -> bool:
        """True where method and law can be used with epipolar lines."""
        law = error_law(self.matches.take(slice(0)), self.calibration)
        return self.method in FUNDAMENTAL_METHODS and law.family is LAPLACE

    def kind_of_lines(self) -> Kind:
        if self.cameras is None:
            return "fundamental"
        from semisure.estimators.relative import RELATIVE_ESTIMATORS

        return "essential" if self.estimator in RELATIVE_ESTIMATORS else "fundamental"

    def fitted(self, kind: Kind, initial: ArrayLike | None = None) -> PairResult:
        # Estimators know no location: it is taken off what they see, and only there.
        unbiased, _ = without_bias(self.matches, self.calibration)
        if initial is None:
            estimate = self._estimate(kind, unbiased)
        else:
            estimate = self._given(kind, initial, unbiased)
        refit = self._refit(kind, estimate)
        chance = 1.0
        if refit.model is not None:
            chance = chance_of(kind, refit.model, unbiased, self.cameras)
        return PairResult(
            matches=self.matches,
            calibration=self.calibration,
            estimate=estimate,
            refit=refit,
            model_failure=chance,
            kind=kind,
            cameras=self.cameras if kind == "essential" else None,
        )

    def _threshold_px(self, kind: Kind) -> float:
        share = 1.0 if kind == "homography" else LINE_THRESHOLD
        return share * self.settings.threshold_px

    def _estimate(self, kind: Kind, matches: Matches) -> Estimate:
        if not isinstance(self.estimator, str):
            return own_estimate(self.estimator, matches, kind)
        settings = replace(self.settings, threshold_px=self._threshold_px(kind))
        if kind == "homography":
            return estimate_homography(matches, self.estimator, settings)
        if kind == "fundamental":
            return estimate_fundamental(matches, self.estimator, settings)
        assert self.cameras is not None
        from semisure.estimators.relative import estimate_relative

        return estimate_relative(matches, *self.cameras, self.estimator, settings)

    def _given(self, kind: Kind, initial: ArrayLike, matches: Matches) -> Estimate:
        """A model from elsewhere as an estimate, with the inliers it has here."""
        model = _checked_model(kind, initial)
        F = lines_matrix(kind, model, self.cameras)
        if F is None:
            distance = np.linalg.norm(plane.residual(model, matches), axis=1)
        else:
            distance = np.abs(epipolar.lines_of(F[None], matches).distance)
        inliers = distance <= self._threshold_px(kind)
        return Estimate(model=model, inliers=inliers, estimator="given")

    def _refit(self, kind: Kind, start: Estimate) -> Refit:
        matches, calibration, method = self.matches, self.calibration, self.method
        if kind == "homography":
            return refit_homography(matches, calibration, start, method=method)
        way = as_choice("method", method, FUNDAMENTAL_METHODS)
        if kind == "fundamental":
            return refit_fundamental(matches, calibration, start, method=way)
        assert self.cameras is not None
        from semisure.refit.relative import refit_relative

        return refit_relative(matches, calibration, start, *self.cameras, method=way)


def _checked_model(kind: Kind, initial: ArrayLike) -> FloatArray:
    if kind == "homography":
        return plane.checked(initial, name="initial")
    return (fm.checked if kind == "fundamental" else epipolar.checked_pose)(initial)
