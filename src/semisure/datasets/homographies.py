"""Folders of images with homographies: sequences, or a list of pairs.

A *sequence*, in the layout of HPatches, is a folder with images ``1.*``, ``2.*``, … and
plain 3 × 3 text files ``H_1_2``, ``H_1_3``, … that map pixels of image 1 to pixels of
image k. HPatches is the folder ``hpatches-sequences-release`` as it unpacks: 116
sequences, of which evaluations leave out 8, so 540 pairs. Other thermal sets than MTV,
which has its own reader, have the same layout, a sequence of two images for each pair.

A *list* is a folder with ``pairs.txt``: one pair a line, ``image0 image1`` followed by
the nine numbers of H_01 row by row or by the name of a 3 × 3 text file; names are
relative to the folder, ``#`` begins a comment.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from semisure.errors import FileError
from semisure.io.images import IMAGE_SUFFIXES
from semisure.types import Matrix3, Pair
from semisure.types.checks import require_file

LIST_NAME = "pairs.txt"
# Too large for the networks of 2018; evaluations have left them out since.
HPATCHES_EXCLUDED = frozenset(
    [
        "i_contruction",
        "i_crownnight",
        "i_dc",
        "i_pencils",
        "i_whitebuilding",
        "v_artisans",
        "v_astronautis",
        "v_talent",
    ]
)


def read_homographies(root: str | Path) -> list[Pair]:
    """The pairs of a folder in either layout; `H_01` is always known."""
    root = Path(root)
    if not root.is_dir():
        raise FileError(f"There is no folder {root}.")
    if (root / LIST_NAME).is_file():
        return read_list(root)
    return read_sequences(root)


def read_sequences(
    root: str | Path, *, exclude: Collection[str] = HPATCHES_EXCLUDED
) -> list[Pair]:
    """All pairs (1, k) of the sequences below `root`, in a fixed order."""
    root = Path(root)
    files = [path for path in root.glob("*/H_1_*") if path.parent.name not in exclude]
    files.sort(key=lambda path: (path.parent.name, path.name))
    if not files:
        raise FileError(
            f"There is no sequence in {root}: expected folders with images 1.*, 2.*, … "
            "and homographies H_1_2, H_1_3, …"
        )
    return [_numbered(path) for path in files]


def _numbered(path: Path) -> Pair:
    k = path.name.rpartition("_")[2]
    return Pair(
        name=f"{path.parent.name}_{k}",
        image0=_image(path.parent, "1"),
        image1=_image(path.parent, k),
        H_01=read_homography(path),
    )


def _image(folder: Path, stem: str) -> Path:
    images = [p for p in folder.glob(f"{stem}.*") if p.suffix.lower() in IMAGE_SUFFIXES]
    if not images:
        raise FileError(f"{folder} lacks the image {stem}.* its homographies name.")
    return min(images)


def read_homography(path: Path) -> Matrix3:
    """The 3 × 3 numbers of a text file."""
    require_file(path)
    try:
        H = np.loadtxt(path)
    except (OSError, ValueError) as error:
        raise FileError(f"{path} is not a 3 × 3 text file: {error}") from None
    if H.shape != (3, 3) or not np.isfinite(H).all():
        raise FileError(f"{path} must hold 3 × 3 finite numbers, but has {H.shape}.")
    return H


def read_list(root: str | Path) -> list[Pair]:
    """The pairs that ``pairs.txt`` names, in its order."""
    root = Path(root)
    path = root / LIST_NAME
    require_file(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise FileError(f"{path} cannot be read: {error}.") from None
    words = [line.partition("#")[0].split() for line in lines]
    pairs = [_listed(root, k, w) for k, w in enumerate(words, start=1) if w]
    if not pairs:
        raise FileError(f"{path} names no pair: expected lines 'image0 image1 H_01'.")
    return pairs


def _listed(root: Path, line: int, words: list[str]) -> Pair:
    where = f"line {line} of {root / LIST_NAME}"
    if len(words) not in (3, 11):
        raise FileError(
            f"{where} must hold two images and a file or nine numbers, but has "
            f"{len(words)} words."
        )
    image0, image1 = (root / name for name in words[:2])
    for image in (image0, image1):
        if not image.is_file():
            raise FileError(f"{where} names {image}, which does not exist.")
    name = f"{line:04d}_{image0.stem}_{image1.stem}"
    return Pair(
        name=name, image0=image0, image1=image1, H_01=_truth(root, words[2:], where)
    )


def _truth(root: Path, words: list[str], where: str) -> Matrix3:
    if len(words) == 1:
        return read_homography(root / words[0])
    try:
        H = np.array([float(word) for word in words]).reshape(3, 3)
    except ValueError as error:
        raise FileError(f"{where} must hold nine numbers: {error}.") from None
    if not np.isfinite(H).all():
        raise FileError(f"{where} must hold finite numbers.")
    return H
