"""Images in any common form, as the arrays that matchers take."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from semisure.errors import InputError, in_short
from semisure.io.images import Image, read_image, to_8_bits

ImageLike: TypeAlias = str | PathLike[str] | ArrayLike

_OVERSHOOT = 1e-3  # beyond 0 and 1, of resized floats
_EXAMPLE = "an array (h, w) or (h, w, 3) of uint8 in RGB order, or a path"


def as_image(image: ImageLike, name: str = "image") -> Image:
    """The pixels of a file, an array or a PIL image: (h, w) or (h, w, 3) uint8 RGB.

    A path is read as :func:`~semisure.io.images.read_image` does, upright by its EXIF
    tag. An array is taken as it is: whole numbers of 8 bits, or floats from 0 to 1;
    16 bits are stretched to the range they use, alpha is dropped. A PIL image is not
    turned, so that points are in the pixels that its owner sees.

    >>> as_image(np.full((4, 6), 0.5)).tolist()[0]
    [128, 128, 128, 128, 128, 128]
    """
    if isinstance(image, str | PathLike):
        return read_image(_path(image))
    return _in_8_bits(_planes(_array(image, name), name), name)


def _path(image: str | PathLike[str]) -> Path:
    if isinstance(image, str) and image.startswith(("http://", "https://")):
        raise InputError(
            f"{image} is an address; download it and pass the file's path."
        )
    return Path(image)


def _array(image: Any, name: str) -> NDArray[Any]:
    if image is None:
        raise InputError(
            f"{name} is None: cv2.imread returns that for a file it cannot read. Pass "
            "the path itself, and the message says what is wrong with it."
        )
    if isinstance(image, list | tuple):
        raise InputError(
            f"{name} must be {_EXAMPLE}, but is a {type(image).__name__}. Pass one "
            "image at a time; np.array(...) makes an array of numbers."
        )
    if hasattr(image, "convert") and hasattr(image, "mode"):  # a PIL image
        image = image.convert("L" if image.mode in ("1", "L") else "RGB")
    if hasattr(image, "detach"):  # a tensor of torch, on whatever device
        image = image.detach().cpu()
    try:
        return np.asarray(image)
    except (TypeError, ValueError) as error:
        reason = in_short(error)
        raise InputError(f"{name} must be {_EXAMPLE}, but: {reason}.") from None


def _planes(array: NDArray[Any], name: str) -> NDArray[Any]:
    """The array as (h, w) or (h, w, 3)."""
    if array.dtype.kind not in "uif":
        raise InputError(f"{name} must be {_EXAMPLE}, but holds {array.dtype}.")
    if array.ndim == 3 and array.shape[2] in (1, 3, 4):
        array = array[:, :, 0] if array.shape[2] == 1 else array[:, :, :3]
    elif array.ndim == 3 and array.shape[0] in (1, 3, 4):
        raise InputError(
            f"{name} has shape {array.shape}, channels first. Pass "
            f"{name}.transpose(1, 2, 0)."
        )
    elif array.ndim == 4 and array.shape[0] == 1:
        raise InputError(
            f"{name} has shape {array.shape}, a batch of one. Pass {name}[0], with the "
            "channels last."
        )
    if array.ndim not in (2, 3) or array.shape[2:] not in ((), (3,)):
        raise InputError(f"{name} must be {_EXAMPLE}, but has shape {array.shape}.")
    if 0 in array.shape:
        raise InputError(f"{name} has shape {array.shape}, without a pixel.")
    return array


def _in_8_bits(array: NDArray[Any], name: str) -> Image:
    if array.dtype == np.uint8:
        return np.ascontiguousarray(array)
    if array.dtype == np.uint16:
        return to_8_bits(array)
    low, high = float(array.min()), float(array.max())  # NaN stays NaN
    if array.dtype.kind == "f" and low >= -_OVERSHOOT and high <= 1.0 + _OVERSHOOT:
        return np.asarray(np.round(255.0 * np.clip(array, 0.0, 1.0)), dtype=np.uint8)
    if low >= 0 and high <= 255 and not np.any(array % 1):
        return array.astype(np.uint8)
    raise InputError(
        f"{name} must hold uint8, or floats from 0 to 1, but holds {array.dtype} from "
        f"{low:g} to {high:g}. Scale it to that range first."
    )
