"""The nouns of semisure and the one table of names.

========================  ==============================  ===========================
paper                     code                            unit, shape
========================  ==============================  ===========================
x, ŷ                      ``source``, ``target``          px, (n, 2); image 0, image 1
s̃ᶠ, s̃ᶜ                    ``fine_std``, ``coarse_std``    px, (n, 2), raw
sᶠ, sᶜ                    ``fine_scale``,                 px, (n, 2), calibrated scale
                          ``coarse_scale``                (Laplace: std is √2 times it)
b, a                      ``fine_var_gain``,              (2,), multiplies a variance:
                          ``coarse_var_gain``             scale = √gain · std
s̄ᶜ                        ``spread``                      % of the image side, (n, 2)
m, −log m                 ``confidence``, ``doubt``       (0, 1]; nats, (n,)
k_s, k_m                  ``spread_slope``,               logit per %, logit per nat
                          ``doubt_slope``
−k_s t_d − k_m t_m        ``intercept``                   logit, (2,)
α                         ``tail_prob``, ``tail_logit``   (n, 2)
r, r⁽⁰⁾                   ``residual``                    px, (n, 2), predicted − true
ω_d, ω                    ``coarse_success``, ``weight``  (n, 2), (n,)
e, E[e]                   ``abs_error``,                  px, (n,)
                          ``expected_abs_error``
θ₀, θ*                    ``initial``, ``model``          3 × 3, or [R | t], 3 × 4
========================  ==============================  ===========================

Pixels: integer coordinates are pixel centres, so resizing maps
``(p + 0.5) * s - 0.5``. ``H_01`` maps image 0 to image 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from semisure.errors import InputError

FloatArray = NDArray[np.floating[Any]]  # float64 everywhere past the doors
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]
Array = NDArray[Any]
Index = slice | BoolArray | IntArray

LawName = Literal[
    "mixture",
    "fine_only",
    "gaussian",
    "uncalibrated",
    "no_confidence_gate",
    "hard_gate",
]
LAW_NAMES: tuple[str, ...] = get_args(LawName)

DEFAULT_FINE_WINDOW_PX = 8.0  # the coarse cell of every matcher of the paper


def _as_floats(name: str, values: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """`values` as finite float64 of `shape`, or a sentence naming the offender."""
    try:
        # One axis after the other in memory: arithmetic on (n, 2) arrays then runs
        # along n, which is several times faster than in pairs.
        array = np.asfortranarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, but {error}.") from None
    if array.shape != shape:
        raise InputError(
            f"{name} must have shape {shape} to go with the other arrays, "
            f"but has {array.shape}."
        )
    _require(name, array, np.isfinite(array), "be finite", "Drop such matches first.")
    return array


def _require(name: str, array: Array, good: BoolArray, rule: str, advice: str) -> None:
    """Raise if any entry of `array` is not `good`, and show the first one."""
    if good.all():
        return
    bad = np.asarray(~np.atleast_2d(good.T).all(axis=0))
    first = int(np.flatnonzero(bad)[0])
    shown = np.array2string(array[first], precision=6, separator=", ")
    raise InputError(
        f"{name} must {rule}, but {int(bad.sum())} of {len(bad)} do not; "
        f"first: match {first} has {shown}. {advice}"
    )


def _as_size(name: str, size: ArrayLike) -> tuple[int, int]:
    shown = np.asarray(size)
    numeric = shown.shape == (2,) and np.issubdtype(shown.dtype, np.number)
    if not numeric or not (np.isfinite(shown).all() and (shown >= 1).all()):
        raise InputError(f"{name} must be (width, height) in pixels, but is {size!r}.")
    return int(shown[0]), int(shown[1])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Matches:
    """What a frozen matcher said about one image pair.

    `side` says which image's point was refined, so which image the standard
    deviations, residuals and scales of a match live in: 0 or 1, one for all or
    one for each match. `fine_window` is the side in px of the window that the
    fine stage searched; a calibrated location is measured in it.

    >>> import numpy as np
    >>> matches = Matches(
    ...     source=np.zeros((3, 2)), target=np.ones((3, 2)),
    ...     confidence=[0.9, 0.5, 0.1], fine_std=np.ones((3, 2)),
    ...     coarse_std=np.full((3, 2), 20.0),
    ...     source_size=(640, 480), target_size=(640, 480))
    >>> len(matches), matches.side.tolist()
    (3, [1, 1, 1])
    """

    source: FloatArray  # (n, 2) px, image 0
    target: FloatArray  # (n, 2) px, image 1
    confidence: FloatArray  # (n,) in (0, 1]
    fine_std: FloatArray  # (n, 2) px, on the refined side
    coarse_std: FloatArray  # (n, 2) px, on the refined side
    source_size: tuple[int, int]  # width, height
    target_size: tuple[int, int]  # width, height
    side: IntArray = 1  # type: ignore[assignment]  # (n,) 0 or 1
    fine_window: FloatArray = DEFAULT_FINE_WINDOW_PX  # type: ignore[assignment]  # (n,) px

    doubt: FloatArray = field(init=False, repr=False)  # (n,) −log m, nats

    def __post_init__(self) -> None:
        n = len(np.atleast_1d(np.asarray(self.source)))
        for name, shape in _ARRAY_SHAPES.items():
            values = getattr(self, name)
            if name in ("side", "fine_window") and np.ndim(values) == 0:
                values = np.full(n, values)
            array = _as_floats(name, values, (n, *shape))
            object.__setattr__(self, name, array)
        for name in ("source_size", "target_size"):
            object.__setattr__(self, name, _as_size(name, getattr(self, name)))
        self._check_ranges()
        object.__setattr__(self, "side", self.side.astype(np.int64))
        object.__setattr__(self, "doubt", -np.log(self.confidence))

    def _check_ranges(self) -> None:
        m = self.confidence
        advice = "Raw scores need a softmax first; give an underflow to 0 a tiny value."
        _require("confidence", m, (m > 0) & (m <= 1), "lie in (0, 1]", advice)
        for name in ("fine_std", "coarse_std"):
            std = getattr(self, name)
            advice = "It is a standard deviation in px; a variance's root."
            _require(name, std, std >= 0, "not be negative", advice)
        advice = "It names the image whose point was refined."
        _require("side", self.side, np.isin(self.side, (0, 1)), "be 0 or 1", advice)
        window = self.fine_window
        _require(
            "fine_window", window, window > 0, "be positive", "It is a size in px."
        )

    def __len__(self) -> int:
        return len(self.source)

    @property
    def refined_size(self) -> FloatArray:
        """Width and height of the refined image, (n, 2) px: the paper's D.

        One row, (1, 2), where the same image was refined throughout.
        """
        sizes = np.array([self.source_size, self.target_size], dtype=np.float64)
        first = self.side[:1]
        return sizes[first if (self.side == first).all() else self.side]

    @property
    def spread(self) -> FloatArray:
        """Coarse std in percent of the refined image's sides, (n, 2)."""
        return self.coarse_std * (100.0 / self.refined_size)

    def take(self, index: Index) -> Matches:
        """The matches that `index` (a mask or positions) picks."""
        picked = {name: getattr(self, name)[index] for name in _ARRAY_SHAPES}
        return replace(self, **picked)

    def swapped(self) -> Matches:
        """The same matches with images 0 and 1 exchanged."""
        return replace(
            self,
            source=self.target,
            target=self.source,
            source_size=self.target_size,
            target_size=self.source_size,
            side=1 - self.side,
        )

    def shifted(self, offset: FloatArray) -> Matches:
        """The matches with `offset` (n, 2) px added to each refined point."""
        on_target = (self.side == 1)[:, None]
        return replace(
            self,
            source=self.source + np.where(on_target, 0.0, offset),
            target=self.target + np.where(on_target, offset, 0.0),
        )


