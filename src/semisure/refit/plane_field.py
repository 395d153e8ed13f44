"""The matches of a plane in the direction in which they err, and the field over them.

A match's anchor, the point that was not refined, is mapped by H or by its inverse into
the image of the refined one. There its error is, and there the smooth field of
:mod:`semisure.refit.model_error` is felt: cosines over image 0, and lenses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import hypot, sqrt

import numpy as np

from semisure.refit.model_error import APART, cosines, distorted, from_the_middle
from semisure.types import (
    Columns,
    FloatArray,
    Mask,
    Matches,
    Matrix3,
    PerMatch,
    Vector,
)


@dataclass(frozen=True, slots=True, eq=False)
class Direction:
    """From the anchors' image to the refined one."""

    model: Matrix3
    back: Matrix3
    anchor_size: FloatArray
    refined_size: FloatArray
    forward: bool  # image 1 was refined

    @classmethod
    def of(
        cls, H_01: Matrix3, H_10: Matrix3, matches: Matches, *, forward: bool
    ) -> Direction:
        """To image 1 where `forward`, else to image 0."""
        sizes = np.array([matches.source_size, matches.target_size], dtype=np.float64)
        if forward:
            return cls(H_01, H_10, sizes[0], sizes[1], True)
        return cls(H_10, H_01, sizes[1], sizes[0], False)

    def extent_px(self) -> float:
        """The diagonal of the image in which the errors are."""
        return hypot(*self.refined_size.tolist())

    def predicted(self, anchors: Columns) -> Columns:
        """Where the model puts anchors, px."""
        mapped = _mapped(self.model, anchors)
        return mapped[:2] / mapped[2]

    def places(self, refined: Columns) -> Places:
        """Places of the refined image, and their anchors."""
        mapped = _mapped(self.back, refined)
        return Places(self, mapped[:2] / mapped[2], refined, mapped[2])


def _mapped(model: Matrix3, points: Columns) -> FloatArray:
    """Homogeneous coordinates of the images of points, (3, n)."""
    mapped = model[:, :2] @ points
    mapped += model[:, 2:]
    return mapped


@lru_cache(maxsize=8)
def _per_half(width: float, height: float) -> FloatArray:
    """1 px as a part of half the image, along either axis, (2, 1)."""
    return np.array([[2.0 / width], [2.0 / height]])


@lru_cache(maxsize=8)
def _from_the_middles(*sizes: float) -> tuple[FloatArray, FloatArray]:
    """:func:`from_the_middle` of two images, (2, 1, 1) and (2, 2, 1)."""
    scales, shifts = zip(
        from_the_middle(*sizes[:2]), from_the_middle(*sizes[2:]), strict=True
    )
    return np.array(scales)[:, None, None], np.array(shifts)


@dataclass(frozen=True, slots=True, eq=False)
class Places:
    """Anchors that the model puts at some places, and their depths there."""

    direction: Direction
    anchor: Columns
    refined: Columns
    per_depth: PerMatch  # 1 / third homogeneous coordinate of the mapped anchor

    def out_of_view(self) -> Mask | None:
        """Which anchors lie farther from their image than half of it; None if none."""
        off = self.anchor * _per_half(*self.direction.anchor_size.tolist())
        off -= 1.0
        near = np.abs(off, out=off) < 2.0
        return None if near.all() else np.logical_not(near.all(axis=0))

    def local_change(self, out: FloatArray) -> None:
        """Transposed A − I of the local map A onto the refined side, (2, 2, n)."""
        A = self.direction.model[:, :2].T[:, :, None]
        np.multiply(A[:, 2:], self.refined, out=out)
        np.subtract(A[:, :2], out, out=out)
        out *= self.per_depth
        out.reshape(4, -1)[::3] -= 1.0

    def cosines(self) -> FloatArray:
        """Cosines over image 0 as large as usual, (8, n), each for either axis."""
        direction = self.direction
        if direction.forward:
            return cosines(self.anchor.T, direction.anchor_size)
        return cosines(self.refined.T, direction.refined_size)

    def lenses(self, change: FloatArray, out: FloatArray) -> None:
        """What a lens does by which the images differ, and one that both have.

        `change` is the local one, and `out` is their place, (2, 2, n).
        """
        scale, shift = _from_the_middles(
            *self.direction.anchor_size.tolist(), *self.direction.refined_size.tolist()
        )
        both = np.array([self.anchor, self.refined])
        both *= scale
        both += shift
        off, own = distorted(both)
        # A times the distortion: what the anchor's lens does on the other side.
        moved = change[0] * off[0]
        moved += change[1] * off[1]
        moved += off
        np.add(own, moved, out=out[0])
        out[0] *= APART
        np.subtract(own, moved, out=out[1])

    def bilinear(self, out: FloatArray) -> None:
        """The functions 1, x, y, xy, with x and y from −1 to 1, put in `out` (4, n)."""
        out[0] = 1.0
        per_half = _per_half(*self.direction.refined_size.tolist())
        np.multiply(self.refined, per_half, out=out[1:3])
        out[1:3] -= 1.0
        np.multiply(out[1], out[2], out=out[3])


@lru_cache(maxsize=8)
def least_of_field(least_px: float, count: int) -> Vector:
    """The least size of each of the field's functions, px.

    Either image may have a lens of its own of `least_px`: c₀ l₀ + c₁ l₁ is half of
    (c₀ + c₁) times l₀ + l₁, and half of (c₁ − c₀) times l₁ − l₀.
    """
    least = np.full(count, least_px)
    least[-2] *= sqrt(0.5) / APART
    least[-1] *= sqrt(0.5)
    return least
