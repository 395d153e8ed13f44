"""Matches of another matcher, with the uncertainty that it states of each.

A matcher takes part by a folder with ``PAIR.npz`` for each pair: ``source`` and
``target`` (n × 2 px, pixel centres at integers), ``uncertainty`` (n, larger is less
certain, any unit) and ``source_size``, ``target_size`` (width, height of the images
those pixels belong to). :func:`export_native` writes such a folder for any function
that matches two images.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import ArrayLike

from semisure.bench import paper
from semisure.bench.exported import Size, images_of, moved
from semisure.datasets.layouts import read_pairs
from semisure.datasets.subsets import evenly
from semisure.errors import FileError, InputError
from semisure.io.atomic import write_atomically
from semisure.io.files import load_arrays
from semisure.io.images import Image, read_image, resized
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


# Points of both images (n × 2 px, centres at integers), and an uncertainty for each.
NativeMatcher = Callable[[Image, Image], tuple[ArrayLike, ArrayLike, ArrayLike]]


def export_native(
    data: str | Path,
    folder: str | Path,
    match: NativeMatcher,
    *,
    size: Size = paper.NATIVE_SIZE,
    sample: int = paper.NATIVE_SAMPLE,
    limit: int | None = None,
    seed: int = 0,
) -> int:
    """Write a file for each pair of a data set, and return how many.

    Both images are brought to `size`; of more matches than `sample`, so many are drawn
    at random, all alike. Pairs whose file is there are not matched again.
    """
    pairs = evenly(read_pairs(data), limit)
    for k, pair in enumerate(pairs):
        file = Path(folder) / f"{pair.name}.npz"
        if file.is_file():
            continue
        images = [resized(read_image(path), size) for path in images_of(pair)]
        parts = [np.asarray(part) for part in match(*images)]
        rng = np.random.default_rng([seed, k])
        some = np.sort(rng.permutation(len(parts[0]))[:sample])
        names = ("source", "target", "uncertainty")
        arrays = {n: part[some] for n, part in zip(names, parts, strict=True)}
        arrays |= {"source_size": np.array(size), "target_size": np.array(size)}
        write_atomically(file, partial(_put, arrays))
    return len(pairs)


def _put(arrays: dict[str, Array], file: IO[bytes]) -> None:
    # NumPy's stubs take the second argument for `allow_pickle`.
    save: Callable[..., None] = np.savez_compressed
    save(file, **arrays)


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
