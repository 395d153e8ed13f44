"""Keypoints moved so that the matches between them agree.

A match of the points p and q, taken by the keypoints k and l next to them, is off by
how far k is from p and l from q: hloc leaves it so. But around a match one image is an
affine map A of the other, which the neighbouring matches tell, so that it says

    k − p = A (l − q)        up to the match's own error.

All matches together are a sparse linear least-squares problem for the keypoints, each
weighted by its precision. A track as a whole may slide over the scene; a weak pull
towards where the keypoint was found keeps it there. Conjugate gradients solve it; a
match that disagrees with the others loses its weight, and is told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from semisure.types import FloatArray, Labels, PerMatch, Points

PULL = 2.0  # times the radius: how far keypoints may move, one standard deviation
ROUNDS = 3  # of reweighting
MAX_ITERATIONS = 60  # of conjugate gradients, in each round
TOLERANCE = 1e-3  # of the residual's length


@dataclass(frozen=True, slots=True, eq=False)
class Links:
    """Matches between keypoints, which are numbered through all images."""

    first: Labels  # (n,) keypoint of one image
    second: Labels  # (n,) keypoint of the other
    map: FloatArray  # (n, 2, 2) A, ∂ first / ∂ second
    gap: Points  # (n, 2) px: what k − A l must become, less what it is
    precision: PerMatch  # 1 / px², of the gap
    scale: PerMatch  # px of the image for a pixel that was matched

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def joined(cls, parts: list[Links]) -> Links:
        names = ("first", "second", "map", "gap", "precision", "scale")
        return cls(*(np.concatenate([getattr(p, n) for p in parts]) for n in names))


@dataclass(frozen=True, slots=True, eq=False)
class Placed:
    """Moves of the keypoints, what is left of the gaps, and the last weights."""

    move: Points  # (k, 2) px
    gap: Points  # (n, 2) px
    weight: PerMatch  # (n,), 0 to 1: how far a match agrees with the others


def place(links: Links, expected_move: PerMatch) -> Placed:
    """Where the keypoints must go for the matches to agree.

    `expected_move` (k,) px is the standard deviation of each keypoint's move.

    >>> chain = Links(  # a – b – c; b is 1 px too far right for a, and c for b
    ...     np.array([0, 1]), np.array([1, 2]), np.tile(np.eye(2), (2, 1, 1)),
    ...     np.array([[1.0, 0.0], [1.0, 0.0]]), np.full(2, 1e6), np.ones(2))
    >>> moved = place(chain, np.ones(3))
    >>> moved.move[:, 0].round(3).tolist(), moved.gap.round(3).tolist()
    ([1.0, 0.0, -1.0], [[0.0, 0.0], [0.0, 0.0]])
    """
    move: Points = np.zeros((len(expected_move), 2))
    weight = np.ones(len(links))
    for _ in range(ROUNDS):
        system = _System(links, weight * links.precision, expected_move)
        move = system.solved(move)
        gap = links.gap - system.differences(move)
        # Cauchy's weight, at the match's own error or a pixel, whichever is more.
        width = 1.0 / links.precision + links.scale**2
        weight = 1.0 / (1.0 + (gap**2).sum(axis=1) / width)
    return Placed(move, gap, weight)


class _System:
    """The normal equations, never written out: a product with them is enough."""

    def __init__(self, links: Links, weight: PerMatch, expected_move: PerMatch) -> None:
        self.links, self.weight = links, weight
        self.count = len(expected_move)
        self.pull = 1.0 / expected_move**2
        self._inverse_blocks = np.linalg.inv(self._blocks())

    def differences(self, move: Points) -> Points:
        """k − A l of all matches."""
        back = np.einsum("nij,nj->ni", self.links.map, move[self.links.second])
        return move[self.links.first] - back

    def gathered(self, differences: Points) -> Points:
        """The transposed product: what differences mean to each keypoint."""
        weighted = self.weight[:, None] * differences
        back = np.einsum("nij,ni->nj", self.links.map, weighted)
        return self._summed(self.links.first, weighted) - self._summed(
            self.links.second, back
        )

    def product(self, move: Points) -> Points:
        return self.gathered(self.differences(move)) + self.pull[:, None] * move

    def solved(self, start: Points) -> Points:
        """The moves, by conjugate gradients preconditioned with 2 × 2 blocks."""
        x = start
        wanted = self.gathered(self.links.gap)
        r = wanted - self.product(x)
        enough = TOLERANCE * np.linalg.norm(wanted)
        z = self._preconditioned(r)
        p, rz = z, float((r * z).sum())
        for _ in range(MAX_ITERATIONS):
            if np.linalg.norm(r) <= enough:
                break
            product = self.product(p)
            step = rz / float((p * product).sum())
            x, r = x + step * p, r - step * product
            z = self._preconditioned(r)
            rz, before = float((r * z).sum()), rz
            p = z + (rz / before) * p
        return x

    def _blocks(self) -> FloatArray:
        squares = np.einsum(
            "n,nki,nkj->nij", self.weight, self.links.map, self.links.map
        )
        blocks = self._summed(self.links.second, squares.reshape(-1, 4))
        blocks[:, [0, 3]] += self._summed(self.links.first, self.weight[:, None])
        blocks[:, [0, 3]] += self.pull[:, None]
        return blocks.reshape(-1, 2, 2)

    def _preconditioned(self, r: Points) -> Points:
        return np.einsum("kij,kj->ki", self._inverse_blocks, r)

    def _summed(self, keypoint: Labels, values: FloatArray) -> FloatArray:
        """Values (n, c) summed by keypoint, (k, c)."""
        columns = [np.bincount(keypoint, column, self.count) for column in values.T]
        return np.stack(columns, axis=1)
