"""What all robust estimators share: their settings, by each library's names."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np

from semisure.errors import InputError, MissingExtraError
from semisure.types import Estimate, FloatArray, IntArray, Mask, Matches, PerMatch
from semisure.types.checks import as_integer, as_number, as_reals, put
from semisure.types.display import counted

POINT_PX, LINE_PX = 3.0, 1.0  # usual thresholds


@dataclass(frozen=True, slots=True, kw_only=True)
class RansacSettings:
    """Settings that every estimator understands; the paper states none of them.

    Without a threshold, each estimator has its own: 3 px for distances between points,
    1 px for those from epipolar lines, which ignore the error along the line.

    >>> RansacSettings(seed=1).within(3.0).threshold
    3.0
    """

    threshold_px: float | None = None
    max_iterations: int = 10_000
    confidence: float = 0.9999
    seed: int = 0

    def __post_init__(self) -> None:
        put(self, confidence=as_number("confidence", self.confidence))
        if self.threshold_px is not None:
            put(self, threshold_px=as_number("threshold_px", self.threshold_px))
        for name in ("max_iterations", "seed"):
            put(self, **{name: as_integer(name, getattr(self, name))})
        for name, good, rule in (
            (
                "threshold_px",
                self.threshold_px is None or self.threshold_px > 0,
                "be positive",
            ),
            ("max_iterations", 1 <= self.max_iterations < 2**31, "lie in [1, 2³¹)"),
            ("confidence", 0 < self.confidence < 1, "lie in (0, 1)"),
            ("seed", 0 <= self.seed < 2**31, "lie in [0, 2³¹)"),
        ):
            if not good:
                raise InputError(f"{name} must {rule}, but is {getattr(self, name)}.")

    def within(self, usual_px: float) -> RansacSettings:
        """These settings with a threshold: the usual one if they have none."""
        given = self.threshold_px is not None
        return self if given else replace(self, threshold_px=usual_px)

    @property
    def threshold(self) -> float:
        """The threshold in px; `within` makes sure that there is one."""
        if self.threshold_px is None:
            raise InputError("threshold_px is not set: give RansacSettings one.")
        return self.threshold_px


def robust_estimate(
    name: str,
    kind: str,
    count: int,
    least: int,
    find: Callable[[], list[FloatArray]],
    inliers_of: Callable[[FloatArray], Mask],
) -> Estimate:
    """The estimate of what a library finds, or why there is none.

    Of several models, the one with most inliers. Inliers are recomputed: some libraries
    return those of the model before its last refinement, and libraries compare
    different distances with the threshold.
    """
    if count < least:
        matches = counted(count, "match", "matches")
        available = f"only {matches}" if count else "no matches"
        return failure(count, name, f"{available}, a {kind} needs {least}")
    try:
        models = find()
    except cv2.error:  # degenerate point sets trip assertions inside OpenCV's solvers
        models = []
    if not models:
        return failure(count, name, "no model was consistent with enough matches")
    model = max(models, key=lambda each: inliers_of(each).sum())
    inliers = inliers_of(model)
    if inliers.sum() < least:
        reason = f"the model found has fewer than {least} inliers"
        return failure(count, name, reason)
    return Estimate(model=model, inliers=inliers, estimator=name)


def failure(count: int, name: str, reason: str) -> Estimate:
    """An estimate without a model."""
    nothing = np.zeros(count, dtype=np.bool_)
    return Estimate(model=None, inliers=nothing, estimator=name, reason=reason)


def models_in(answer: Any, columns: int = 3) -> list[FloatArray]:
    """The matrices in a library's answer that are finite and not 0.

    Some answers are stacks: a minimal sample may leave several matrices.
    """
    array = np.zeros((0, columns)) if answer is None else np.asarray(answer, np.float64)
    if len(array) < 3:
        return []
    matrices = array.reshape(-1, 3, columns)
    return [each for each in matrices if each.any() and np.isfinite(each).all()]


# -- OpenCV

# sampler, score, local optimisation, its sample size and its iterations: what the
# flags USAC_DEFAULT, USAC_PROSAC, USAC_ACCURATE and USAC_MAGSAC set, spelt out so
# that a seed can be set beside them.
_UNIFORM, _MSAC = cv2.SAMPLING_UNIFORM, cv2.SCORE_METHOD_MSAC
_USAC: dict[str, tuple[int, int, int, int, int]] = {
    "lo-ransac": (_UNIFORM, _MSAC, cv2.LOCAL_OPTIM_INNER_AND_ITER_LO, 20, 20),
    "prosac": (cv2.SAMPLING_PROSAC, _MSAC, cv2.LOCAL_OPTIM_INNER_LO, 14, 10),
    "gc-ransac": (_UNIFORM, _MSAC, cv2.LOCAL_OPTIM_GC, 20, 25),
    "magsac++": (_UNIFORM, cv2.SCORE_METHOD_MAGSAC, cv2.LOCAL_OPTIM_SIGMA, 75, 15),
}


def usac_params(name: str, settings: RansacSettings) -> cv2.UsacParams:
    """OpenCV's options for the estimator called `name`."""
    params = cv2.UsacParams()
    params.threshold = settings.threshold
    params.maxIterations = settings.max_iterations
    params.confidence = settings.confidence
    params.randomGeneratorState = settings.seed
    (
        params.sampler,
        params.score,
        params.loMethod,
        params.loSampleSize,
        params.loIterations,
    ) = _USAC[name]
    return params


