"""The linear map from image 0 to image 1 around each match, from its neighbours."""

from __future__ import annotations

import cv2
import numpy as np

from semisure.matchers.daisy_cells import Array

NEIGHBOURS = 2.0  # cells: Gaussian radius of the neighbourhood
RIDGE = 0.03  # squared cells, times a match: a lonely match has no slope of its own
AGREE = 2.0  # cells within which a match follows the map of all


def scattered_linear(source: Array, target: Array) -> Array:
    """The linear map (n, 2, 2) around each match, of planes through its neighbours.

    Points may lie anywhere. What the robust affine map of all matches leaves over is
    fitted, so that a match with few neighbours has that map. Matches that do not follow
    their neighbours count little.
    """
    if not len(source):
        return np.zeros((0, 2, 2))
    spacing = _spacing(source)
    affine = _of_all(source, target, spacing)
    left = (target - source @ affine[:, :2].T - affine[:, 2]) / spacing
    at = source / spacing
    cell = np.floor(at - at.min(axis=0)).astype(int)
    cols, rows = cell.max(axis=0) + 1
    index = cell[:, 1] * cols + cell[:, 0]
    line = np.column_stack([np.ones(len(at)), at - at.mean(axis=0)])
    weight = 1 / (1 + (left**2).sum(axis=1) / AGREE**2) ** 2
    for _ in range(2):
        plane = _planes(line, left, weight, index, (rows, cols))[index]
        residual = left - np.einsum("ni,nij->nj", line, plane)
        weight = 1 / (1 + (residual**2).sum(axis=1)) ** 2
    linear = affine[:, :2] + plane[:, 1:].swapaxes(1, 2)
    folded = np.linalg.det(linear) < 0.1 * abs(np.linalg.det(affine[:, :2]))
    linear[folded] = affine[:, :2]
    return linear


def _spacing(points: Array) -> float:
    """About the distance of neighbouring points, px: the side of a cell."""
    width, height = np.ptp(points, axis=0) + 1.0
    return float(np.sqrt(width * height / len(points)))


def _of_all(source: Array, target: Array, spacing: float) -> Array:
    """The affine map (2, 3) that most matches obey; a shift where none is found."""
    affine = None
    if len(source) >= 3:
        zoom = np.median(np.std(target, axis=0) / np.maximum(np.std(source, axis=0), 1))
        within = AGREE * spacing * max(float(zoom), 0.1)
        affine = cv2.estimateAffine2D(
            source, target, ransacReprojThreshold=within, maxIters=500
        )[0]
    if affine is None or np.linalg.det(affine[:, :2]) < 1e-3:
        shift = np.median(target - source, axis=0)
        return np.column_stack([np.eye(2), shift])
    return np.asarray(affine)


def _planes(
    line: Array, values: Array, weight: Array, index: Array, shape: tuple[int, int]
) -> Array:
    """Weighted least-squares planes (cells, 3, 2) of the values around each cell."""
    both = np.concatenate([line, values], axis=1)
    terms = (weight[:, None, None] * line[:, :, None] * both[:, None, :]).reshape(
        -1, 15
    )
    count = shape[0] * shape[1]
    sums = (np.bincount(index, term, count).reshape(shape) for term in terms.T)
    smooth = [cv2.GaussianBlur(part, (0, 0), NEIGHBOURS) for part in sums]
    normal = np.stack(smooth, axis=-1).reshape(count, 3, 5)
    ridge = np.diag([0.0, RIDGE, RIDGE]) + 1e-9 * np.eye(3)
    return np.asarray(np.linalg.solve(normal[:, :, :3] + ridge, normal[:, :, 3:]))
