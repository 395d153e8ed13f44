"""The intrinsics of an image: given, from a field of view, or from EXIF."""

from __future__ import annotations

from math import radians, tan
from os import PathLike
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.geometry.epipolar import checked_intrinsics
from semisure.io.images import focal_px
from semisure.types import Matrix3
from semisure.types.checks import as_number, as_path, require_file


def intrinsics_of(
    size: tuple[int, int],
    K: ArrayLike | str | PathLike[str] | None = None,
    *,
    fov: float | None = None,
    exif_of: object = None,
    name: str = "K",
) -> Matrix3 | None:
    """The 3 × 3 intrinsics of an image of `size`; None where nothing is given.

    Parameters
    ----------
    size
        Width and height in px; the principal point is the centre, unless `K` says
        otherwise.
    K
        A matrix in px, pixel centres at integers; the four numbers fx, fy, cx, cy, or
        text "fx,fy,cx,cy"; or a text file of 3 × 3 numbers.
    fov
        Field of view in degrees along the longer side.
    exif_of
        The image file whose EXIF states the focal length.

    >>> intrinsics_of((640, 480), fov=90.0).round(6).tolist()
    [[320.0, 0.0, 319.5], [0.0, 320.0, 239.5], [0.0, 0.0, 1.0]]
    >>> intrinsics_of((640, 480), "500,500,320,240")[0].tolist()
    [500.0, 0.0, 320.0]
    """
    if sum(way is not None for way in (K, fov, exif_of)) > 1:
        raise InputError(
            "Intrinsics are given as a matrix, by a field of view, or by EXIF: one of "
            "them, not two."
        )
    if K is not None:
        return checked_intrinsics(_matrix(K, name), name)
    if fov is not None:
        degrees = as_number("fov", fov)
        if not 0 < degrees < 180:
            raise InputError(f"fov must lie between 0 and 180°, but is {degrees:g}.")
        focal = 0.5 * max(size) / tan(radians(degrees) / 2)
    elif exif_of is not None:
        focal = focal_px(as_path(exif_of, "EXIF tags are in files."), size)
    else:
        return None
    return _pinhole(focal, focal, 0.5 * (size[0] - 1), 0.5 * (size[1] - 1))


def _matrix(K: ArrayLike | str | PathLike[str], name: str) -> ArrayLike:
    if not isinstance(K, str | PathLike):
        return _pinhole(*K) if isinstance(K, tuple) and len(K) == 4 else K
    parts = str(K).split(",")
    try:
        if len(parts) == 4:
            return _pinhole(*map(float, parts))
        return np.loadtxt(require_file(Path(K)))
    except (ValueError, OSError) as error:
        raise InputError(
            f"{name} is {str(K)!r}, neither fx,fy,cx,cy nor a file of 3 × 3 numbers: "
            f"{error}"
        ) from None


def _pinhole(fx: float, fy: float, cx: float, cy: float) -> Matrix3:
    return np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
