"""The error that all matches to one image share, as a field over the image.

The model follows it, so that no residual shows it:
:mod:`semisure.refit.covariance`. Under a homography most of it is one offset δ that the
matcher adds to the points of both images, such as cells that are named by their first
pixel. It does nothing between images that are shifted, and moves all matches by
(A − I) δ where A is the local map: by as much as the view changes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.types import FloatArray, Labels, Mask, Matrix, PerMatch, Points

# The least among the views that calibrations are made on: below it nothing is known,
# and light or season may make a pair err together that no view tells apart.
MIN_VIEW_CHANGE = 0.1
# Standard deviations under a homography, relative to that of a shift: of the functions
# 1, x, y, xy for either axis, and of the offset. Chosen on views of photos matched by
# XFeat*, whose offset, 2.4 px, was not taken off then.
UNDER_PLANE = np.array([1.0, 0.5, 0.5, 0.5, 1.0, 0.5, 0.5, 0.5, 3.0, 3.0])


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """A random bilinear field for each image matched to."""

    factor: float | None
    field: FloatArray  # (4, n)
    change: PerMatch  # of view
    group: Labels  # which image

    def variance(self, score: FloatArray, weight: FloatArray) -> float:
        """px² of the field at a change of view of 1; ψ = w r, so Σ w r² = Σ ψ²/w."""
        assert self.factor is not None
        squares = np.divide(
            score * score, weight, out=np.zeros_like(weight), where=weight > 0
        )
        return self.factor**2 * float(squares.sum() / weight.sum())

    def usual_change(self, of: Mask) -> float:
        """The median change of view of some matches."""
        known = self.change[of & np.isfinite(self.change)]
        return max(float(np.median(known)), MIN_VIEW_CHANGE) if len(known) else 1.0

    def moved(self, turned: FloatArray, used: Mask) -> Matrix:
        """Σ over images, axes, functions of the square of how each moves the scores."""
        total = np.zeros((turned.shape[1], turned.shape[1]))
        field, group = self.field[:, used], self.group[used]
        for one in np.unique(group):
            of = group == one
            moved = turned[:, :, of] @ field[:, of].T
            columns = moved.transpose(1, 0, 2).reshape(len(total), -1)
            seen = self.usual_change(used & (self.group == one))
            total += seen * (columns @ columns.T)
        return total


def bilinear_field(points: Points, size: FloatArray) -> FloatArray:
    """The functions 1, x, y, xy at the points, (4, n); x and y run from −1 to 1."""
    x, y = (2.0 * points / size - 1.0).T
    return np.stack([np.ones(len(points)), x, y, x * y])
