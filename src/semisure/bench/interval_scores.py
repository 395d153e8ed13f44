"""How well laws say how far matches err: intervals, tail, deciles and likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from semisure.law import mixture
from semisure.law.mixture import ErrorLaw
from semisure.metrics import coverage, reliability
from semisure.types import Labels, PerAxis, PerMatch, Vector

TAIL_PX = 8.0
DECILES = 10
MIDDLE = slice(1, -1)  # of the deciles: the outer two rest on the extremes

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
    square: Labels  # of the image; neighbours in one err together

    @classmethod
    def of(
        cls, law: ErrorLaw, residual: PerAxis, square: Labels | None = None
    ) -> Scores:
        """Without squares, each match errs by itself."""
        return cls(
            residual=residual,
            pit=mixture.cdf(law, residual),
            beyond=mixture.prob_beyond(law, TAIL_PX),
            nll=-mixture.log_density(law, residual),
            expected=mixture.expected_abs_error(law),
            square=np.arange(len(residual)) if square is None else square,
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
            ratio = (expected / observed)[MIDDLE]
        off = np.abs(np.log(ratio)).mean()
        values = [*inside, *tail, ratio.min(), ratio.max(), off, self.nll.mean()]
        return dict(zip(NUMBERS, map(float, values), strict=True))


def joined(parts: Sequence[Scores]) -> Scores:
    """The scores of all matches together; no two parts share a square."""
    counts = [int(part.square.max(initial=-1)) + 1 for part in parts]
    first = np.cumsum([0, *counts[:-1]])
    apart = [
        replace(part, square=part.square + begin)
        for part, begin in zip(parts, first, strict=True)
    ]
    return Scores(
        *(
            np.concatenate([getattr(part, name) for part in apart])
            for name in Scores.__dataclass_fields__
        )
    )


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
