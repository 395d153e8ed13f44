"""Keypoints moved so that the matches between them agree.

A match of the points p and q, taken by the keypoints k and l next to them, has
the errors k − p and l − q, which hloc leaves. But around a match one image is an
affine map A of the other, which the neighbouring matches give, so that

    k − p = A (l − q)        up to the match's own error.

All matches together are a sparse linear least-squares problem for the keypoints, each
weighted by its precision. A track as a whole may slide over the scene; a weak pull
towards where its keypoints began prevents that. Conjugate gradients solve it; a match
that disagrees with the others loses its weight.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from semisure.types import FloatArray, Labels, PerMatch, Points

ROUNDS = 3  # of reweighting
MAX_ITERATIONS = 60  # of conjugate gradients, in each round
TOLERANCE = 1e-3  # of the residual's length


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Links:
    """Matches between keypoints, which are numbered through all images."""

    first: Labels  # (n,) keypoint of one image
    second: Labels  # (n,) keypoint of the other
    map: FloatArray  # (n, 2, 2) A, ∂ first / ∂ second
    gap: Points  # (n, 2) px: what k − A l must become, less what it is
    precision: PerMatch  # 1 / px², of the gap
    pixel: PerMatch  # px of the image for a pixel that was matched

    @classmethod
    def joined(cls, parts: list[Links]) -> Links:
        """The links of all pairs."""
        names = [field.name for field in fields(cls)]
        return cls(**{n: np.concatenate([getattr(p, n) for p in parts]) for n in names})


def place(links: Links, expected_move: PerMatch) -> tuple[Points, PerMatch]:
    """Moves of keypoints that make the matches agree; weights of matches, 0 to 1.

    `expected_move` (k,) px is the standard deviation of each keypoint's move.

    >>> chain = Links(  # a – b – c; b is 1 px too far right for a, and c for b
    ...     first=np.array([0, 1]), second=np.array([1, 2]),
    ...     map=np.tile(np.eye(2), (2, 1, 1)), gap=np.array([[1.0, 0.0], [1.0, 0.0]]),
    ...     precision=np.full(2, 1e6), pixel=np.ones(2))
    >>> move, weight = place(chain, np.ones(3))
    >>> move[:, 0].round(3).tolist(), weight.round(3).tolist()
    ([1.0, 0.0, -1.0], [1.0, 1.0])
    """
    from scipy.sparse import bsr_array, diags_array
    from scipy.sparse.linalg import cg

    n, k = len(links.first), len(expected_move)
    blocks = np.stack([np.broadcast_to(np.eye(2), (n, 2, 2)), -links.map], axis=1)
    ends = np.stack([links.first, links.second], axis=1).ravel()
    starts = np.arange(0, 2 * n + 1, 2)
    shape = 2 * n, 2 * k
    J = bsr_array((blocks.reshape(-1, 2, 2), ends, starts), shape=shape).tocsr()
    gap, pull = links.gap.ravel(), diags_array(np.repeat(expected_move, 2) ** -2)
    move, agreement = np.zeros(2 * k), np.ones(n)
    for _ in range(ROUNDS):
        weighted = J.T @ diags_array(np.repeat(agreement * links.precision, 2))
        normal = (weighted @ J + pull).tocsr()
        # The 2 × 2 blocks about each keypoint.
        (xx, yy), xy = normal.diagonal().reshape(-1, 2).T, normal.diagonal(1)[::2]
        own = np.linalg.inv(np.stack([xx, xy, xy, yy], axis=1).reshape(-1, 2, 2))
        move, _ = cg(
            normal,
            weighted @ gap,
            x0=move,
            rtol=TOLERANCE,
            maxiter=MAX_ITERATIONS,
            M=bsr_array((own, np.arange(k), np.arange(k + 1))),
        )
        squares = ((gap - J @ move) ** 2).reshape(-1, 2).sum(axis=1)
        # Cauchy's weight, at the match's own error or a pixel, whichever is more.
        agreement = 1.0 / (1.0 + squares / (1.0 / links.precision + links.pixel**2))
    return move.reshape(-1, 2), agreement
