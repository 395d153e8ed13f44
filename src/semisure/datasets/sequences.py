"""Folders of image sequences with homographies, in the layout of HPatches.

Each sequence is a folder with images ``1.*``, ``2.*``, … and plain 3 × 3 text files
``H_1_2``, ``H_1_3``, … that map pixels of image 1 to pixels of image k. HPatches is the
folder ``hpatches-sequences-release`` as it unpacks: 116 sequences, of which evaluations
leave out 8, so 540 pairs. Other thermal sets than MTV, which has its own reader, have
the same layout, a sequence of two images for each pair.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import numpy as np

from semisure.errors import FileError
from semisure.io.images import IMAGE_SUFFIXES
from semisure.types import Matrix3, Pair
from semisure.types.checks import require_file

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
    return [_pair(path) for path in files]


def _pair(path: Path) -> Pair:
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
