"""How well laws say how far matches err: intervals, tail, deciles and likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure import mixture
from semisure.metrics import coverage, reliability
from semisure.mixture import ErrorLaw
from semisure.types import PerAxis, PerMatch, Vector

TAIL_PX = 8.0
DECILES = 10
DRAWS = 20  # of all errors, to find what a right law would meet
_MIDDLE = slice(1, -1)  # of the deciles: the outer two rest on the extremes

NUMBERS = (
    "in 50 %",
    "in 90 %",
    "> 8 px, predicted %",
    "> 8 px, observed %",
    "least ratio",
    "largest ratio",
    "mean |log ratio|",
    "NLL",
)


@dataclass(frozen=True, slots=True, eq=False)
class Scores:
    """What a law says of matches, and their true residuals."""

    residual: PerAxis  # px
    pit: PerAxis  # P(R ≤ r)
    beyond: PerAxis  # P(|R| > TAIL_PX)
    nll: PerAxis  # nats
    expected: PerMatch  # px, mean over axes

    @classmethod
    def of(cls, law: ErrorLaw, residual: PerAxis) -> Scores:
        return cls(
            residual=residual,
            pit=mixture.cdf(law, residual),
            beyond=mixture.prob_beyond(law, TAIL_PX),
            nll=-mixture.log_density(law, residual),
            expected=mixture.expected_abs_error(law),
        )

    def __len__(self) -> int:
        return len(self.residual)

    @property
    def deciles(self) -> tuple[Vector, Vector]:
        """Mean expected and observed |error| by decile of the expected one, px."""
        observed = np.abs(self.residual).mean(axis=1)
        return reliability(self.expected, observed, DECILES)[:2]

    def numbers(self) -> dict[str, Any]:
        """The numbers that are printed; None for all of them without matches."""
        if len(self) < DECILES:
            return dict.fromkeys(NUMBERS)
        inside = 100.0 * coverage(self.pit, [0.5, 0.9])
        beyond = np.abs(self.residual) > TAIL_PX
        tail = 100.0 * self.beyond.mean(), 100.0 * beyond.mean()
        expected, observed = self.deciles
        with np.errstate(divide="ignore"):  # matches without any error
            ratio = (expected / observed)[_MIDDLE]
        off = np.abs(np.log(ratio)).mean()
        values = [*inside, *tail, ratio.min(), ratio.max(), off, self.nll.mean()]
        return dict(zip(NUMBERS, map(float, values), strict=True))


def joined(parts: Sequence[Scores]) -> Scores:
    """The scores of all matches together."""
    return Scores(
        *(
            np.concatenate([getattr(part, name) for part in parts])
            for name in Scores.__dataclass_fields__
        )
    )


def chance_of_deciles(laws: Sequence[ErrorLaw], seed: int = 0) -> float:
    """How often laws meet the bar of deciles on errors drawn from themselves.

    Each error is drawn on its own. Real neighbours err together, so that no law, right
    as it may be, can hope for more.
    """
    rng = np.random.default_rng(seed)
    met = 0
    for _ in range(DRAWS):
        drawn = [Scores.of(law, mixture.sample(law, rng)) for law in laws]
        numbers = joined(drawn).numbers()
        met += numbers["NLL"] is not None and bars(numbers).deciles
    return met / DRAWS


@dataclass(frozen=True, slots=True)
class Bars:
    """Which bars the numbers of a scene meet."""

    off_50: float  # points
    off_90: float
    covers: bool
    tail: bool
    deciles: bool


def bars(numbers: dict[str, Any]) -> Bars:
    """Coverage within 7 / 4 points, tail within a third, deciles within 30 %.

    >>> row = dict(zip(NUMBERS, [55.0, 88.0, 3.0, 4.0, 0.8, 1.2, 0.1, 1.0]))
    >>> bars(row)
    Bars(off_50=5.0, off_90=2.0, covers=True, tail=True, deciles=True)
    """
    off = abs(numbers["in 50 %"] - 50.0), abs(numbers["in 90 %"] - 90.0)
    predicted, observed = (numbers[f"> 8 px, {k} %"] for k in ("predicted", "observed"))
    return Bars(
        *off,
        covers=off[0] <= 7.0 and off[1] <= 4.0,
        tail=abs(predicted - observed) <= observed / 3.0,
        deciles=numbers["least ratio"] >= 0.7 and numbers["largest ratio"] <= 1.3,
    )
