"""Homography data in any layout that is read, and plain lists of pairs.

A *list* is a folder with ``pairs.txt``: one pair a line, ``image0 image1`` followed by
the nine numbers of H_01 row by row or by the name of a 3 × 3 text file; names are
relative to the folder, ``#`` begins a comment. Any other folder is read as sequences
(:mod:`semisure.datasets.sequences`).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from semisure.datasets.sequences import read_homography, read_sequences
from semisure.errors import FileError
from semisure.types import Matrix3, Pair
from semisure.types.checks import require_file

LIST_NAME = "pairs.txt"


def read_homographies(root: str | Path) -> list[Pair]:
    """The pairs of a folder in either layout; `H_01` is always known."""
    root = Path(root)
    if not root.is_dir():
        raise FileError(f"There is no folder {root}.")
    if (root / LIST_NAME).is_file():
        return read_list(root)
    return read_sequences(root)


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
    pairs = [_pair(root, k, w) for k, w in enumerate(words, start=1) if w]
    if not pairs:
        raise FileError(f"{path} names no pair: expected lines 'image0 image1 H_01'.")
    return pairs


def _pair(root: Path, line: int, words: list[str]) -> Pair:
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
