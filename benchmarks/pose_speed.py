"""Pose refits beside COLMAP's and PoseLib's, of 20,000 and 8,500 matches.

    python benchmarks/speed.py --only poses

Camera poses: all start from the same pose, have the same matches and camera, and one
thread; COLMAP's unweighted refinement gets its inlier mask, we get every match.
Relative poses: PoseLib's RANSAC with its own refinement, and our refit of its answer.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import poselib
import pycolmap

from clock import medians, wanted
from semisure.geometry import pose as se3
from semisure.refit.poses import refit_pose, residuals
from semisure.refit.relative import refit_relative
from semisure.synthetic import (
    EXAMPLE_CALIBRATION,
    EXAMPLE_CAMERA,
    SyntheticMatcher,
    random_pose,
)
from semisure.types import FloatArray, Refit

INLIER_PX = 12.0
K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])


def compare() -> None:
    compare_absolute(20_000, repeats=15)
    compare_relative(8_500, repeats=15)


def compare_absolute(count: int, repeats: int) -> None:
    truth, camera = random_pose(np.random.default_rng(0)), EXAMPLE_CAMERA
    matches, _ = SyntheticMatcher().match_world(truth, count=count)
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

    def refitted(method: str) -> FloatArray:
        refit = refit_pose(matches, camera, EXAMPLE_CALIBRATION, start, method=method)  # type: ignore[arg-type]
        assert refit.model is not None
        return refit.model

    arms: dict[str, Callable[[], FloatArray]] = {
        "pycolmap": colmap,
        "core": lambda: refitted("core"),
        "core+": lambda: refitted("core+"),
    }
    seconds = medians(arms, repeats)
    print(f"\ncamera poses of {count:,} matches: medians of interleaved runs")
    for name, run in arms.items():
        apart, angle = se3.errors(run(), truth)
        ratio = seconds[name] / seconds["pycolmap"]
        bar = wanted(ratio, 1.0) if name == "core+" else ""
        print(
            f"  {name:<9}{1e3 * seconds[name]:8.1f} ms   {ratio:.2f} × pycolmap {bar}  "
            f"off by {apart:.5f}, {angle:.4f}°"
        )


def compare_relative(count: int, repeats: int) -> None:
    truth = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    matches, _ = SyntheticMatcher().match_views(truth, K, count=count)
    camera = {
        "model": "PINHOLE",
        "width": 640,
        "height": 480,
        "params": [500.0, 500.0, 319.5, 239.5],
    }

    def estimated() -> FloatArray:
        pose, _ = poselib.estimate_relative_pose(
            matches.source, matches.target, camera, camera, {"max_epipolar_error": 2.0}
        )
        return np.column_stack([pose.R, pose.t / np.linalg.norm(pose.t)])

    start = estimated()

    def refitted() -> Refit:
        return refit_relative(matches, EXAMPLE_CALIBRATION, start, K, K)

    seconds = medians({"poselib": estimated, "core+": refitted}, repeats)
    ratio = seconds["core+"] / seconds["poselib"]
    print(f"relative poses of {count:,} matches: medians of interleaved runs")
    print(
        f"  poselib  {1e3 * seconds['poselib']:8.1f} ms\n"
        f"  core+    {1e3 * seconds['core+']:8.1f} ms   {ratio:.2f} × PoseLib, "
        f"{refitted().iterations} steps"
    )
