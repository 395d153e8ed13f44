"""Image 0 laid over image 1 by a homography."""

from __future__ import annotations

import cv2
import numpy as np

from semisure.io.images import Image
from semisure.types import BoolArray, Matrix3

Sizes = tuple[tuple[int, int], tuple[int, int]]  # width and height of both images


def between_small(H_01: Matrix3, small: tuple[Image, Image], sizes: Sizes) -> Matrix3:
    """The homography between reduced images, from that of the images themselves."""
    to_small = [_pixel_scale(size, s) for size, s in zip(sizes, small, strict=True)]
    return to_small[1] @ H_01 @ np.linalg.inv(to_small[0])


def laid_over(image0: Image, image1: Image, H_01: Matrix3) -> Image:
    """Image 0 warped by `H_01`, RGB, of image 1's size; pale image 1 elsewhere."""
    base = _rgb(image1)
    warped, covered = _warped(image0, base, H_01)
    return np.where(covered[..., None], warped, base // 4 + 150)


def difference(image0: Image, image1: Image, H_01: Matrix3) -> Image:
    """Dark where the images agree under `H_01`; plain grey outside image 0.

    Brightness and contrast are equalised first, so that mostly geometry remains.
    """
    base = _rgb(image1)
    warped, covered = _warped(image0, base, H_01)
    greys = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (warped, base))
    over, under = (grey.astype(np.float32) for grey in greys)
    if covered.any():
        first, second = over[covered], under[covered]
        over = (over - first.mean()) * (second.std() / max(float(first.std()), 1.0))
        under = under - second.mean()
    bright = np.clip(2 * np.abs(over - under), 0, 255).astype(np.uint8)
    return _rgb(np.where(covered, bright, np.uint8(70)))


def _warped(image0: Image, image1: Image, H: Matrix3) -> tuple[Image, BoolArray]:
    """Image 0 in the frame of image 1, and the pixels that it covers."""
    size = image1.shape[1], image1.shape[0]
    warped = cv2.warpPerspective(_rgb(image0), H, size)
    inside = np.full(image0.shape[:2], 255, np.uint8)
    return np.asarray(warped, np.uint8), cv2.warpPerspective(inside, H, size) > 127


def _pixel_scale(size: tuple[int, int], small: Image) -> Matrix3:
    """From pixels of an image of `size` to those of `small`: (p + 0.5) s − 0.5."""
    x, y = small.shape[1] / size[0], small.shape[0] / size[1]
    return np.array([[x, 0, x / 2 - 0.5], [0, y, y / 2 - 0.5], [0, 0, 1.0]])


def _rgb(image: Image) -> Image:
    return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
