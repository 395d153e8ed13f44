"""The fitted parameters of an error law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from semisure.errors import InputError
from semisure.types.checks import (
    as_choice,
    as_number,
    as_numbers,
    as_size,
    put,
    require_kind,
)
from semisure.types.display import counted, size_text

LawName = Literal[
    "mixture",
    "fine_only",
    "gaussian",
    "uncalibrated",
    "no_confidence_gate",
    "hard_gate",
]
LAW_NAMES: tuple[LawName, ...] = get_args(LawName)


@dataclass(frozen=True, slots=True, kw_only=True)
class AlongLines:
    """Errors along epipolar lines, by :mod:`semisure.law.pair_law`."""

    fine: float = 0.0  # log λ, of a factor of the fine scale along lines
    coarse: float = 0.0  # log μ, of the coarse one
    gate: float = 0.0  # g, added to the logit of failing
    departure: float = 0.0  # k, what the departure from neighbours adds to it

    def __post_init__(self) -> None:
        for name in ("fine", "coarse", "gate", "departure"):
            put(self, **{name: as_number(name, getattr(self, name))})


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpread:
    """How the laws of single pairs differ from their matcher's.

    One set of numbers does not fit every scene. A pair differs from the usual one by
    four effects, each given by its mean and standard deviation over pairs. Errors along
    an epipolar line, which its distance does not show, are described apart.

    >>> spread = PairSpread(
    ...     fine=(0.0, 0.3), gate=(0.0, 1.0), coarse=(0.0, 0.5), background=(-5.0, 1.0))
    >>> spread.means
    (0.0, 0.0, 0.0, -5.0)
    """

    fine: tuple[float, float]  # log of a factor of the fine scales
    gate: tuple[float, float]  # added to the gate's logit
    coarse: tuple[float, float]  # log of a factor of the coarse scales
    background: tuple[float, float]  # logit of failing whatever the cues say
    # Effects that describe matches of an unknown pair best: wider than the means.
    usual: tuple[float, float, float, float] | None = None
    along: AlongLines = AlongLines()

    def __post_init__(self) -> None:
        for name in ("fine", "gate", "coarse", "background"):
            mean, deviation = as_numbers(name, getattr(self, name), 2)
            if not deviation > 0:
                raise InputError(
                    f"{name} must be a mean and a positive standard deviation, but is "
                    f"{getattr(self, name)}."
                )
            put(self, **{name: (mean, deviation)})
        if self.usual is not None:
            put(self, usual=as_numbers("usual", self.usual, 4))
        if isinstance(self.along, Mapping):  # as files have it
            put(self, along=AlongLines(**self.along))

    @property
    def means(self) -> tuple[float, float, float, float]:
        return self.fine[0], self.gate[0], self.coarse[0], self.background[0]

    @property
    def deviations(self) -> tuple[float, float, float, float]:
        return self.fine[1], self.gate[1], self.coarse[1], self.background[1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """The fitted parameters of one matcher's error law.

    Eight numbers are stored, not the paper's nine: only the two intercepts
    β_d = −k_s t_d − k_m t_m enter the gate, so one direction of the nine is
    free. :meth:`paper_symbols` gives the nine with the gauge t_m = 0, and
    :meth:`from_paper` reads any nine. `location` is our addition: the mean
    residual per axis in units of the fine window, or None as in the paper. So is
    `pairs`: with it the law can adapt to a pair of known geometry.

    >>> nine = dict(a_x=4, a_y=4, b_x=1, b_y=1, k_s=0.5, k_m=2, t_x=3, t_y=3, t_m=1)
    >>> calibration = Calibration.from_paper(**nine)
    >>> calibration.intercept
    (-3.5, -3.5)
    >>> calibration.paper_symbols()["t_x"]
    7.0
    >>> calibration
    Calibration(unknown, law mixture)
    """

    coarse_var_gain: tuple[float, float]  # a_x, a_y
    fine_var_gain: tuple[float, float]  # b_x, b_y
    spread_slope: float  # k_s, logit per % of the image side
    doubt_slope: float  # k_m, logit per nat
    intercept: tuple[float, float]  # logit
    location: tuple[float, float] | None = None  # in fine windows
    # Least error of a model that no match averages away, in image diagonals: 0 where
    # images have no lens and planes no relief, None for photographs.
    model_error: float | None = None
    pairs: PairSpread | None = None  # how pairs differ; None as in the paper
    law: LawName = "mixture"
    matcher: str = "unknown"
    resolution: tuple[int, int] | None = None  # width, height it was fitted at
    provenance: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("coarse_var_gain", "fine_var_gain", "intercept", "location"):
            if name != "location" or self.location is not None:
                put(self, **{name: as_numbers(name, getattr(self, name), 2)})
        for name in ("spread_slope", "doubt_slope"):
            put(self, **{name: as_number(name, getattr(self, name))})
        for name in ("coarse_var_gain", "fine_var_gain"):
            gain = getattr(self, name)
            if min(gain) <= 0:
                raise InputError(f"{name} must be positive, but is {gain}.")
        if self.model_error is not None:
            share = as_number("model_error", self.model_error)
            if not 0 <= share < 1:
                raise InputError(
                    "model_error must be a share of the image's diagonal from 0 to 1, "
                    f"but is {share}."
                )
            put(self, model_error=share)
        as_choice("law", self.law, LAW_NAMES)
        if self.resolution is not None:
            put(self, resolution=as_size("resolution", self.resolution))

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

    @property
    def origin(self) -> str | None:
        """How it was made, in words, if its provenance has that."""
        first = self.provenance.get("first_use")
        if isinstance(first, Mapping) and isinstance(first.get("views"), int):
            return f"calibrated on first use, {counted(first['views'], 'view')}"
        method = self.provenance.get("method")
        return method if isinstance(method, str) else None

    def __repr__(self) -> str:
        size = () if self.resolution is None else (size_text(self.resolution),)
        parts = (self.matcher, f"law {self.law}", *size, self.origin)
        return f"Calibration({', '.join(part for part in parts if part)})"

    @property
    def caution(self) -> str | None:
        """A warning if its errors were wrong on what was held out of the fit."""
        trial = self.provenance.get("trial")
        if not isinstance(trial, Mapping) or trial.get("trusted", True):
            return None
        expected, observed = (
            f"{trial[name]:.2f} px" if isinstance(trial.get(name), float) else "?"
            for name in ("expected_px", "observed_px")
        )
        return (
            "This calibration is not to be trusted: on what was held out of its fit it "
            f"predicted {expected}, but {observed} were observed. Calibrate with more "
            "images."
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


def require_calibration(calibration: object) -> None:
    """Raise unless it is one: people pass its name, or the file's path."""
    path = repr(calibration) if isinstance(calibration, str) else "path"
    advice = f"Read it first: semisure.load_calibration({path})."
    require_kind("calibration", calibration, Calibration, advice)
