"""Cues of a network that semisure does not know, from the tensors it has anyway.

Arrays of NumPy, or tensors of torch on any device; the answers are arrays of NumPy.
Which tensor, which softmax, which pixels: docs/own_network.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.types import FloatArray, IntArray, PerAxis, PerMatch, Vector, as_choice
from semisure.types.checks import as_number, as_reals

Softmax = Literal["dual", "row", "none"]
SOFTMAX: tuple[Softmax, ...] = ("dual", "row", "none")
MIN_CONFIDENCE = 1e-12  # where the softmax underflows
TILE = 256  # rows at a time: with 20,000 candidates, 40 MB of float64


class CoarseCues(NamedTuple):
    """The cues of a coarse stage, as :class:`semisure.Matches` takes them."""

    confidence: PerMatch  # in (0, 1]
    coarse_std: PerAxis  # px


def cues_from_scores(
    scores: Any,
    index0: ArrayLike,
    index1: ArrayLike,
    *,
    grid: tuple[int, int],
    cell_px: float | tuple[float, float] = 8.0,
    temperature: float = 1.0,
    softmax: Softmax = "dual",
) -> CoarseCues:
    """Confidence and coarse std of matches between the cells of two images.

    The std is that of a row: how far the softmax over image 1's cells spreads for the
    chosen cell of image 0, per axis. Where image 0's point is the refined one, pass
    the transposed scores and exchange the indices.

    Parameters
    ----------
    scores
        The similarities (n0, n1) of all cells, before any softmax; or the features of
        both images, a tuple of (n0, c) and (n1, c), whose products they are: these
        are taken in tiles, and the matrix is never held.
    index0, index1
        The matched cells (m,), numbered row by row.
    grid
        Rows and columns of image 1's cells.
    cell_px
        Side of a cell, in the px of image 1 as you report its points: 8, times the
        image's scale where it was reduced. One number, or (x, y).
    temperature
        The scores are divided by it: 0.1 in LoFTR's family.
    softmax
        ``dual`` gives the product of the softmax over rows and over columns as the
        confidence, ``row`` that of the row alone. ``none``: the scores are
        probabilities, whose rows add up to one.

    Examples
    --------
    >>> features = np.array([[9.0, 0], [0, 9], [-9, 0], [0, -9]])  # of 2 × 2 cells
    >>> cues = cues_from_scores(
    ...     (features, features), [0, 1], [0, 1], grid=(2, 2), temperature=9.0)
    >>> cues.confidence.round(3), cues.coarse_std.round(2).tolist()
    (array([1., 1.]), [[0.13, 0.09], [0.13, 0.09]])
    """
    as_choice("softmax", softmax, SOFTMAX)
    heat = as_number("temperature", temperature)
    if not heat > 0:
        raise InputError(f"temperature must be positive, but is {heat:g}.")
    read, (count0, count1) = _reader(scores, heat)
    if len(grid) != 2 or grid[0] * grid[1] != count1:
        raise InputError(
            f"grid must be the rows and columns of image 1's {count1} cells, but is "
            f"{tuple(grid)}."
        )
    first, second = _cells("index0", index0, count0), _cells("index1", index1, count1)
    if first.shape != second.shape:
        raise InputError(
            f"index0 and index1 must name one cell each for every match, but have "
            f"{len(first)} and {len(second)}."
        )
    entry, std = np.ones(len(first)), np.zeros((len(first), 2))
    top, total = np.full(len(first), -np.inf), np.zeros(len(first))  # of columns
    chosen = np.zeros(len(first))
    for start in range(0, count0, TILE):
        here = np.flatnonzero(first // TILE == start // TILE)
        if softmax != "dual" and not len(here):
            continue
        tile = read(slice(start, start + TILE))
        rows, at = tile[first[here] - start], np.arange(len(here))
        chosen[here] = rows[at, second[here]]
        weight = _weights(rows, softmax)
        weight = weight / weight.sum(axis=1, keepdims=True)
        entry[here] = (rows if softmax == "none" else weight)[at, second[here]]
        std[here] = _marginal_std(weight.reshape(-1, *grid))
        columns = tile[:, second]
        higher = np.maximum(top, columns.max(axis=0))
        total = total * np.exp(top - higher) + np.exp(columns - higher).sum(axis=0)
        top = higher
    if softmax == "dual":
        entry = entry * np.exp(chosen - top) / total
    confidence = np.clip(entry, MIN_CONFIDENCE, 1.0)
    return CoarseCues(confidence, std * _per_axis("cell_px", cell_px))


def fine_std_from_heatmap(
    heatmap: Any,
    *,
    step_px: float | tuple[float, float] = 1.0,
    softmax: bool = False,
    temperature: float = 1.0,
) -> PerAxis:
    """Std (n, 2) px per axis of the heat maps of a fine stage, x first.

    Parameters
    ----------
    heatmap
        (n, rows, columns), or (n, k) of square windows, row by row. Probabilities, or
        with ``softmax=True`` the logits, which are divided by `temperature`.
    step_px
        Distance of neighbouring entries in px of the refined image: 2 for LoFTR's
        5 × 5 window at half the size. One number, or (x, y).

    Examples
    --------
    >>> heat = np.zeros((1, 5, 5))
    >>> heat[0, 2, [1, 3]] = 0.5  # one step to the left, or one to the right
    >>> fine_std_from_heatmap(heat, step_px=2.0).tolist()
    [[2.0, 0.0]]
    """
    heat = _windows(_numbers(heatmap, "heatmap"))
    if softmax:
        logits = heat / as_number("temperature", temperature)
        heat = np.exp(logits - logits.max(axis=(1, 2), keepdims=True))
    total = heat.sum(axis=(1, 2), keepdims=True)
    if (heat < 0).any() or not (total > 0).all():
        raise InputError(
            "heatmap must hold probabilities, none negative and not all 0. Logits need "
            "softmax=True."
        )
    return _marginal_std(heat / total) * _per_axis("step_px", step_px)


# ---- checks and moments --------------------------------------------------------------


def _reader(
    scores: Any, temperature: float
) -> tuple[Callable[[slice], FloatArray], tuple[int, int]]:
    """What gives tiles of rows of the scores, and their whole shape."""
    parts = scores if isinstance(scores, tuple | list) else (scores,)
    parts = [p if hasattr(p, "detach") else as_reals("scores", p) for p in parts]
    shapes = [tuple(part.shape) for part in parts]
    if len(parts) > 2 or any(len(shape) != 2 for shape in shapes):
        raise InputError(
            "scores must be a matrix over the cells of both images, or the two images' "
            f"features, all with two axes, but the shapes are {shapes}."
        )
    if len(parts) == 1:
        return lambda rows: _numbers(parts[0][rows]) / temperature, shapes[0]
    (count0, length0), (count1, length1) = shapes
    if length0 != length1:
        raise InputError(
            f"The features of both images must have the same length, but have "
            f"{length0} and {length1}."
        )
    f0, f1 = parts
    return lambda rows: _numbers(f0[rows] @ f1.T) / temperature, (count0, count1)


def _numbers(values: Any, name: str = "scores") -> FloatArray:
    """An array, or a tensor on any device, as float64."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    array = as_reals(name, values)
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, but some are not.")
    return array


