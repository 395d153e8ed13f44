"""Image 0 laid over image 1 by a homography: where they agree, the picture is sharp."""

from __future__ import annotations

import cv2
import numpy as np

from semisure.images import Image
from semisure.types import FloatArray

TILE_SHARE = 1 / 8


def overlay(image0: Image, image1: Image, H_01: FloatArray | None) -> Image:
    """A chequerboard of image 1 and image 0 under `H_01`, RGB, of image 1's size.

    Edges that run on across the tiles' borders are aligned. Without a model, image 1.
    """
    base = _rgb(image1)
    if H_01 is None:
        return base
    height, width = base.shape[:2]
    warped = cv2.warpPerspective(_rgb(image0), H_01, (width, height))
    inside = np.full(image0.shape[:2], 255, np.uint8)
    covered = cv2.warpPerspective(inside, H_01, (width, height)) > 127
    tile = max(8, round(TILE_SHARE * max(width, height)))
    y, x = np.mgrid[:height, :width] // tile
    chosen = ((x + y) % 2 == 0) & covered
    return np.where(chosen[..., None], np.asarray(warped, dtype=np.uint8), base)


def _rgb(image: Image) -> Image:
    return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