_ARRAY_SHAPES: dict[str, tuple[int, ...]] = {
    "source": (2,),
    "target": (2,),
    "confidence": (),
    "fine_std": (2,),
    "coarse_std": (2,),
    "side": (),
    "fine_window": (),
}


class Cues(Protocol):
    """What an error law reads of matches: n rows of raw cues."""

    @property
    def fine_std(self) -> FloatArray: ...
    @property
    def coarse_std(self) -> FloatArray: ...
    @property
    def spread(self) -> FloatArray: ...
    @property
    def doubt(self) -> FloatArray: ...
    @property
    def fine_window(self) -> FloatArray: ...


def _as_numbers(name: str, values: ArrayLike, count: int) -> tuple[float, ...]:
    array = _as_floats(name, np.atleast_1d(values), (count,))
    return tuple(float(v) for v in array)


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The fitted parameters of one matcher's error law.

    Eight numbers are stored, not the paper's nine: only the two intercepts
    β_d = −k_s t_d − k_m t_m enter the gate, so one direction of the nine is
    free. :meth:`paper_symbols` gives the nine with the gauge t_m = 0, and
    :meth:`from_paper` reads any nine. `location` is our addition: the mean
    residual per axis in units of the fine window, or None as in the paper.

    >>> nine = dict(a_x=4, a_y=4, b_x=1, b_y=1, k_s=0.5, k_m=2, t_x=3, t_y=3, t_m=1)
    >>> calibration = Calibration.from_paper(**nine)
    >>> calibration.intercept
    (-3.5, -3.5)
    >>> calibration.paper_symbols()["t_x"]
    7.0
    """

    coarse_var_gain: tuple[float, float]  # a_x, a_y
    fine_var_gain: tuple[float, float]  # b_x, b_y
    spread_slope: float  # k_s, logit per % of the image side
    doubt_slope: float  # k_m, logit per nat
    intercept: tuple[float, float]  # logit
    location: tuple[float, float] | None = None  # in fine windows
    shared_error: float | None = None  # a factor of what a pair errs in common
    law: LawName = "mixture"
    matcher: str = "unknown"
    resolution: tuple[int, int] | None = None  # width, height it was fitted at
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        pairs = ["coarse_var_gain", "fine_var_gain", "intercept"]
        if self.location is not None:
            pairs.append("location")
        for name in pairs:
            object.__setattr__(self, name, _as_numbers(name, getattr(self, name), 2))
        for name in ("spread_slope", "doubt_slope"):
            number = _as_numbers(name, getattr(self, name), 1)[0]
            object.__setattr__(self, name, number)
        for name in ("coarse_var_gain", "fine_var_gain"):
            if min(getattr(self, name)) <= 0:
                raise InputError(
                    f"{name} must be positive, but is {getattr(self, name)}."
                )
        if self.shared_error is not None and not 0 <= self.shared_error < np.inf:
            raise InputError(
                f"shared_error must not be negative, but is {self.shared_error}."
            )
        if self.law not in LAW_NAMES:
            raise InputError(
                f"law must be one of {', '.join(LAW_NAMES)}, but is {self.law!r}."
            )
        if self.resolution is not None:
            size = _as_size("resolution", self.resolution)
            object.__setattr__(self, "resolution", size)

    @classmethod
    def from_paper(
        cls,
        *,
        a_x: float,
        a_y: float,
        b_x: float,
        b_y: float,
        k_s: float,
        k_m: float,
        t_x: float,
        t_y: float,
        t_m: float,
        **named: Any,
    ) -> Calibration:
        """A calibration from the paper's nine numbers, whatever their gauge."""
        return cls(
            coarse_var_gain=(a_x, a_y),
            fine_var_gain=(b_x, b_y),
            spread_slope=k_s,
            doubt_slope=k_m,
            intercept=(-k_s * t_x - k_m * t_m, -k_s * t_y - k_m * t_m),
            **named,
        )

    def paper_symbols(self) -> dict[str, float | None]:
        """The paper's nine with t_m = 0; the knees are None where k_s = 0."""
        k_s = self.spread_slope
        knees = [-beta / k_s if k_s else None for beta in self.intercept]
        return {
            "a_x": self.coarse_var_gain[0],
            "a_y": self.coarse_var_gain[1],
            "b_x": self.fine_var_gain[0],
            "b_y": self.fine_var_gain[1],
            "k_s": k_s,
            "k_m": self.doubt_slope,
            "t_x": knees[0],
            "t_y": knees[1],
            "t_m": 0.0,
        }


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimate:
    """What a robust estimator found, or why it found nothing."""

    model: FloatArray | None  # H_01, 3 × 3, last entry 1 if it can be; [R | t], 3 × 4
    inliers: BoolArray  # (n,)
    estimator: str
    reason: str | None = None  # why `model` is None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Refit:
    """A refitted model, its weights, and how it came about."""

    model: FloatArray | None  # the initial model where `reason` is set
    weight: FloatArray  # (n,), the weights behind `model`
    initial: FloatArray | None
    method: str
    reason: str | None = None  # why the initial model was kept
    iterations: int = 1
    log_likelihood: tuple[float, float] | None = None  # initial, returned; nats
    std_floor_px: float | None = None  # the law's floor on raw standard deviations
    uncertainty: Callable[[], FloatArray | None] | None = field(
        default=None, repr=False
    )

    @property
    def covariance(self) -> FloatArray | None:
        """Covariance of `model`, made when asked for; None where there is none.

        Homography: 8 × 8 px² of the images of image 0's corners, x and y in turn.
        Pose: 6 × 6 of the tangent (ω, v) of :mod:`semisure.geometry.pose`.
        """
        return None if self.uncertainty is None else self.uncertainty()


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Pair:
    """Two images and, where known, the homography between them."""

    name: str
    image0: Path
    image1: Path
    H_01: FloatArray | None = None
    group: str = ""  # of pairs that share an image or a scene


@runtime_checkable
class RobustEstimator(Protocol):
    """Anything that turns two point sets into an :class:`Estimate`."""

    def __call__(
        self, source: FloatArray, target: FloatArray, confidence: FloatArray
    ) -> Estimate: ...


@runtime_checkable
class Matcher(Protocol):
    """Anything that turns two images, (h, w) or (h, w, 3) uint8, into matches."""

    def __call__(
        self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]
    ) -> Matches: ...