def _weights(rows: FloatArray, softmax: Softmax) -> FloatArray:
    """Softmax of each row but for its sum, or the row if it is one already."""
    if softmax != "none":
        return np.exp(rows - rows.max(axis=1, keepdims=True))
    if (rows < 0).any():
        raise InputError(
            "scores must be probabilities where softmax is 'none', but some are "
            "negative. Logits need 'dual' or 'row'."
        )
    if not (rows.sum(axis=1) > 0).all():
        raise InputError("scores must not be 0 in a whole row.")
    return rows


def _marginal_std(weight: FloatArray) -> PerAxis:
    """Std (n, 2), x and y, of the position under weights (n, rows, columns)."""
    return np.stack([_std(weight.sum(axis=1)), _std(weight.sum(axis=2))], axis=1)


def _std(marginal: FloatArray) -> PerMatch:
    at = np.arange(marginal.shape[1], dtype=np.float64)
    away = at - (marginal @ at)[:, None]
    return np.sqrt((marginal * away**2).sum(axis=1))


def _windows(heat: FloatArray) -> FloatArray:
    """The heat maps as (n, rows, columns)."""
    if heat.ndim == 2:
        side = round(heat.shape[1] ** 0.5)
        if side**2 == heat.shape[1]:
            return heat.reshape(-1, side, side)
    if heat.ndim != 3:
        raise InputError(
            "heatmap must have the shape (n, rows, columns), or (n, k) of square "
            f"windows, but has {heat.shape}."
        )
    return heat


def _cells(name: str, index: Any, count: int) -> IntArray:
    """Numbers of cells, from 0 to `count`."""
    if hasattr(index, "detach"):
        index = index.detach().cpu().numpy()
    array = np.asarray(index)
    good = array.ndim == 1 and (array.dtype.kind in "iu" or not len(array))
    if not good or (len(array) and not 0 <= array.min() <= array.max() < count):
        raise InputError(
            f"{name} must be the numbers of cells, one for each match, from 0 to "
            f"{count - 1}."
        )
    return array.astype(np.int64)


def _per_axis(name: str, value: float | tuple[float, float]) -> Vector:
    both = np.atleast_1d(as_reals(name, value))
    if both.shape not in ((1,), (2,)) or not (both > 0).all():
        raise InputError(f"{name} must be a size in px, or two, but is {value!r}.")
    return np.broadcast_to(both, (2,))
