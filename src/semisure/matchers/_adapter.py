"""Between images and networks: sizes, and the way back to original pixels."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from semisure.errors import InputError
from semisure.images import Image
from semisure.types import FloatArray, IntArray, Matches

MIN_CONFIDENCE = 1e-12  # where the softmax underflows


@dataclass(frozen=True, slots=True)
class View:
    """`image`, resized from `size` (width, height)."""

    image: Image
    size: tuple[int, int]

    @property
    def scale(self) -> FloatArray:
        """Own pixels per pixel of the view, (2,)."""
        return np.array(self.size) / np.array(self.image.shape[1::-1])

    def back(self, points: FloatArray) -> FloatArray:
        """Points of the view, (n, 2), in the image's own pixels."""
        return (points + 0.5) * self.scale - 0.5


def view_of(image: Image, max_side: int | None, multiple: int, min_side: int) -> View:
    """`image` with sides in multiples of `multiple`, the longer at most `max_side`.

    Sides are rounded and the image resampled, as the official evaluations do: no
    padding, so no masks, and the scales of the two axes differ by a little.
    """
    channels = image.shape[2] if image.ndim == 3 else 1
    if image.dtype != np.uint8 or image.ndim not in (2, 3) or channels not in (1, 3):
        raise InputError(
            "An image must be uint8 of shape (h, w) or (h, w, 3), but this is "
            f"{image.dtype} of shape {image.shape}."
        )
    height, width = image.shape[:2]
    if min(height, width) < min_side:
        raise InputError(
            f"This matcher needs images of at least {min_side} px a side, but one has "
            f"{width} × {height}."
        )
    shrink = min(1.0, (max_side or max(width, height)) / max(width, height))
    seen = [
        max(1, int(shrink * side + 1e-9) // multiple) * multiple
        for side in (width, height)
    ]
    if seen == [width, height]:
        return View(image, (width, height))
    small = cv2.resize(image, seen, interpolation=cv2.INTER_AREA)
    return View(np.asarray(small, np.uint8), (width, height))


def grey(view: View) -> Image:
    """One channel, (h, w)."""
    image = view.image
    if image.ndim == 3 and image.shape[2] == 3:
        return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), np.uint8)
    return image.reshape(image.shape[:2])


def rgb(view: View) -> Image:
    """Three channels, (h, w, 3); of a grey image, three times the same."""
    image = view.image.reshape(*view.image.shape[:2], -1)
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def assemble(
    view0: View,
    view1: View,
    *,
    source: FloatArray,
    target: FloatArray,
    confidence: FloatArray,
    fine_std: FloatArray,
    coarse_std: FloatArray,
    fine_window: float | FloatArray,
    side: int | IntArray,
) -> Matches:
    """Matches in the images' own pixels, from points and cues in those of the views."""
    side = np.broadcast_to(side, confidence.shape)
    scale = np.stack([view0.scale, view1.scale])[side]
    return Matches(
        source=view0.back(source),
        target=view1.back(target),
        confidence=confidence.clip(MIN_CONFIDENCE, 1.0),
        fine_std=fine_std * scale,
        coarse_std=coarse_std * scale,
        fine_window=fine_window * scale.mean(axis=1),
        source_size=view0.size,
        target_size=view1.size,
        side=side,
    )
