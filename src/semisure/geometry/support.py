"""Signs of a wrong model that agrees with many matches.

Chance does not produce it, but images that look alike do: rows of windows, tiles, text.
The probability that a model is right (:mod:`semisure.pairs.verdict`) is a function of
these numbers and of the test for chance.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot, sqrt

import numpy as np

from semisure.geometry import homography as plane
from semisure.geometry.significance import squares
from semisure.types import (
    Labels,
    Mask,
    Matches,
    Matrix3,
    PerAxis,
    PerMatch,
    Points,
)

# In diagonals of the image: 0.01 are 8 px of 640 × 480.
SHIFT = 0.02  # a match this close to the model is no evidence of another shift
HEAP = 0.015  # side of the cells in which matches of one other shift meet
BLOCK = 0.04  # side of the blocks that hold neighbours
TOGETHER = 0.01  # neighbours move together within this and their own distance


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """The evidence of the matches for and against one model."""

    share: float  # matches that agree, of all that have their partner in view
    spread: float  # of the support over the images, 1 if even over the smaller one
    # Of a homography: pairs of matches that share another shift, against those that
    # agree with the model.
    repeated: float = 0.0
    # Of lines: neighbours that move together, of those that agree, and how many agree
    # for one that the law expects to be right.
    together: float = 1.0
    excess: float = 1.0


def support_of_homography(H_01: Matrix3, matches: Matches, weight: PerMatch) -> Support:
    """The support of a homography whose refit gave the matches their `weight`."""
    with np.errstate(all="ignore"):
        inside = _inside(H_01, matches)
        agree = float(weight[inside].sum())
        residual = plane.residual(H_01, matches) / _diagonal(matches)
        return Support(
            share=_share(agree, float(np.count_nonzero(inside))),
            spread=spread(matches, weight),
            repeated=_repeated(residual, inside, agree),
        )


def support_of_lines(matches: Matches, weight: PerMatch, sure: PerMatch) -> Support:
    """The same for an epipolar geometry, which has no other shifts.

    `sure` is the chance of each match, before any model, that its cells were right.
    """
    return Support(
        share=_share(weight.sum(), len(weight)),
        spread=spread(matches, weight),
        together=_together(matches, np.flatnonzero(weight > 0.5)),
        excess=float(weight.sum() / max(sure.sum(), 1e-9)),
    )


def _diagonal(matches: Matches) -> float:
    """Of the image in which most matches were refined, px."""
    ahead = 2 * np.count_nonzero(matches.side) >= len(matches)
    return hypot(*(matches.target_size if ahead else matches.source_size))


def _share(part: float, whole: float) -> float:
    return float(min(part / max(whole, 1e-9), 1.0))


def _inside(H_01: Matrix3, matches: Matches) -> Mask:
    """Which matches have their place in image 1 under the homography."""
    mapped = plane.project(H_01, matches.source)
    inside = ((mapped >= 0) & (mapped < matches.target_size)).all(axis=1)
    return np.asarray(inside & (plane.depth(H_01, matches.source) > 0))


def _repeated(residual: PerAxis, inside: Mask, agree: float) -> float:
    """Pairs of matches that share another shift from the model, against its own.

    Repeated structure leaves the residuals of its other matches in heaps, a period
    apart from each other; failures scatter, so that hardly two of them meet. Residuals
    are in diagonals of their image.
    """
    largest = np.abs(residual).max(axis=1)
    far = residual[(largest > SHIFT) & (largest < np.inf) & inside]
    if not len(far):
        return 0.0
    pairs = 0.0
    for shift in (0.0, 0.5):  # a heap may lie on the border of a cell
        heap = np.bincount(squares(far, HEAP, shift)).astype(np.float64)
        heap *= heap - 1.0
        pairs = max(pairs, float(heap.sum()))
    return pairs / max(agree, 1.0) ** 2


def _together(matches: Matches, rows: Labels) -> float:
    """The share of neighbours, among some matches, that move together.

    A wrong cell that is on its line agrees with the lines all the same. But surfaces
    are continuous nearly everywhere, and similar tiles are confused at random.
    """
    if len(rows) < 2:
        return 0.5
    source, target = matches.source[rows], matches.target[rows]
    sizes = hypot(*matches.source_size), hypot(*matches.target_size)
    return min(_alike(source, target, *sizes), _alike(target, source, *sizes[::-1]))


def _alike(points: Points, partners: Points, diagonal: float, other: float) -> float:
    """Of pairs of points in one block, the share whose partners are as near.

    An affine map through all takes off what rotation and zoom do to them. One more
    pair, half of which is alike, keeps the share from 0 and 1. Diagonals are those of
    the points' image and of their partners'.
    """
    design = np.column_stack([points - points.mean(axis=0), np.ones(len(points))])
    beyond = partners - design @ np.linalg.lstsq(design, partners, rcond=None)[0]
    number = squares(points, BLOCK * diagonal)
    order = np.argsort(number, kind="stable")
    near = np.flatnonzero(np.diff(number[order]) == 0)
    first, second = order[near], order[near + 1]
    apart = np.linalg.norm(points[first] - points[second], axis=1) / diagonal
    moved = np.linalg.norm(beyond[first] - beyond[second], axis=1) / other
    alike = np.count_nonzero(moved <= TOGETHER + apart)
    return float((alike + 0.5) / (len(near) + 1.0))


def spread(matches: Matches, weight: PerMatch) -> float:
    """How widely the support lies over the image in which it is narrower.

    The root of the area that its standard deviations span, against that of points all
    over the image: 1 if even, 0 if all lie on one line.
    """
    if not weight.sum() > 0:
        return 0.0
    areas = []
    for points, size in (
        (matches.source, matches.source_size),
        (matches.target, matches.target_size),
    ):
        determinant = np.linalg.det(np.cov(points.T, aweights=weight, ddof=0))
        areas.append(12.0 * sqrt(max(determinant, 0.0)) / (size[0] * size[1]))
    return sqrt(min(areas))
