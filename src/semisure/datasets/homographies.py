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

from pathlib import Path

import numpy as np

from semisure.errors import FileError
from semisure.io.images import IMAGE_SUFFIXES
from semisure.types import Matrix3, Pair
from semisure.types.checks import read_lines

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
    return _read_list(root) if (root / LIST_NAME).is_file() else read_sequences(root)


def read_sequences(root: str | Path) -> list[Pair]:
    """All pairs (1, k) of the sequences below `root`, in a fixed order."""
    files = [
        path
        for path in Path(root).glob("*/H_1_*")
        if path.parent.name not in HPATCHES_EXCLUDED
    ]
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
    return _homography([w for words in _words(path) for w in words], str(path))


def _words(path: Path) -> list[list[str]]:
    """The words of each line, without comments."""
    return [line.partition("#")[0].split() for line in read_lines(path)]


def _homography(words: list[str], where: str) -> Matrix3:
    try:
        H = np.array([float(word) for word in words]).reshape(3, 3)
    except ValueError as error:
        raise FileError(f"{where} must hold 3 × 3 numbers: {error}.") from None
    if not np.isfinite(H).all():
        raise FileError(f"{where} must hold finite numbers.")
    return H


def _read_list(root: Path) -> list[Pair]:
    """The pairs that ``pairs.txt`` names, in its order."""
    path = root / LIST_NAME
    pairs = [_listed(root, k, w) for k, w in enumerate(_words(path), start=1) if w]
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
    numbers = words[2:]
    if len(numbers) == 1:
        H = read_homography(root / numbers[0])
    else:
        H = _homography(numbers, where)
    name = f"{line:04d}_{image0.stem}_{image1.stem}"
    return Pair(name=name, image0=image0, image1=image1, H_01=H)
