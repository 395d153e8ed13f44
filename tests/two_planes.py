"""A scene with known depth, rendered from any pose: a board before a wall."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.types import FloatArray

SIZE = (320, 240)
K = np.array([[300.0, 0.0, 159.5], [0.0, 300.0, 119.5], [0.0, 0.0, 1.0]])
CAMERA = Camera.from_matrix(K, SIZE)
WALL_M, BOARD_M = 8.0, 4.0
BOARD = np.array([[-1.2, -1.0], [0.3, 1.0]])  # its corners, m
PIXELS_PER_M = 60.0


def posed(*tangent: float) -> FloatArray:
    """A pose [R | t], moved from the origin by rotation (rad), then position (m)."""
    return se3.moved(np.eye(3, 4), np.array(tangent, dtype=np.float64))


def render(pose: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The image, uint8, and the depth in m, of the scene from a pose."""
    x, y = np.meshgrid(np.arange(SIZE[0]), np.arange(SIZE[1]))
    rays = np.stack([x, y, np.ones_like(x)], axis=-1) @ np.linalg.inv(K).T
    R, centre = pose[:, :3], se3.centre(pose)
    world = rays @ R  # of length 1 along the camera's axis: a factor of it is depth
    image = np.zeros(x.shape)
    depth = np.zeros(x.shape)
    for seed, plane in enumerate((WALL_M, BOARD_M)):
        z = (plane - centre[2]) / world[..., 2]
        place = centre[:2] + z[..., None] * world[..., :2]
        seen = np.ones(x.shape, dtype=bool)
        if plane == BOARD_M:
            seen = ((place >= BOARD[0]) & (place <= BOARD[1])).all(axis=-1)
        at = (place * PIXELS_PER_M + 600.0).astype(np.float32)
        colours = cv2.remap(texture(seed), at[..., 0], at[..., 1], cv2.INTER_LINEAR)
        image, depth = np.where(seen, colours, image), np.where(seen, z, depth)
    return image.round().astype(np.uint8), depth


@cache
def texture(seed: int) -> FloatArray:
    noise = np.random.default_rng(seed).normal(size=(1200, 1200)).astype(np.float32)
    smooth = cv2.GaussianBlur(noise, (0, 0), 2.5)
    return np.clip(128 + 45 * smooth / smooth.std(), 0, 255)
