"""Weighted pose refinement of 20,000 2D–3D matches, beside COLMAP's unweighted one.

Both start from the same pose, have the same matches and camera, and one thread;
COLMAP gets its inlier mask, we get every match.

    python benchmarks/pose_speed.py
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
import pycolmap

from semisure.geometry import pose as se3
from semisure.refit import refit_pose
from semisure.refit.pose import residuals
from semisure.synthetic import (
    EXAMPLE_CALIBRATION,
    EXAMPLE_CAMERA,
    SyntheticMatcher,
    random_pose,
)
from semisure.types import FloatArray

INLIER_PX = 12.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--matches", type=int, default=20_000)
    parser.add_argument("--repeats", type=int, default=15)
    options = parser.parse_args()
    truth, camera = random_pose(np.random.default_rng(0)), EXAMPLE_CAMERA
    matches, _ = SyntheticMatcher().match_world(truth, count=options.matches)
    start = se3.moved(truth, np.array([2, -1, 1, 10, -5, 8]) * 1e-3)
    theirs = pycolmap.Camera(
        model=camera.model, width=640, height=480, params=list(camera.params)
    )
    distance = np.linalg.norm(residuals(start, camera, matches), axis=1)
    inliers, points = distance < INLIER_PX, matches.points + 0.5

    def colmap() -> FloatArray:
        found = pycolmap.refine_absolute_pose(
            pycolmap.Rigid3d(start), points, matches.world, inliers, theirs
        )
        assert found is not None
        return np.asarray(found["cam_from_world"].matrix())

    def core() -> FloatArray:
        model = refit_pose(
            matches, camera, EXAMPLE_CALIBRATION, start, method="core"
        ).model
        assert model is not None
        return model

    def core_plus() -> FloatArray:
        model = refit_pose(matches, camera, EXAMPLE_CALIBRATION, start).model
        assert model is not None
        return model

    arms: dict[str, Callable[[], FloatArray]] = {
        "pycolmap": colmap,
        "core": core,
        "core+": core_plus,
    }
    print(f"{options.matches:,} matches, best of {options.repeats} runs")
    best = {name: measure(run, options.repeats) for name, run in arms.items()}
    for name, run in arms.items():
        apart, angle = se3.errors(run(), truth)
        ratio = best[name] / best["pycolmap"]
        print(
            f"  {name:<9}{1e3 * best[name]:8.1f} ms   {ratio:.2f} × pycolmap   "
            f"off by {apart:.5f}, {angle:.4f}°"
        )


def measure(run: Callable[[], FloatArray], repeats: int) -> float:
    """Shortest time of several runs, s."""
    times = []
    for _ in range(repeats):
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times)


if __name__ == "__main__":
    main()
