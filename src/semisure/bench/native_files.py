"""Matches of another matcher, with the uncertainty that it states of each.

A matcher takes part by a folder with ``PAIR.npz`` for each pair: ``source`` and
``target`` (n × 2 px, pixel centres at integers), ``uncertainty`` (n, larger is less
certain, any unit) and ``source_size``, ``target_size`` (width, height of the images
those pixels belong to).
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from semisure.bench.exported import Size, moved
from semisure.errors import FileError, InputError
from semisure.io.files import load_arrays
from semisure.types import Array, Matches, PerMatch
from semisure.types.checks import as_size

_ARRAYS = ("source", "target", "uncertainty", "source_size", "target_size")


def read_native(file: Path, sizes: tuple[Size, Size]) -> tuple[Matches, PerMatch]:
    """The matches of a file, brought to images of `sizes`, and their uncertainties."""
    if not file.is_file():
        raise FileError(
            f"There is no {file}: expected an NPZ with source, target, uncertainty, "
            "source_size and target_size for each pair."
        )
    arrays = load_arrays(file)
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        raise FileError(f"{file} lacks {', '.join(missing)}.")
    stored = _stored_matches(arrays, file)
    matches = replace(
        stored,
        source=moved(stored.source, stored.source_size, sizes[0]),
        target=moved(stored.target, stored.target_size, sizes[1]),
        source_size=sizes[0],
        target_size=sizes[1],
    )
    return matches, _uncertainties(arrays["uncertainty"], len(stored), file)


def _stored_matches(arrays: dict[str, Array], file: Path) -> Matches:
    """The matches as the file has them; cues that it lacks are one."""
    n = len(arrays["source"])
    try:
        return Matches(
            source=arrays["source"],
            target=arrays["target"],
            confidence=np.ones(n),
            fine_std=np.ones((n, 2)),
            coarse_std=np.ones((n, 2)),
            source_size=as_size("source_size", arrays["source_size"]),
            target_size=as_size("target_size", arrays["target_size"]),
        )
    except InputError as error:
        raise FileError(f"{file} cannot be used: {error}") from None


def _uncertainties(values: Array, n: int, file: Path) -> PerMatch:
    if values.shape != (n,) or not np.isfinite(values).all():
        raise FileError(
            f"{file} must hold {n} finite uncertainties, but they have shape "
            f"{values.shape} or are not finite."
        )
    return np.asarray(values, dtype=np.float64)
