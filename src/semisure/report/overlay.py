"""Image 0 laid over image 1 by a homography."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from semisure.io.images import Image, reduced
from semisure.types import BoolArray, Matrix3

TILE_SHARE = 1 / 8


def overlay(image0: Image, image1: Image, H_01: Matrix3 | None) -> Image:
    """A chequerboard of image 1 and image 0 under `H_01`, RGB, of image 1's size.

    Where edges continue across the tiles' borders, the images are aligned. Without a
    model, image 1 alone.
    """
    base = _rgb(image1)
    if H_01 is None:
        return base
    height, width = base.shape[:2]
    warped, covered = _warped(image0, base, H_01)
    tile = max(8, round(TILE_SHARE * max(width, height)))
    y, x = np.mgrid[:height, :width] // tile
    chosen = ((x + y) % 2 == 0) & covered
    return np.where(chosen[..., None], warped, base)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Comparison:
    """Pictures of one size to slide between, RGB; None where there is no model."""

    base: Image  # image 1
    laid: Image | None = None  # image 0 under the refitted model
    before: Image | None = None  # |image 0 − image 1| under the initial model
    after: Image | None = None  # the same under the refitted one


def compare(
    image0: Image,
    image1: Image,
    initial: Matrix3 | None,
    model: Matrix3 | None,
    max_side: int,
) -> Comparison:
    """Image 0 laid over image 1 before and after the refit, at most `max_side` px."""
    small0, small1 = reduced(_rgb(image0), max_side), reduced(_rgb(image1), max_side)
    if model is None:
        return Comparison(base=small1)
    to_small1 = _pixel_scale(image1, small1)
    from_small0 = np.linalg.inv(_pixel_scale(image0, small0))
    (laid, covered), (first, first_covered) = (
        _warped(small0, small1, to_small1 @ H @ from_small0)
        for H in (model, model if initial is None else initial)
    )
    return Comparison(
        base=small1,
        laid=np.where(covered[..., None], laid, small1 // 4 + 150),
        before=_difference(first, small1, first_covered),
        after=_difference(laid, small1, covered),
    )


def _warped(image0: Image, image1: Image, H: Matrix3) -> tuple[Image, BoolArray]:
    """Image 0 in the frame of image 1, and the pixels that it covers."""
    size = image1.shape[1], image1.shape[0]
    warped = cv2.warpPerspective(_rgb(image0), H, size)
    inside = np.full(image0.shape[:2], 255, np.uint8)
    return np.asarray(warped, np.uint8), cv2.warpPerspective(inside, H, size) > 127


def _pixel_scale(image: Image, small: Image) -> Matrix3:
    """From pixels of `image` to pixels of `small`: (p + 0.5) s − 0.5."""
    x, y = (small.shape[k] / image.shape[k] for k in (1, 0))
    return np.array([[x, 0, x / 2 - 0.5], [0, y, y / 2 - 0.5], [0, 0, 1.0]])


def _difference(warped: Image, base: Image, covered: BoolArray) -> Image:
    """Dark where the images agree; plain grey where image 0 does not reach.

    Brightness and contrast are equalised first, so that mostly geometry remains.
    """
    greys = (cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) for image in (warped, base))
    over, under = (grey.astype(np.float32) for grey in greys)
    if covered.any():
        there, here = over[covered], under[covered]
        over = (over - there.mean()) * (here.std() / max(float(there.std()), 1.0))
        under = under - here.mean()
    bright = np.clip(2 * np.abs(over - under), 0, 255).astype(np.uint8)
    return _rgb(np.where(covered, bright, np.uint8(70)))


def _rgb(image: Image) -> Image:
    return image if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
