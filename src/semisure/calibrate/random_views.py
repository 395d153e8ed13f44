"""Random views of a photo with exact truth: homographies, light, noise, occluders."""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np

from semisure.geometry.homography import corners, defect, normalised, weighted_dlt
from semisure.io.images import Image
from semisure.types import Matrix3


@dataclass(frozen=True, slots=True, kw_only=True)
class WarpSettings:
    """How much the views of a photo vary; standard deviations unless noted."""

    rotation_deg: float = 15.0
    log_zoom: float = 0.2
    corner_shift: float = 0.15  # uniform, share of the image side
    log_gamma: float = 0.3
    log_gain: float = 0.2
    max_noise: float = 8.0  # grey levels
    max_blur_px: float = 2.0
    min_jpeg_quality: int = 40
    max_occluders: int = 3
    occluder_side: float = 0.2  # largest, share of the image side


DEFAULT_WARPS = WarpSettings()


def random_pair(
    photo: Image, rng: np.random.Generator, settings: WarpSettings = DEFAULT_WARPS
) -> tuple[Image, Image, Matrix3]:
    """Two changed views of `photo`, of the same size, and the homography between them.

    Neither is the photo itself: two real images share no pixel grid and no noise. The
    first is warped little, the second as much as `settings` state.
    """
    first, H_0 = _warped(photo, rng, settings, share=0.25)
    second, H_1 = _warped(photo, rng, settings, share=1.0)
    second = _occlude(second, photo, rng, settings)
    images = _expose(first, rng, settings), _expose(second, rng, settings)
    return *images, normalised(H_1 @ np.linalg.inv(H_0))


def random_view(
    photo: Image, rng: np.random.Generator, settings: WarpSettings = DEFAULT_WARPS
) -> tuple[Image, Matrix3]:
    """`photo` from another viewpoint, of the same size, and the homography to it."""
    H = _random_homography((photo.shape[1], photo.shape[0]), rng, settings, share=1.0)
    return _warp(photo, H, cv2.BORDER_CONSTANT), H


def _warped(
    photo: Image, rng: np.random.Generator, settings: WarpSettings, share: float
) -> tuple[Image, Matrix3]:
    H = _random_homography((photo.shape[1], photo.shape[0]), rng, settings, share)
    border = cv2.BORDER_REFLECT_101 if rng.random() < 0.3 else cv2.BORDER_CONSTANT
    return _warp(photo, H, border), H


def _random_homography(
    size: tuple[int, int],
    rng: np.random.Generator,
    settings: WarpSettings,
    share: float,
) -> Matrix3:
    """Rotation, zoom and moved corners about the centre; never folded or mirrored."""
    frame = corners(size)
    middle = frame.mean(axis=0)
    while True:
        angle = np.radians(rng.normal(0.0, share * settings.rotation_deg))
        zoom = np.exp(rng.normal(0.0, share * settings.log_zoom))
        c, s = zoom * np.cos(angle), zoom * np.sin(angle)
        moved = (frame - middle) @ np.array([[c, s], [-s, c]]) + middle
        reach = share * settings.corner_shift
        moved += rng.uniform(-reach, reach, (4, 2)) * np.array(size)
        H = weighted_dlt(frame, moved, np.ones(4))
        if H is not None and defect(H, size) is None:
            return H


def _warp(photo: Image, H_01: Matrix3, border: int) -> Image:
    """The photo under `H_01`, drawn at twice the size and averaged: no aliasing."""
    height, width = photo.shape[:2]
    # (p + 0.5) · 2 − 0.5 brings a pixel of the view to the drawing.
    twice = np.array([[2.0, 0.0, 0.5], [0.0, 2.0, 0.5], [0.0, 0.0, 1.0]])
    large = cv2.warpPerspective(
        photo, twice @ H_01, (2 * width, 2 * height), borderMode=border
    )
    return np.asarray(cv2.resize(large, (width, height), interpolation=cv2.INTER_AREA))


def _occlude(
    view: Image, photo: Image, rng: np.random.Generator, settings: WarpSettings
) -> Image:
    """Pieces of the photo pasted at random places."""
    size = np.array(view.shape[:2])
    view = view.copy()
    for _ in range(rng.integers(settings.max_occluders + 1)):
        side = (rng.uniform(0.05, settings.occluder_side, 2) * size).astype(int)
        y, x = rng.integers(0, size - side)
        from_y, from_x = rng.integers(0, size - side)
        piece = photo[from_y : from_y + side[0], from_x : from_x + side[1]]
        view[y : y + side[0], x : x + side[1]] = piece
    return view


def _expose(view: Image, rng: np.random.Generator, settings: WarpSettings) -> Image:
    """Gamma, gain, offset, sometimes blur, then noise and JPEG."""
    gamma = np.exp(rng.normal(0.0, settings.log_gamma))
    gain = np.exp(rng.normal(0.0, settings.log_gain))
    levels = (np.arange(256) / 255.0) ** gamma * gain + rng.normal(0.0, 0.04)
    light = (255.0 * np.clip(levels, 0.0, 1.0)).astype(np.float32)[view]
    if rng.random() < 0.4:
        light = cv2.GaussianBlur(light, (0, 0), rng.uniform(0.5, settings.max_blur_px))
    strength = rng.uniform(0.0, settings.max_noise)
    light = light + strength * rng.standard_normal(light.shape, dtype=np.float32)
    exposed = np.clip(light, 0, 255).astype(np.uint8)
    quality = int(rng.integers(settings.min_jpeg_quality, 101))
    _, encoded = cv2.imencode(".jpg", exposed, [cv2.IMWRITE_JPEG_QUALITY, quality])
    flag = cv2.IMREAD_COLOR if view.ndim == 3 else cv2.IMREAD_GRAYSCALE
    return np.asarray(cv2.imdecode(encoded, flag), dtype=np.uint8)
