"""Signs of a model that agrees with many matches and is wrong all the same.

Chance does not produce it, but images that look alike do: rows of windows, tiles, text.
Three numbers, and the test for chance, are what the probability that a model is right
(:mod:`semisure.pipeline.verdict`) is made of.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.geometry import homography as plane
from semisure.geometry.squares import square_of
from semisure.types import Mask, Matches, Matrix3, PerAxis, PerMatch, Points

RIVAL_PX = 8.0  # side of the cells in which residuals of a competing model meet
NEAR_PX = 6.0  # a match this close to the model does not speak for another one


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What the matches say for and against one model."""

    share: float  # matches that agree, of all that have their partner in view
    rival: float  # support of the best competing shift against the model's own
    spread: float  # of the support over the images, 1 if even over the smaller one


def support_of_homography(
    H_01: Matrix3, matches: Matches, weight: PerMatch, sure: PerMatch
) -> Support:
    """The support of a homography whose refit gave the matches their `weight`.

    `sure` is the chance of each match, before any model, that its cell was right.
    """
    residual = plane.residual(H_01, matches)
    inside = _inside(H_01, matches)
    return Support(
        share=_share(weight[inside].sum(), float(inside.sum())),
        rival=_rival(residual[inside], weight[inside], sure[inside]),
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


def _inside(H_01: Matrix3, matches: Matches) -> Mask:
    """Matches whose partner should be in view, by the model."""
    with np.errstate(all="ignore"):
        there = plane.project(H_01, matches.source)
        depth = plane.depth(H_01, matches.source)
        size = np.array(matches.target_size)
        return np.asarray(((there >= 0) & (there < size)).all(axis=1) & (depth > 0))


def _rival(residual: PerAxis, weight: PerMatch, sure: PerMatch) -> float:
    """Matches that share another shift from the model, against those that agree.

    Repeated structure leaves the residuals of its other matches in heaps, a period
    apart from each other; failures scatter.
    """
    largest = np.abs(residual).max(axis=1)
    far = np.asarray((largest > NEAR_PX) & np.isfinite(largest))
    if not far.any():
        return 0.0
    heaps = []
    for shift in (0.0, 0.5):  # a heap may lie on the border of a cell
        squares = square_of(residual[far], RIVAL_PX, shift)
        _, heap = np.unique(squares, return_inverse=True)
        heaps.append(float(np.bincount(heap, sure[far]).max()))
    return _share(max(heaps), float(weight.sum()))


def spread(matches: Matches, weight: PerMatch) -> float:
    """How widely the support lies over the image in which it is narrower.

    The root of the area that its standard deviations span, against that of points all
    over the image: 1 if even, 0 if all lie on one line.
    """
    both = []
    for points, size in (
        (matches.source, matches.source_size),
        (matches.target, matches.target_size),
    ):
        both.append(_spanned(points, weight) * 12.0 / (size[0] * size[1]))
    return float(np.sqrt(min(both)))


def _spanned(points: Points, weight: PerMatch) -> float:
    total = float(weight.sum())
    if not total > 0:
        return 0.0
    off = points - weight @ points / total
    C = (off.T * weight) @ off / total
    return float(np.sqrt(max(np.linalg.det(C), 0.0)))
