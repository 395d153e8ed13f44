"""The offset of both points of a match, from pairs whose truth is known.

A matcher that names cells by a corner misplaces both points, each by a share of its own
cell: the refined one by (μ + δ) w, the other by δ v, with w and v their windows. Their
residual is then (μ + δ) w − A δ v where A is the local map from the other image to the
refined one. Where images are only shifted A is the identity and δ hides behind μ, the
location. Views that are turned and zoomed tell the two apart: least absolute deviations
over all matches, wrong ones too, since they are few and on all sides.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from semisure.geometry import homography as plane
from semisure.types import FloatArray, Matches, Matrix3, PerAxis

STEPS = 60  # of reweighting; the last ones move by less than 1e-4 windows
LEAST = 0.02  # windows: a smaller deviation weighs no more than this one

Shift = tuple[float, float]


def true_homography(matches: Matches, residual: PerAxis) -> Matrix3 | None:
    """The homography under which the matches have these residuals."""
    diagonal = np.linalg.norm(matches.refined_size, axis=1)
    # A residual as long as the diagonal was cut there.
    whole = np.asarray(np.linalg.norm(residual, axis=1) < (1.0 - 1e-9) * diagonal)
    exact = matches.shifted(-residual).take(whole)
    return plane.weighted_dlt(exact.source, exact.target, np.ones(len(exact)))


def fit_offset(pairs: Sequence[tuple[Matches, PerAxis]]) -> tuple[Shift, Shift] | None:
    """Location and offset, both in windows; None unless the pairs state their windows.

    `pairs` are matches of homography pairs with their exact residuals, as for
    :func:`semisure.fit`.
    """
    if not pairs or any(matches.anchor_window is None for matches, _ in pairs):
        return None
    parts = [part for pair in pairs if (part := _equations(*pair)) is not None]
    X, y = (np.concatenate(rows) for rows in zip(*parts, strict=True))
    weight = np.ones(len(y))
    for _ in range(STEPS):
        weighted = weight[:, None] * X
        found = np.linalg.solve(X.T @ weighted, weighted.T @ y)
        weight = 1.0 / np.maximum(np.abs(y - X @ found), LEAST)
    mu_x, mu_y, delta_x, delta_y = found.tolist()
    return (mu_x, mu_y), (delta_x, delta_y)


def _equations(
    matches: Matches, residual: PerAxis
) -> tuple[FloatArray, FloatArray] | None:
    """What one pair says: (2n, 4) of location and offset, and (2n,), in windows."""
    H_01 = true_homography(matches, residual)
    inverse = None if H_01 is None else plane.inverse(H_01)
    if H_01 is None or inverse is None:
        return None
    assert matches.anchor_window is not None
    on_target = (matches.side == 1)[:, None, None]
    A = np.where(
        on_target,
        plane.jacobian(H_01, matches.source),
        plane.jacobian(inverse, matches.target),
    )
    ratio = (matches.anchor_window / matches.fine_window)[:, None, None]
    one = np.broadcast_to(np.eye(2), A.shape)
    X = np.concatenate([one, one - ratio * A], axis=2).reshape(-1, 4)
    y = (residual / matches.fine_window[:, None]).ravel()
    told = np.isfinite(X).all(axis=1) & np.isfinite(y)
    return X[told], y[told]
