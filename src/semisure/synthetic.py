"""Matches drawn from a known law over a known geometry: for tests and examples.

No images are needed. Source points lie on an 8 px grid, cues are drawn from broad
ranges, and the target's errors from the law that a calibration gives those cues, so a
fit to such matches must recover the calibration.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from semisure.errors import InputError
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.geometry.epipolar import rays
from semisure.geometry.homography import corners, project, weighted_dlt
from semisure.law.error_laws import error_law
from semisure.law.mixture import sample
from semisure.types import (
    Calibration,
    Matches,
    Matrix3,
    PerAxis,
    PerMatch,
    Points,
    Pose,
    WorldMatches,
)

CELL_PX = 8

# A law with about a tenth of coarse failures, in the range of the real matchers.
EXAMPLE_CALIBRATION = Calibration(
    coarse_var_gain=(1.5, 1.2),
    fine_var_gain=(0.8, 0.9),
    spread_slope=0.25,
    doubt_slope=1.2,
    intercept=(-4.6, -4.4),
    model_error=0.0,  # its homographies are exact
    matcher="synthetic",
)

EXAMPLE_CAMERA = Camera("SIMPLE_RADIAL", 640, 480, (520.0, 322.0, 241.0, -0.08))


@dataclass(frozen=True, slots=True)
class SyntheticMatcher:
    """A matcher that errs exactly as `calibration` says."""

    calibration: Calibration = EXAMPLE_CALIBRATION

    def match(
        self,
        H_01: Matrix3,
        *,
        count: int = 2000,
        size: tuple[int, int] = (640, 480),
        seed: int = 0,
    ) -> tuple[Matches, PerAxis]:
        """`count` matches under `H_01` and their true residuals, (n, 2) px."""
        rng = np.random.default_rng(seed)
        source = _cells(rng, count, size)
        return self._err(rng, source, project(H_01, source), size)

    def match_views(
        self,
        P_01: Pose,
        K: Matrix3,
        *,
        depths: tuple[float, float] = (4.0, 12.0),
        count: int = 2000,
        size: tuple[int, int] = (640, 480),
        seed: int = 0,
    ) -> tuple[Matches, PerMatch]:
        """`count` matches of two views of a scene, and depths in image 0, (n,).

        Both cameras have the intrinsics `K`; camera 1 is at `P_01`, [R | t]. Inverse
        depth is even between the two `depths`: the same twice is a plane.
        """
        rng = np.random.default_rng(seed)
        source = _cells(rng, count, size)
        depth = 1.0 / rng.uniform(1.0 / depths[1], 1.0 / depths[0], count)
        X = depth[:, None] * rays(K, source) @ P_01[:, :3].T + P_01[:, 3]
        pixel = X @ K.T
        if not (pixel[:, 2] > 0).all():
            raise InputError(
                "Camera 1 must see the scene, but a part lies behind it; give a "
                "smaller motion or larger depths."
            )
        truth = pixel[:, :2] / pixel[:, 2:]
        return self._err(rng, source, truth, size)[0], depth

    def _err(
        self,
        rng: np.random.Generator,
        source: Points,
        truth: Points,
        size: tuple[int, int],
    ) -> tuple[Matches, PerAxis]:
        """Cues for each match, and the error that its law gives it."""
        count = len(source)
        matches = Matches(
            source=source,
            target=truth,
            confidence=np.exp(-rng.exponential(0.9, count)),
            fine_std=np.exp(rng.normal(-0.5, 0.4, (count, 2))),
            coarse_std=np.exp(rng.normal(3.0, 0.8, (count, 2))),
            source_size=size,
            target_size=size,
        )
        residual = sample(error_law(matches, self.calibration), rng)
        return replace(matches, target=truth + residual), residual

    def match_world(
        self,
        cam_from_world: Pose,
        camera: Camera = EXAMPLE_CAMERA,
        *,
        count: int = 800,
        depth: tuple[float, float] = (3.0, 9.0),
        seed: int = 0,
    ) -> tuple[WorldMatches, PerAxis]:
        """`count` 2D–3D matches under a pose and their true residuals, (n, 2) px."""
        rng = np.random.default_rng(seed)
        z = rng.uniform(*depth, count)
        reach = 0.45 * np.array(camera.size) / camera.focal
        in_camera = np.column_stack(
            [rng.uniform(-reach, reach, (count, 2)) * z[:, None], z]
        )
        world = (in_camera - cam_from_world[:, 3]) @ cam_from_world[:, :3]
        matches = WorldMatches(
            points=se3.project(cam_from_world, camera, world),
            world=world,
            confidence=np.exp(-rng.exponential(0.9, count)),
            fine_std=np.exp(rng.normal(-0.5, 0.4, (count, 2))),
            coarse_std=np.exp(rng.normal(3.0, 0.8, (count, 2))),
            size=camera.size,
        )
        residual = sample(error_law(matches, self.calibration), rng)
        return matches.shifted(residual), residual


def _cells(rng: np.random.Generator, count: int, size: tuple[int, int]) -> Points:
    """Centres of random cells."""
    cells = rng.integers(0, [size[0] // CELL_PX, size[1] // CELL_PX], (count, 2))
    return CELL_PX * (cells + 0.5) - 0.5


def random_homography(
    rng: np.random.Generator, size: tuple[int, int] = (640, 480), strength: float = 0.15
) -> Matrix3:
    """The homography that moves each corner by up to `strength` of the image side."""
    frame = corners(size)
    moved = frame + rng.uniform(-strength, strength, (4, 2)) * np.array(size)
    H = weighted_dlt(frame, moved, np.ones(4))
    assert H is not None  # four corners of a convex frame
    return H


def random_pose(rng: np.random.Generator, strength: float = 0.5) -> Pose:
    """A pose [R | t] turned (rad) and moved by up to `strength` along each axis."""
    return se3.moved(np.eye(3, 4), rng.uniform(-strength, strength, 6))
