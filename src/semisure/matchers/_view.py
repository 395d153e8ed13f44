"""An image as a network sees it, and the way back to its own pixels."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from semisure.errors import InputError
from semisure.io.images import Image
from semisure.types import CellMaps, Labels, Matches, PerAxis, PerMatch, Points, Vector

MIN_CONFIDENCE = 1e-12  # where the softmax underflows


@dataclass(frozen=True, slots=True)
class View:
    """`image`, resized from `size` (width, height)."""

    image: Image
    size: tuple[int, int]

    @property
    def scale(self) -> Vector:
        """Own pixels per pixel of the view, (2,)."""
        return np.array(self.size) / np.array(self.image.shape[1::-1])

    def back(self, points: Points) -> Points:
        """Points of the view in the image's own pixels."""
        return (points + 0.5) * self.scale - 0.5


def view_of(
    image: Image, max_side: int | None, *, multiple: int = 1, min_side: int = 1
) -> View:
    """The image at no more than `max_side` px, both sides multiples of `multiple`.

    Rounded to the nearest multiple, each axis with its own scale: nothing is padded.
    """
    if image.dtype != np.uint8 or image.ndim not in (2, 3):
        raise InputError(
            "An image must be uint8 of shape (h, w) or (h, w, channels), but this is "
            f"{image.dtype} of shape {image.shape}."
        )
    height, width = image.shape[:2]
    if min(height, width) < min_side:
        raise InputError(
            f"This matcher needs images of at least {min_side} px a side, but one has "
            f"{width} × {height}."
        )
    shrink = min(1.0, (max_side or max(height, width)) / max(height, width))
    limit = max(max_side // multiple, 1) if max_side else max(height, width)
    size = [
        min(max(round(shrink * n / multiple), 1), limit) * multiple
        for n in (width, height)
    ]
    if size == [width, height]:
        return View(image, (width, height))
    shrinks = size[0] * size[1] < width * height
    interpolation = cv2.INTER_AREA if shrinks else cv2.INTER_LINEAR
    resized = cv2.resize(image, size, interpolation=interpolation)
    return View(np.asarray(resized, np.uint8), (width, height))


def views_of(
    image0: Image,
    image1: Image,
    max_side: int | None,
    *,
    multiple: int = 1,
    min_side: int = 1,
) -> tuple[View, View]:
    """Both images, each as :func:`view_of` gives it."""
    view0, view1 = (
        view_of(image, max_side, multiple=multiple, min_side=min_side)
        for image in (image0, image1)
    )
    return view0, view1


def grey(view: View) -> Image:
    """The view as one channel, (h, w)."""
    if view.image.ndim == 2 or view.image.shape[2] == 1:
        return view.image.reshape(view.image.shape[:2])
    return np.asarray(cv2.cvtColor(view.image, cv2.COLOR_RGB2GRAY), np.uint8)


def rgb(view: View) -> Image:
    """The view as three channels, (h, w, 3); a grey one is repeated."""
    image = view.image.reshape(*view.image.shape[:2], -1)
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def assemble(
    views: tuple[View, View],
    *,
    source: Points,
    target: Points,
    confidence: PerMatch,
    fine_std: PerAxis,
    coarse_std: PerAxis,
    fine_window: float | PerMatch,
    side: int | Labels,
    cell: Points,
    half_cell: float | PerMatch,
) -> Matches:
    """Matches in the images' own pixels, from points and cues in those of the views.

    `cell` is the centre of the coarse cell on the refined side, `half_cell` half of
    its side.
    """
    view0, view1 = views
    side = np.broadcast_to(side, confidence.shape)
    scale = np.stack([view0.scale, view1.scale])[side]
    return Matches(
        source=view0.back(source),
        target=view1.back(target),
        confidence=np.clip(confidence, MIN_CONFIDENCE, 1.0),
        fine_std=fine_std * scale,
        coarse_std=coarse_std * scale,
        fine_window=fine_window * scale.mean(axis=1),
        source_size=view0.size,
        target_size=view1.size,
        side=side,
        cell=_cells(views, cell, half_cell, side),
    )


def _cells(
    views: tuple[View, View], centre: Points, half: float | PerMatch, side: Labels
) -> CellMaps:
    """Square cells of the views, as :class:`Matches` has them."""
    view0, view1 = views
    scale = np.stack([view0.scale, view1.scale])[side]
    maps = np.zeros((len(centre), 2, 3))
    maps[:, [0, 1], [0, 1]] = np.broadcast_to(half, len(centre))[:, None] * scale
    on_target = (side == 1)[:, None]
    maps[:, :, 2] = np.where(on_target, view1.back(centre), view0.back(centre))
    return maps
