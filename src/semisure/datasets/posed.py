"""Image pairs with known cameras, and depth where it was measured.

Two layouts are read. A *list* is a folder with ``images/``, ``pairs.csv`` (columns
``name0``, ``name1``, ``overlap``, ``tri_angle_deg``) and ``cameras.txt``, one line per
image: name, K (9 numbers), R (9), t (3), with x ~ K (R X + t) and pixel centres at
integers; depth of the image ``a.b.jpg``, if any, is ``depth/a.b.png`` (16-bit
millimetres) or ``depth_768/a.b.npz`` (``depth``, of the image at half its size). A
*phototourism* folder, the layout of the Image Matching Challenge, has
``calibration/calibration_NAME.h5`` (``K``, ``R``, ``T``; pixel centres at halves) and
``new-vis-pairs/keys-th-0.1.npy`` (co-visible pairs, ``NAME1-NAME0``).
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semisure.errors import FileError, MissingExtraError, in_short
from semisure.io.files import read_npz
from semisure.io.images import read_channel
from semisure.types import (
    Array,
    FloatArray,
    Matches,
    Matrix3,
    PerAxis,
    PerMatch,
    Points,
    Pose,
    Vector3,
)
from semisure.types.checks import read_lines, require_file

Size = tuple[int, int]  # width, height
SAME_SURFACE = 0.02  # pixels of one surface differ by no more in inverse depth
# A point whose depth in the other image differs by more is hidden there (LoFTR's).
MAX_DEPTH_RATIO = 0.2
HALF_PIXEL = np.array([[1.0, 0, -0.5], [0, 1, -0.5], [0, 0, 1]])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PosedCamera:
    """One image, its intrinsics, its pose and the file of its depth."""

    image: Path
    K: Matrix3  # pixel centres at integers
    R: Matrix3  # camera from world
    t: Vector3
    depth: Path | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PosedPair:
    """Two images and the pose of camera 1 from camera 0: X₁ = R_01 X₀ + t_01."""

    name: str
    camera0: PosedCamera
    camera1: PosedCamera
    scene: str = ""  # its folder or index
    planar: bool = False  # the homography that its depth implies is the truth

    @property
    def P_01(self) -> Pose:
        """[R_01 | t_01] in the unit of the data."""
        a, b = self.camera0, self.camera1
        R = b.R @ a.R.T
        return np.column_stack([R, b.t - R @ a.t])


def read_posed(
    root: str | Path, *, min_overlap: float = 0.0, min_angle_deg: float = 0.0
) -> list[PosedPair]:
    """The pairs of a folder in either layout, in the order of its list.

    The bounds on overlap and triangulation angle hold for lists, which state them.
    """
    root = Path(root)
    if (root / "cameras.txt").is_file():
        return _read_list(root, min_overlap, min_angle_deg)
    if (root / "calibration").is_dir():
        return _read_phototourism(root)
    raise FileError(
        f"{root} holds no posed images: expected cameras.txt with pairs.csv, or "
        "calibration/ with new-vis-pairs/."
    )


def _read_list(root: Path, min_overlap: float, min_angle: float) -> list[PosedPair]:
    cameras = _read_cameras(root)
    pairs = []
    path = root / "pairs.csv"
    for row in csv.DictReader(read_lines(path)):
        try:
            overlap, angle = float(row["overlap"]), float(row["tri_angle_deg"])
            a, b = cameras[row["name0"]], cameras[row["name1"]]
        except (KeyError, TypeError, ValueError) as error:
            raise FileError(
                f"{path} must name images of cameras.txt with their overlap and "
                f"tri_angle_deg, but {error} breaks this."
            ) from None
        if overlap >= min_overlap and angle >= min_angle:
            pairs.append(_pair(root, a, b))
    return pairs


def _pair(root: Path, a: PosedCamera, b: PosedCamera) -> PosedPair:
    name = f"{root.name}_{_stem(a.image)}_{_stem(b.image)}"
    return PosedPair(name=name, camera0=a, camera1=b, scene=root.name)


def _stem(image: Path) -> str:
    return image.name.partition(".")[0]


def _read_cameras(root: Path) -> dict[str, PosedCamera]:
    cameras = {}
    for line in read_lines(root / "cameras.txt"):
        name, *rest = line.split() or ["#"]
        if name.startswith("#"):
            continue
        try:
            numbers = np.array([float(v) for v in rest])
            K, R, t = numbers[:9], numbers[9:18], numbers[18:]
            K, R, t = K.reshape(3, 3), R.reshape(3, 3), t.reshape(3)
        except ValueError as error:
            raise FileError(
                f"{root / 'cameras.txt'} must hold 21 numbers after each name, but "
                f"{name} breaks this: {error}."
            ) from None
        image = root / "images" / name
        cameras[name] = PosedCamera(
            image=image, K=K, R=R, t=t, depth=_depth(root, image)
        )
    return cameras


def _depth(root: Path, image: Path) -> Path | None:
    for path in (f"depth/{image.stem}.png", f"depth_768/{image.stem}.npz"):
        if (root / path).is_file():
            return root / path
    return None


def _read_phototourism(root: Path) -> list[PosedPair]:
    path = require_file(root / "new-vis-pairs" / "keys-th-0.1.npy")
    try:
        keys = np.load(path, allow_pickle=False)
    except (OSError, EOFError, ValueError) as error:
        raise FileError(f"{path} is not a list of pairs: {error}.") from None
    cameras: dict[str, PosedCamera] = {}
    pairs = []
    for key in keys:
        name1, _, name0 = str(key).partition("-")
        for name in (name0, name1):
            if name not in cameras:
                file = root / "calibration" / f"calibration_{name}.h5"
                K, R, t = _read_h5(file, ("K", "R", "T"), "a camera with K, R and T")
                image, t = root / "images" / f"{name}.jpg", t.reshape(3)
                cameras[name] = PosedCamera(image=image, K=HALF_PIXEL @ K, R=R, t=t)
        pairs.append(_pair(root, cameras[name0], cameras[name1]))
    return pairs


def _read_h5(path: Path, names: Sequence[str], what: str) -> list[FloatArray]:
    """The arrays of these names in an HDF5 file; `what` they are."""
    try:
        import h5py
    except ImportError:
        raise MissingExtraError("h5py", "store", "Reading HDF5 files") from None
    try:
        with h5py.File(path) as file:
            return [np.asarray(file[name], dtype=np.float64) for name in names]
    except (OSError, KeyError) as error:
        raise FileError(f"{path} is not {what}: {error}.") from None


def depth_residual(pair: PosedPair, matches: Matches) -> PerAxis:
    """Predicted minus true on the refined side, px; NaN where unknown.

    The cameras' intrinsics must be those of the images as they were matched.
    """
    a, b = pair.camera0, pair.camera1
    size0, size1 = matches.source_size, matches.target_size
    R, t = pair.P_01[:, :3], pair.P_01[:, 3]
    P_10 = np.column_stack([R.T, -R.T @ t])
    residuals = np.empty_like(matches.source)
    on1 = matches.side == 1
    forth = carried(matches.source[on1], a, b, pair.P_01, size0, size1)
    back = carried(matches.target[~on1], b, a, P_10, size1, size0)
    residuals[on1] = matches.target[on1] - forth
    residuals[~on1] = matches.source[~on1] - back
    return residuals


def carried(
    points: Points,
    here: PosedCamera,
    there: PosedCamera,
    pose: Pose,
    size_here: Size,
    size_there: Size,
) -> Points:
    """Points of one image, projected into the other; NaN if depth is unknown."""
    z = _measured(here, points, size_here)
    other, depth = seen_from(points, z, here, there, pose)
    measured = _measured(there, other, size_there)
    agrees = np.abs(measured - depth) <= MAX_DEPTH_RATIO * depth
    return np.where(agrees[:, None], other, np.nan)


def seen_from(
    points: Points, z: PerMatch, here: PosedCamera, there: PosedCamera, pose: Pose
) -> tuple[FloatArray, PerMatch]:
    """Points of depth `z` in the other camera, NaN behind it, and their depth there."""
    rays = np.column_stack([points, np.ones(len(points))]) @ np.linalg.inv(here.K).T
    X = (rays * z[:, None]) @ pose[:, :3].T + pose[:, 3]
    image = np.where(X[:, 2:] > 0, X, np.nan) @ there.K.T
    return image[:, :2] / image[:, 2:], X[:, 2]


def _measured(camera: PosedCamera, points: Points, size: Size) -> PerMatch:
    z = depth_at(camera, points, size)
    if z is None:
        raise FileError(
            f"There is no depth of {camera.image}; without it the matches' true errors "
            "are unknown."
        )
    return z


def depth_at(camera: PosedCamera, points: Points, size: Size) -> PerMatch | None:
    """Depth in the data's unit at `points`; NaN where none was measured.

    `size` is the image's width and height: depth maps may be smaller.
    """
    if camera.depth is None:
        return None
    values = _read_depth(camera.depth)
    height, width = values.shape
    scale = np.array([width, height]) / np.array(size)
    return depth_between(values, (points + 0.5) * scale - 0.5)


def depth_between(values: Array, points: Points) -> PerMatch:
    """Depth between the pixels of a map, within a surface.

    Inverse depth is linear over a plane's image, so it is interpolated, bilinearly.
    Blending across an edge would invent a point in mid-air: only neighbours on the
    surface of the nearest one count. NaN outside the map, and
    where the nearest is unknown.

    >>> depth_between(np.array([[2.0, 2.02, 8.0]]), np.array([[0.5, 0], [1.3, 0]]))
    array([2.00995025, 2.02      ])
    """
    height, width = values.shape
    inside = (np.rint(points) >= 0) & (np.rint(points) < [width, height])
    places = np.nan_to_num(np.clip(points, 0, [width - 1, height - 1]))
    inverse, share = _neighbours(values, places)
    nearest = np.take_along_axis(inverse, share.argmax(axis=1)[:, None], axis=1)
    share = share * (np.abs(inverse - nearest) <= SAME_SURFACE * nearest)
    # An unknown depth has the inverse 0, which is near to none but another unknown.
    mean = (share * inverse).sum(axis=1) / share.sum(axis=1)
    measured = inside.all(axis=1) & (mean > 0)
    return np.where(measured, 1.0 / np.where(measured, mean, 1.0), np.nan)


def _neighbours(values: Array, points: Points) -> tuple[FloatArray, FloatArray]:
    """Inverse depth at the four pixels around each point, 0 if unknown, and shares."""
    low = np.floor(points).astype(np.int64)
    high = np.minimum(low + 1, np.array(values.shape[::-1]) - 1)
    corners = [(low, low), (high, low), (low, high), (high, high)]
    z = np.stack([values[y[:, 1], x[:, 0]] for x, y in corners], axis=1)
    right, down = (points - low).T
    across = [1.0 - right, right, 1.0 - right, right]
    share = np.stack(across, axis=1) * np.stack([1.0 - down, 1.0 - down, down, down], 1)
    return np.where(z > 0, 1.0 / np.where(z > 0, z, 1.0), 0.0), share


def _read_depth(path: Path) -> Array:
    if path.suffix == ".h5":  # MegaDepth's, 0 where unknown
        return _read_h5(path, ("depth",), "a depth map")[0]
    if path.suffix == ".npz":
        try:
            return np.asarray(read_npz(path, ("depth",))["depth"], dtype=np.float64)
        except Exception as error:  # noqa: BLE001, of a damaged file
            raise FileError(f"{path} is not a depth map: {in_short(error)}.") from None
    raw = read_channel(path)
    if raw.ndim != 2:
        raise FileError(f"{path} is not a depth map of one 16-bit channel.")
    return raw.astype(np.float64) / 1000.0