def sample_order(name: str, confidence: PerMatch, settings: RansacSettings) -> IntArray:
    """The order in which OpenCV gets the matches.

    PROSAC needs the best first; plain RANSAC is seeded by their order only.
    """
    if name == "prosac":
        return np.argsort(-confidence, kind="stable")
    if name == "ransac" and settings.seed:
        return np.random.default_rng(settings.seed).permutation(len(confidence))
    return np.arange(len(confidence))


# -- PoseLib


def by_poselib(function: str, settings: RansacSettings, *arguments: Any) -> Any:
    """The model that a function of PoseLib finds, or None.

    PoseLib ignores the names of options that a function does not have.
    """
    try:
        import poselib
    except ImportError:
        raise MissingExtraError("poselib", "ransac", "PoseLib's RANSAC") from None
    options = {
        "max_reproj_error": settings.threshold,
        "max_epipolar_error": settings.threshold,
        "max_iterations": settings.max_iterations,
        "min_iterations": min(1000, settings.max_iterations),
        "success_prob": settings.confidence,
        "seed": settings.seed,
    }
    model, info = getattr(poselib, function)(*arguments, options)
    return model if info["num_inliers"] else None


# -- the caller's own

SHAPES = {"homography": (3, 3), "fundamental": (3, 3), "essential": (3, 4)}


def own_estimate(estimator: Any, matches: Matches, kind: str) -> Estimate:
    """What a callable of (source, target, confidence) finds.

    It returns an :class:`Estimate`, a model, or a tuple of a model and a mask, such as
    ``cv2.findHomography``; no model is None.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=100)
    >>> own_estimate(lambda source, target, confidence: None, matches, "homography")
    Estimate(no model by <lambda>: it found none)
    """
    name = str(getattr(estimator, "__name__", type(estimator).__name__))
    answer = estimator(matches.source, matches.target, matches.confidence)
    if isinstance(answer, Estimate):
        return answer
    two = isinstance(answer, tuple) and len(answer) == 2
    model, mask = answer if two else (answer, None)
    if model is None:
        return failure(len(matches), name, "it found none")
    array, shape = as_reals(f"the model of {name}", model), SHAPES[kind]
    if array.shape != shape:
        raise InputError(
            f"The estimator {name} must return a model of shape {shape}, or None, or "
            f"the model and a mask, but returned one of shape {array.shape}."
        )
    inliers = np.ones(len(matches), dtype=np.bool_)
    flags = inliers if mask is None else np.asarray(mask).reshape(-1)
    if flags.shape == inliers.shape and flags.dtype.kind in "biu":
        inliers = flags.astype(np.bool_)
    return Estimate(model=array, inliers=inliers, estimator=name)
