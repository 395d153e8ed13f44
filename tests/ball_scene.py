"""Cameras around a ball: semi-dense matches whose truth is known in closed form."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from semisure.geometry.epipolar import fundamental
from semisure.io.files import calibration_document
from semisure.io.store import Manifest, Store
from semisure.synthetic import EXAMPLE_CALIBRATION
from semisure.types import Matches
from semisure.types.pair_records import ImageRecord, PairRecord

SIZE = 640, 480
K = np.array([[600.0, 0.0, 319.5], [0.0, 600.0, 239.5], [0.0, 0.0, 1.0]])
RADIUS, DISTANCE = 2.0, 6.0
CELL = 8.0


def camera(turn_deg: float, lift_deg: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """R and t of a camera that looks at the ball's centre from `DISTANCE`."""
    a, b = np.radians([turn_deg, lift_deg])
    turn = np.array([[np.cos(a), 0, np.sin(a)], [0, 1, 0], [-np.sin(a), 0, np.cos(a)]])
    lift = np.array([[1, 0, 0], [0, np.cos(b), -np.sin(b)], [0, np.sin(b), np.cos(b)]])
    return lift @ turn, np.array([0.0, 0.0, DISTANCE])


CAMERAS = {f"{k}.png": camera(12.0 * k, 5.0 * (k % 2)) for k in range(6)}


def on_ball(name: str, points: np.ndarray) -> np.ndarray:
    """World points (n, 3) that pixels of an image show; NaN beside the ball."""
    R, t = CAMERAS[name]
    rays = np.column_stack([points, np.ones(len(points))]) @ np.linalg.inv(K).T
    rays /= np.linalg.norm(rays, axis=1, keepdims=True)
    along = rays @ t
    with np.errstate(invalid="ignore"):
        depth = along - np.sqrt(along**2 - t @ t + RADIUS**2)
    return (rays * depth[:, None] - t) @ R


def shown(name: str, world: np.ndarray) -> np.ndarray:
    """Pixels (n, 2) of world points; NaN where the ball hides them."""
    R, t = CAMERAS[name]
    local = world @ R.T + t
    facing = ((local - t) * local).sum(axis=1) < -0.6
    pixels = (local @ K.T)[:, :2] / local[:, 2:]
    inside = ((pixels >= 0) & (pixels <= np.array(SIZE) - 1)).all(axis=1)
    return np.where((facing & inside)[:, None], pixels, np.nan)


def carried(first: str, second: str, points: np.ndarray) -> np.ndarray:
    """Where an image shows what another one shows at `points`."""
    return shown(second, on_ball(first, points))


def matched(
    first: str, second: str, noise_px: float, rng: np.random.Generator
) -> Matches:
    """The cells of one image, and their places in the other with Laplace noise."""
    x = np.arange(CELL / 2, SIZE[0], CELL)
    y = np.arange(CELL / 2, SIZE[1], CELL)
    source = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    target = carried(first, second, source)
    seen = np.isfinite(target).all(axis=1)
    source, target = source[seen], target[seen]
    n = len(source)
    return Matches(
        source=source,
        target=target + rng.laplace(0.0, noise_px, (n, 2)),
        confidence=rng.uniform(0.3, 1.0, n),
        fine_std=np.full((n, 2), noise_px),
        coarse_std=np.full((n, 2), 10.0),
        source_size=SIZE,
        target_size=SIZE,
    )


def relative(first: str, second: str) -> np.ndarray:
    (R0, t0), (R1, t1) = CAMERAS[first], CAMERAS[second]
    R = R1 @ R0.T
    t = t1 - R @ t0
    return np.column_stack([R, t / np.linalg.norm(t)])


def records(noise_px: float = 0.1) -> list[PairRecord]:
    """All pairs that see enough of the ball together, with their true geometry."""
    rng, made = np.random.default_rng(0), []
    order = tuple(CAMERAS)
    for i, first in enumerate(order):
        for second in order[i + 1 : i + 3]:
            matches = matched(first, second, noise_px, rng)
            made.append(
                PairRecord(
                    image0=first,
                    image1=second,
                    state="sound",
                    match_count=len(matches),
                    probability=1.0,
                    kind="fundamental",
                    model=fundamental(relative(first, second), K, K),
                    matches=matches,
                    weight=np.ones(len(matches)),
                    expected_px=np.full(len(matches), noise_px),
                    fine_scale=np.full((len(matches), 2), noise_px),
                )
            )
    return made


def made_store(folder: Path, pairs: list[PairRecord]) -> Store:
    """A store of these pairs, without images behind it."""
    recipe = {
        "matcher": "ball",
        "calibration": calibration_document(EXAMPLE_CALIBRATION),
    }
    store = Store.made(folder, Manifest(recipe=recipe))
    store.write(pairs)
    names = sorted({name for pair in pairs for name in pair.names})
    store.write_images([image_record(name) for name in names])
    return store


def image_record(name: str) -> ImageRecord:
    size = {"width": SIZE[0], "height": SIZE[1]}
    return ImageRecord(name=name, **size, sha256="0" * 64, bytes=0, modified_ns=0)
