"""Cues of a network that semisure does not include, from its own tensors.

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
TILE = 256  # matches at a time: with 20,000 candidates, 40 MB of float64


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
        both images, a tuple of (n0, c) and (n1, c), whose products they are: the
        matrix is never held.
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
    rows_of, columns_of, (count0, count1) = _tables(scores)
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
    confidence, std = np.zeros(len(first)), np.zeros((len(first), 2))
    for start in range(0, len(first), TILE):
        tile = slice(start, start + TILE)
        i, j = first[tile], second[tile]
        rows = _numbers("scores", rows_of(i))
        weight = _probabilities(rows) if softmax == "none" else _softmax(rows / heat)
        std[tile] = _marginal_std(weight.reshape(-1, *grid))
        confidence[tile] = np.take_along_axis(weight, j[:, None], axis=1)[:, 0]
        if softmax == "dual":
            columns = _softmax(_numbers("scores", columns_of(j)) / heat)
            confidence[tile] *= np.take_along_axis(columns, i[:, None], axis=1)[:, 0]
    confidence = np.clip(confidence, MIN_CONFIDENCE, 1.0)
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
    heat = _windows(_numbers("heatmap", heatmap))
    flat = heat.reshape(len(heat), heat.shape[1] * heat.shape[2])
    if softmax:
        flat = _softmax(flat / as_number("temperature", temperature))
    weight = _probabilities(flat, "heatmap", "softmax=True")
    return _marginal_std(weight.reshape(heat.shape)) * _per_axis("step_px", step_px)


# ---- checks and moments --------------------------------------------------------------


Rows = Callable[[IntArray], Any]  # of some cells, over all cells of the other image


def _tables(scores: Any) -> tuple[Rows, Rows, tuple[int, int]]:
    """The scores' rows, their columns, and their shape."""
    parts = scores if isinstance(scores, tuple | list) else (scores,)
    parts = [p if hasattr(p, "detach") else as_reals("scores", p) for p in parts]
    shapes = [tuple(part.shape) for part in parts]
    if len(parts) > 2 or any(len(shape) != 2 for shape in shapes):
        raise InputError(
            "scores must be a matrix over the cells of both images, or the two images' "
            f"features, all with two axes, but the shapes are {shapes}."
        )
    if len(parts) == 1:
        return parts[0].__getitem__, parts[0].T.__getitem__, shapes[0]
    (count0, length0), (count1, length1) = shapes
    if length0 != length1:
        raise InputError(
            f"The features of both images must have the same length, but have "
            f"{length0} and {length1}."
        )
    f0, f1 = parts
    return lambda i: f0[i] @ f1.T, lambda j: f1[j] @ f0.T, (count0, count1)


def _numbers(name: str, values: Any) -> FloatArray:
    """An array, or a tensor on any device, as float64."""
    if hasattr(values, "detach"):
        values = values.detach().float().cpu().numpy()
    array = as_reals(name, values)
    if not np.isfinite(array).all():
        raise InputError(f"{name} must be finite, but some are not.")
    return array


def _softmax(logits: FloatArray) -> FloatArray:
    weight = np.exp(logits - logits.max(axis=1, keepdims=True))
    return weight / weight.sum(axis=1, keepdims=True)


def _probabilities(
    rows: FloatArray, name: str = "scores", other: str = "softmax 'dual' or 'row'"
) -> FloatArray:
    """The rows, each of which adds up to one."""
    total = rows.sum(axis=1, keepdims=True)
    if (rows < 0).any() or not (total > 0).all():
        raise InputError(
            f"{name} must be probabilities, none negative and no row all 0. Logits "
            f"need {other}."
        )
    return rows / total


def _marginal_std(weight: FloatArray) -> PerAxis:
    """Std (n, 2), x and y, of the position under weights (n, rows, columns)."""
    return np.stack([_std(weight.sum(axis=1)), _std(weight.sum(axis=2))], axis=1)


def _std(marginal: FloatArray) -> PerMatch:
    at = np.arange(marginal.shape[1], dtype=np.float64)
    centred = at - (marginal @ at)[:, None]
    return np.sqrt((marginal * centred**2).sum(axis=1))


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
