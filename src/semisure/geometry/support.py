"""Signs of a model that agrees with many matches and is wrong all the same.

Chance does not produce it, but images that look alike do: rows of windows, tiles, text.
Three numbers, and the test for chance, are what the probability that a model is right
(:mod:`semisure.pipeline.verdict`) is made of.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt

import numpy as np

from semisure.geometry import homography as plane
from semisure.geometry.squares import heaps_of
from semisure.types import (
    Columns,
    FloatArray,
    Labels,
    Mask,
    Matches,
    Matrix,
    Matrix3,
    PerMatch,
)

RIVAL_PX = 8.0  # side of the cells in which residuals of a competing model meet
NEAR_PX = 6.0  # a match this close to the model does not speak for another one


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What the matches say for and against one model."""

    share: float  # matches that agree, of all that have their partner in view
    rival: float  # support of the best competing shift against the model's own
    spread: float  # of the support over the images, 1 if even over the smaller one


def support_of_homography(
    H_01: Matrix3,
    matches: Matches,
    weight: PerMatch,
    sure: Callable[[Labels], PerMatch],
) -> Support:
    """The support of a homography whose refit gave the matches their `weight`.

    `sure` is the chance of some matches, by their rows and before any model, that their
    cells were right.
    """
    with np.errstate(all="ignore"):
        mapped = H_01[:, :2] @ matches.source.T
        mapped += H_01[:, 2:]
        inside = _inside(mapped, matches.target_size)
        agree = float(weight @ inside)
        if matches.side.all():
            residual = matches.target.T - mapped[:2] / mapped[2]
        else:
            residual = plane.residual(H_01, matches).T
        return Support(
            share=_share(agree, float(np.count_nonzero(inside))),
            rival=_rival(residual, inside, agree, sure),
            spread=spread(matches, weight),
        )


def support_of_lines(matches: Matches, weight: PerMatch) -> Support:
    """The same of an epipolar geometry, which knows no rival shift."""
    return Support(
        share=_share(weight.sum(), len(weight)),
        rival=0.0,
        spread=spread(matches, weight),
    )


def _share(part: float, whole: float) -> float:
    return float(min(part / max(whole, 1e-9), 1.0))


def _inside(mapped: FloatArray, size: tuple[int, int]) -> Mask:
    """Which points of an image of that size have homogeneous coordinates `mapped`."""
    x, y, depth = mapped
    width, height = size
    # Where depth is positive, 0 ≤ x / depth < width without a division.
    inside = (x >= 0) & (y >= 0)
    inside &= x < width * depth
    inside &= y < height * depth
    return np.asarray(inside & (depth > 0))


def _rival(
    residual: Columns,
    inside: Mask,
    agree: float,
    sure: Callable[[Labels], PerMatch],
) -> float:
    """Matches that share another shift from the model, against those that agree.

    Repeated structure leaves the residuals of its other matches in heaps, a period
    apart from each other; failures scatter.
    """
    size = np.abs(residual)
    largest = np.maximum(size[0], size[1])
    rows = np.flatnonzero((largest > NEAR_PX) & (largest < np.inf) & inside)
    if not len(rows):
        return 0.0
    far, chance = np.take(residual, rows, axis=1), sure(rows)
    heaps = []
    for shift in (0.0, 0.5):  # a heap may lie on the border of a cell
        number, _ = heaps_of(far, RIVAL_PX, shift)
        heaps.append(float(np.bincount(number, chance).max()))
    return _share(max(heaps), agree)


def spread(matches: Matches, weight: PerMatch) -> float:
    """How widely the support lies over the image in which it is narrower.

    The root of the area that its standard deviations span, against that of points all
    over the image: 1 if even, 0 if all lie on one line.
    """
    total = float(weight.sum())
    if not total > 0:
        return 0.0
    both = []
    for points, size in (
        (matches.source, matches.source_size),
        (matches.target, matches.target_size),
    ):
        # From the middle of the image, so that squares keep their digits.
        off = points.T - 0.5 * np.array([size]).T
        weighted = off * weight
        mean = weighted.sum(axis=1) / total
        covariance = weighted @ off.T / total - np.outer(mean, mean)
        both.append(_spanned(covariance) * 12.0 / (size[0] * size[1]))
    return sqrt(min(both))


def _spanned(covariance: Matrix) -> float:
    """√ of the determinant of a covariance of points, px²."""
    (a, b), (_, c) = covariance.tolist()
    return sqrt(max(a * c - b * b, 0.0))
