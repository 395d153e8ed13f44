"""Random views where data have no change of viewpoint, or no truth at all.

The public thermal pairs are aligned; MTV's are seen from different places. A random
homography of the second image, composed with the truth, stands in for that. A single
photo becomes a pair of two views, changed in light, noise and compression too: the
truth between them is exact, which published homographies are not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from semisure.bench.exported import AnyPair
from semisure.calibrate.random_views import random_pair, random_view
from semisure.io.images import Image, read_image, write_png
from semisure.types import Pair


def with_views(
    pairs: Sequence[AnyPair], count: int, seed: int, folder: Path
) -> list[Pair]:
    """`count` pairs for each, whose second image is drawn anew and kept in `folder`.

    Pairs without a homography have no view.
    """
    return [
        _view(pair, k, seed, folder)
        for pair in pairs
        if isinstance(pair, Pair)
        for k in range(count)
    ]


@lru_cache(maxsize=8)  # each matcher and bench asks again
def of_photos(
    photos: tuple[Path, ...], count: int, seed: int, folder: Path
) -> Sequence[Pair]:
    """`count` pairs of views of each photo, kept in `folder`."""
    return [_pair(photo, k, seed, folder) for photo in photos for k in range(count)]


def _view(pair: Pair, k: int, seed: int, folder: Path) -> Pair:
    image = read_image(pair.image1)
    view, W = random_view(image, _rng(image, k, seed))
    assert pair.H_01 is not None
    return Pair(
        name=f"{pair.name}_view{k}",
        image0=pair.image0,
        image1=_stored(view, folder),
        H_01=W @ pair.H_01,
    )


def _pair(photo: Path, k: int, seed: int, folder: Path) -> Pair:
    image = read_image(photo)
    first, second, H_01 = random_pair(image, _rng(image, k, seed))
    return Pair(
        name=f"{photo.stem}_view{k}",
        image0=_stored(first, folder),
        image1=_stored(second, folder),
        H_01=H_01,
        group=photo.name,
    )


def _rng(image: Image, k: int, seed: int) -> np.random.Generator:
    """Seeded by the image, not by its place in a list: a limit changes no view."""
    digest = hashlib.sha256(image.tobytes()).digest()
    return np.random.default_rng([seed, k, int.from_bytes(digest[:8], "big")])


def _stored(view: Image, folder: Path) -> Path:
    file = folder / f"{hashlib.sha256(view.tobytes()).hexdigest()[:24]}.png"
    if not file.exists():
        write_png(file, view)
    return file
