"""Results of estimators and refits, and pairs of images."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Protocol, TypeAlias, runtime_checkable

from semisure.types.arrays import FloatArray, Mask, Matrix, Matrix3, PerMatch, Points


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimate:
    """The model of a robust estimator, or why it found none.

    >>> import numpy as np
    >>> nothing = Estimate(
    ...     model=None, inliers=np.zeros(3, bool), estimator="ransac",
    ...     reason="only 3 matches, a homography needs 4")
    >>> nothing
    Estimate(no model by ransac: only 3 matches, a homography needs 4)
    """

    model: FloatArray | None  # H_01, 3 × 3, last entry 1 if it can be; [R | t], 3 × 4
    inliers: Mask
    estimator: str
    reason: str | None = None  # why `model` is None

    def __repr__(self) -> str:
        if self.model is None:
            return f"Estimate(no model by {self.estimator}: {self.reason})"
        share = f"{int(self.inliers.sum()):,} of {len(self.inliers):,} matches"
        return f"Estimate(model by {self.estimator}, {share} are inliers)"


# Makes the covariance of a model; `field=True` includes lens and shared errors.
Uncertainty: TypeAlias = Callable[..., "Matrix | None"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Refit:
    """A refitted model, its weights, and its initial model.

    Where the start was kept, `reason` says why, `model` is the start, and weights,
    likelihood and covariance are the start's, for all models alike. Matches that do not
    determine a model have no covariance. One-step methods have no likelihood.

    >>> import numpy as np, semisure
    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=500)
    >>> refit = semisure.refit_homography(matches, EXAMPLE_CALIBRATION, np.eye(3))
    >>> refit.reason is None, refit.covariance.shape
    (True, (8, 8))
    >>> refit
    Refit(model by core+, effective inliers (sum of weights) 364 of 500)
    """

    model: FloatArray | None  # the initial model where `reason` is set
    weight: PerMatch  # behind `model`
    initial: FloatArray | None
    method: str
    reason: str | None = None  # why the initial model was kept
    iterations: int = 1
    log_likelihood: tuple[float, float] | None = None  # initial, returned; nats
    uncertainty: Uncertainty | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        if self.model is None:
            return f"Refit(no model by {self.method}: {self.reason})"
        fallback = f", initial model kept: {self.reason}" if self.reason else ""
        inliers = f"{self.weight.sum():,.0f} of {len(self.weight):,}"
        return (
            f"Refit(model by {self.method}, effective inliers (sum of weights) "
            f"{inliers}{fallback})"
        )

    @cached_property
    def covariance(self) -> Matrix | None:
        """Covariance of `model`, computed at the first use; None where undetermined.

        Homography: 8 × 8 px² of the images of image 0's corners, x and y in turn.
        Pose: 6 × 6 of the tangent (ω, v) of :mod:`semisure.geometry.pose`.
        Relative pose: 5 × 5 of the rotation and the direction of t, radians, as
        :func:`semisure.geometry.epipolar.moved` steps. Fundamental matrix: 7 × 7 of
        the tangent of :class:`semisure.geometry.fundamental.Seven`.
        """
        return None if self.uncertainty is None else self.uncertainty(field=True)

    @cached_property
    def matching_covariance(self) -> Matrix | None:
        """The same from the matches' errors alone, without lens and shared errors.

        Residuals are smaller than errors by what it describes.
        """
        return None if self.uncertainty is None else self.uncertainty(field=False)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pair:
    """Two images and, where known, the homography between them.

    >>> Pair(name="graf 1-2", image0=Path("1.ppm"), image1=Path("2.ppm")).H_01 is None
    True
    """

    name: str
    image0: Path
    image1: Path
    H_01: Matrix3 | None = None
    group: str = ""  # of pairs that share an image or a scene


@runtime_checkable
class RobustEstimator(Protocol):
    """Anything that turns two point sets into an :class:`Estimate`."""

    def __call__(
        self, source: Points, target: Points, confidence: PerMatch
    ) -> Estimate: ...
