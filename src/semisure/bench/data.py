"""Which data a bench uses: folders that have what it needs, and the pairs in them.

Pairs without a change of viewpoint can be replaced by random views: the second image
under a random homography, composed with the truth. A single photo becomes a pair of two
views, changed in light, noise and compression too; the truth between them is exact,
which published homographies are not.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from semisure.bench import HOMOGRAPHY, MAP, POSE, Entry
from semisure.bench.exported import AnyPair, Exported, Size
from semisure.bench.options import Options, protocol_of
from semisure.calibrate.random_views import random_pair, random_view
from semisure.datasets import evenly
from semisure.datasets.layouts import (
    has_depth,
    is_map,
    is_photos,
    is_planar,
    is_posed,
    read_pairs,
    read_posed_pairs,
)
from semisure.datasets.megadepth import is_megadepth
from semisure.datasets.posed import PosedPair
from semisure.errors import InputError
from semisure.io.images import Image, find_images, read_image, write_png
from semisure.types import Pair

# A video's pairs repeat each other: of a list at most these, evenly, by default.
LIST_PAIRS = 110


def usable(options: Options, entry: Entry) -> tuple[list[Path], list[str]]:
    """The folders that a bench can use, and remarks on the others; raise if none."""
    reasons = {root: _unusable(root, entry) for root in options.data}
    roots = [root for root, reason in reasons.items() if not reason]
    if roots and entry.needs == HOMOGRAPHY and not entry.protocols:
        first = min(protocol_of(root) for root in roots)
        for root in roots:
            if protocol_of(root) != first:
                reasons[root] = "another protocol; give the folder alone"
        roots = [root for root in roots if not reasons[root]]
    remarks = [f"{reason}: {root.name}" for root, reason in reasons.items() if reason]
    if not roots:
        raise InputError(
            f"The bench {entry.name} needs {entry.needs}, but {'; '.join(remarks)}."
        )
    return roots, [f"Left out, {remark}." for remark in remarks]


def _unusable(root: Path, entry: Entry) -> str:
    """Why a folder cannot be used; "" if it can."""
    planar = is_planar(root) or is_photos(root)
    if entry.needs == HOMOGRAPHY:
        return "" if planar else "no homographies"
    if entry.needs == POSE:
        return "" if is_posed(root) else "no cameras"
    if entry.needs == MAP:
        return "" if is_map(root) else "no map to localise in"
    # One of MegaDepth's thousands of pairs shows whether there is depth.
    limit = 1 if is_megadepth(root) else None
    if planar or (is_posed(root) and has_depth(read_posed_pairs(root, limit=limit))):
        return ""
    return "no depth, so the matches' true errors are unknown"


def pairs_of(
    options: Options, root: Path, *, held_out: bool = False, min_angle_deg: float = 0.0
) -> Sequence[AnyPair]:
    """The pairs of a folder; a limit takes them evenly.

    Pairs `held_out` are to calibrate on. Only lists state the triangulation angle, so
    its bound applies to them alone.
    """
    limit, views = options.limit, options.views
    drawn = options.seed, options.cache / "views"
    if is_photos(root):
        photos = tuple(evenly(find_images(root), limit))
        return _views_of_photos(photos, max(1, views), *drawn)
    if limit is None and (root / "pairs.csv").is_file():
        limit = LIST_PAIRS
    if is_posed(root):
        return read_posed_pairs(
            root, limit=limit, held_out=held_out, min_angle_deg=min_angle_deg
        )
    pairs = evenly(read_pairs(root), limit)
    if not views:
        return pairs
    planar = [pair for pair in pairs if isinstance(pair, Pair)]
    return [_with_view(pair, k, *drawn) for pair in planar for k in range(views)]


def _with_view(pair: Pair, k: int, seed: int, folder: Path) -> Pair:
    """The pair with a random view in place of its second image, kept in `folder`."""
    image = read_image(pair.image1)
    view, W = random_view(image, _rng(image, k, seed))
    name, H_01 = f"{pair.name}_view{k}", W @ np.asarray(pair.H_01)
    return replace(pair, name=name, image1=stored_png(view, folder), H_01=H_01)


@lru_cache(maxsize=8)  # used by each matcher and bench
def _views_of_photos(
    photos: tuple[Path, ...], count: int, seed: int, folder: Path
) -> Sequence[Pair]:
    """`count` pairs of views of each photo, kept in `folder`."""
    return [_views(photo, k, seed, folder) for photo in photos for k in range(count)]


def _views(photo: Path, k: int, seed: int, folder: Path) -> Pair:
    image = read_image(photo)
    *views, H_01 = random_pair(image, _rng(image, k, seed))
    image0, image1 = (stored_png(view, folder) for view in views)
    name = f"{photo.stem}_view{k}"
    return Pair(name=name, image0=image0, image1=image1, H_01=H_01, group=photo.name)


def _rng(image: Image, k: int, seed: int) -> np.random.Generator:
    """Seeded by the image, not by its place in a list: a limit changes no view."""
    digest = hashlib.sha256(image.tobytes()).digest()
    return np.random.default_rng([seed, k, int.from_bytes(digest[:8], "big")])


def stored_png(image: Image, folder: Path) -> Path:
    """The file of an image, named by its content."""
    file = folder / f"{hashlib.sha256(image.tobytes()).hexdigest()[:24]}.png"
    if not file.exists():
        write_png(file, image)
    return file


def labels(roots: Sequence[Path]) -> list[str]:
    """A name for each folder: its own, with its parent's where two share it.

    >>> labels([Path("a/x"), Path("b/x"), Path("b/y")])
    ['a/x', 'b/x', 'y']
    """
    names = [root.name for root in roots]
    return [
        root.name if names.count(root.name) == 1 else "/".join(root.parts[-2:])
        for root in roots
    ]


def parts_of(folders: Sequence[str], exported: Sequence[Exported]) -> list[str]:
    """The part of a table that each pair belongs to: its folder, with its scene.

    The scene is named where a folder has several, as MegaDepth's index does.
    """
    named = list(zip(folders, exported, strict=True))
    posed = [(name, one) for name, one in named if isinstance(one.truth, PosedPair)]
    scenes = Counter(name for name, _ in {(name, one.group) for name, one in posed})
    return [f"{name} {one.group}" if scenes[name] > 1 else name for name, one in named]


def matched_at(size: Size | None) -> str:
    """At what size images were matched, for a remark.

    >>> matched_at((640, 480)), matched_at(None)
    ('at 640 × 480', 'as they are')
    """
    return "as they are" if size is None else f"at {size[0]} × {size[1]}"
