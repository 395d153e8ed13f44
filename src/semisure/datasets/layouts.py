"""Which layout a folder has, and the data sets below a folder.

The functions below recognise layouts by their files; docs/evaluation.md has a table of
them, and each reader's own module describes its layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from semisure.datasets import evenly
from semisure.datasets.homographies import LIST_NAME, read_homographies
from semisure.datasets.megadepth import is_megadepth, read_held_out, read_megadepth
from semisure.datasets.mtv import is_mtv, read_mtv
from semisure.datasets.posed import PosedPair, read_posed
from semisure.datasets.queries import is_aachen, is_located
from semisure.errors import FileError
from semisure.io.images import IMAGE_SUFFIXES
from semisure.types import Pair

MIN_OVERLAP = 0.3  # of posed pairs, where their list states it
_DEPTH = 2  # levels of folders that are searched for data sets


def is_planar(root: Path) -> bool:
    """True for folders of images with homographies, or judged by them."""
    listed = (root / LIST_NAME).is_file() or any(root.glob("*/H_1_*"))
    return listed or is_mtv(root)


def is_posed(root: Path) -> bool:
    """True for folders of cameras, and for MegaDepth's index."""
    return (
        (root / "cameras.txt").is_file()
        or (root / "new-vis-pairs").is_dir()
        or is_megadepth(root)
    )


def is_map(root: Path) -> bool:
    """True for folders with a map to localise in."""
    return is_located(root) or is_aachen(root)


def is_photos(root: Path) -> bool:
    """True for folders of images without any file on how they are related."""
    if is_planar(root) or is_posed(root) or is_map(root):
        return False
    return any(path.suffix.lower() in IMAGE_SUFFIXES for path in root.iterdir())


def read_posed_pairs(
    root: Path,
    *,
    limit: int | None = None,
    held_out: bool = False,
    min_angle_deg: float = 0.0,
) -> Sequence[PosedPair]:
    """The pairs of a folder of cameras, those of lists with some overlap only.

    A limit takes them evenly. Pairs `held_out` are to calibrate on: MegaDepth has a
    separate index for them.
    """
    if is_megadepth(root):
        return (read_held_out if held_out else read_megadepth)(root, limit=limit)
    pairs = read_posed(root, min_overlap=MIN_OVERLAP, min_angle_deg=min_angle_deg)
    return evenly(pairs, limit)


def read_pairs(root: str | Path) -> Sequence[Pair | PosedPair]:
    """The pairs of a folder in any layout."""
    root = Path(root)
    if is_mtv(root):
        return read_mtv(root)
    return read_posed_pairs(root) if is_posed(root) else read_homographies(root)


def has_depth(pairs: Sequence[Pair | PosedPair]) -> bool:
    """True unless posed pairs lack depth, without which true errors are unknown."""
    posed = [pair for pair in pairs if isinstance(pair, PosedPair)]
    cameras = [camera for pair in posed for camera in (pair.camera0, pair.camera1)]
    return all(camera.depth is not None for camera in cameras)


def find_sets(root: str | Path) -> list[Path]:
    """The folder itself if it is a data set, else those one or two levels below it."""
    root = Path(root)
    if not root.is_dir():
        raise FileError(f"There is no folder {root}.")
    sets = [root] if is_photos(root) else _sets_below(root, _DEPTH)
    if not sets:
        raise FileError(
            f"There is no data set in {root}: expected sequences (folders with images "
            "1.*, 2.*, … and homographies H_1_2, …), pairs.txt, cameras.txt with "
            "pairs.csv, scene_info/*.npz, */*_test.npz (MTV), calibration/ with "
            "new-vis-pairs/, localization_map.npz, or 3D-models/ with queries/, there "
            "or up to two levels below; or photos in the folder itself."
        )
    return sets


def _sets_below(root: Path, levels: int) -> list[Path]:
    if is_planar(root) or is_posed(root) or is_map(root):
        return [root]
    if levels == 0:
        return []
    inner = sorted(path for path in root.iterdir() if path.is_dir())
    return [below for path in inner for below in _sets_below(path, levels - 1)]
