"""Speed against named rivals, as ratios measured in one run. `make bench` prints it.

1. Homographies, at 10³ to 10⁶ matches: ``core`` and ``core+`` against
   ``cv2.findHomography(RANSAC)`` on the same matches, and the covariance.
2. Camera poses of 20,000 matches against pycolmap's refinement, which gets its inlier
   mask; relative poses of 8,500 matches against PoseLib's RANSAC.
3. Fits of 400,000 matches against SciPy's Powell with the paper's settings; a fit of
   10⁷ matches with its memory.

Rivals take turns; medians of the time that the process computes are compared, since the
machine may be busy.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import cv2
import numpy as np
import poselib
import pycolmap

import semisure
from semisure.geometry import pose as se3
from semisure.law.fit_law import fit
from semisure.law.observations import Observations, observe
from semisure.refit.poses import refit_pose, residuals
from semisure.refit.relative import refit_relative
from semisure.synthetic import (
    EXAMPLE_CALIBRATION,
    EXAMPLE_CAMERA,
    SyntheticMatcher,
    random_homography,
    random_pose,
)

SIZES = (1_000, 8_500, 100_000, 1_000_000)
PAIRS = 5  # RANSAC takes more or less time, as chance has it
COVARIANCE_MS = 15.0  # at most, at 8,500 matches
# As the shipped laws have it: all terms of a covariance are then computed.
CALIBRATION = replace(EXAMPLE_CALIBRATION, model_error=None)
INLIER_PX = 12.0
K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
PER_PAIR, MATCHES, MANY = 2000, 400_000, 10_000_000

Arms = Mapping[str, Callable[[], Any]]


def main() -> None:
    parts: dict[str, Callable[[], None]] = {
        "homographies": homographies,
        "poses": poses,
        "fits": fits,
    }
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=parts, nargs="*", default=list(parts))
    versions = f"numpy {np.__version__}, cv2 {cv2.__version__}"
    print(f"semisure {semisure.__version__}, {versions}")
    for name in parser.parse_args().only:
        parts[name]()


def medians(arms: Arms, repeats: int) -> dict[str, float]:
    """Median ms of each arm over rounds in which every arm has its turn."""
    ms: dict[str, list[float]] = {name: [] for name in arms}
    for k in range(repeats + 1):
        for name, run in arms.items():
            begun = time.process_time()
            run()
            if k:  # the first round warms up
                ms[name].append(1e3 * (time.process_time() - begun))
    return {name: float(np.median(times)) for name, times in ms.items()}


def wanted(value: float, bar: float) -> str:
    """The bar, and whether it was met."""
    return f"(wanted: at most {bar:g}; {'met' if value <= bar else 'MISSED'})"


def homographies() -> None:
    """Median over pairs of the medians of each arm, at every size."""
    names = ("RANSAC", "core", "core+", "covariance")
    print("\nhomographies: medians of interleaved runs, ms")
    print(f"  {'matches':>9}" + "".join(f"{name:>12}" for name in names))
    at_size: dict[int, dict[str, float]] = {}
    for count in SIZES:
        repeats = max(2, min(30, 100_000 // count))
        seeds = range(PAIRS if count < 100_000 else 1)
        rows = [medians(of_homography(count, seed), repeats) for seed in seeds]
        ms = {name: float(np.median([row[name] for row in rows])) for name in names}
        at_size[count] = ms
        print(f"  {count:>9,}" + "".join(f"{ms[n]:12.2f}" for n in names))
    for count, ms in at_size.items():
        ratio = ms["core+"] / ms["RANSAC"]
        bar = wanted(ratio, 1.25 if count < 100_000 else 1.0)
        print(f"  core+ / RANSAC at {count:>9,}: {ratio:5.2f} {bar}")
    covariance = at_size[8_500]["covariance"]
    bar = wanted(covariance, COVARIANCE_MS)
    print(f"  covariance at 8,500: {covariance:.2f} ms {bar}")


def of_homography(count: int, seed: int) -> Arms:
    """One random pair, ready to be matched against the clock."""
    H = random_homography(np.random.default_rng(seed))
    matches, _ = SyntheticMatcher().match(H, count=count, seed=seed)
    start = semisure.estimate_homography(matches, "ransac").model
    assert start is not None
    refit = semisure.refit_homography(matches, CALIBRATION, start)
    assert refit.uncertainty is not None
    uncertainty = refit.uncertainty
    return {
        "RANSAC": lambda: cv2.findHomography(
            matches.source, matches.target, cv2.RANSAC, 3.0
        ),
        "core": lambda: semisure.refit_homography(
            matches, CALIBRATION, start, method="core"
        ),
        "core+": lambda: semisure.refit_homography(matches, CALIBRATION, start),
        "covariance": lambda: uncertainty(field=True),
    }


def poses(repeats: int = 15) -> None:
    for title, rival, arms in (
        ("camera poses of 20,000 matches", "pycolmap", of_camera(20_000)),
        ("relative poses of 8,500 matches", "poselib", of_two_cameras(8_500)),
    ):
        print(f"\n{title}: medians of interleaved runs")
        ms = medians(arms, repeats)
        for name, each in ms.items():
            ratio = each / ms[rival]
            bar = wanted(ratio, 1.0) if name == "core+" else ""
            print(f"  {name:<9}{each:8.1f} ms   {ratio:.2f} × {rival} {bar}")


def of_camera(count: int) -> Arms:
    truth, camera = random_pose(np.random.default_rng(0)), EXAMPLE_CAMERA
    matches, _ = SyntheticMatcher().match_world(truth, count=count)
    start = se3.moved(truth, np.array([2, -1, 1, 10, -5, 8]) * 1e-3)
    theirs = pycolmap.Camera(
        model=camera.model, width=640, height=480, params=list(camera.params)
    )
    distance = np.linalg.norm(residuals(start, camera, matches), axis=1)
    inliers, points = distance < INLIER_PX, matches.points + 0.5
    law = EXAMPLE_CALIBRATION
    return {
        "pycolmap": lambda: pycolmap.refine_absolute_pose(
            pycolmap.Rigid3d(start), points, matches.world, inliers, theirs
        ),
        "core": lambda: refit_pose(matches, camera, law, start, method="core"),
        "core+": lambda: refit_pose(matches, camera, law, start),
    }


def of_two_cameras(count: int) -> Arms:
    truth = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    matches, _ = SyntheticMatcher().match_views(truth, K, count=count)
    params = [K[0, 0], K[1, 1], K[0, 2], K[1, 2]]
    camera = {"model": "PINHOLE", "width": 640, "height": 480, "params": params}

    def estimated() -> Any:
        return poselib.estimate_relative_pose(
            matches.source, matches.target, camera, camera, {"max_epipolar_error": 2.0}
        )[0]

    pose = estimated()
    start = np.column_stack([pose.R, pose.t / np.linalg.norm(pose.t)])
    return {
        "poselib": estimated,
        "core+": lambda: refit_relative(matches, EXAMPLE_CALIBRATION, start, K, K),
    }


def fits() -> None:
    rng = np.random.default_rng(0)
    some = observe(
        SyntheticMatcher().match(random_homography(rng), count=PER_PAIR, seed=i)
        for i in range(MATCHES // PER_PAIR)
    )
    print(f"\nfits of {MATCHES:,} matches, {MATCHES // PER_PAIR} pairs")
    seconds = medians({"newton": lambda: fit(some)}, 5)["newton"] / 1e3
    start = time.process_time()
    fit(some, optimiser="powell")
    powell = time.process_time() - start
    ratio = powell / seconds
    print(f"  newton {seconds:.2f} s, powell {powell:.1f} s: {ratio:.0f} times")
    # 10⁷ rows from far fewer: drawing them all would take longer than the fit.
    times = MANY // MATCHES
    arrays = (np.tile(getattr(some, f.name).T, times).T for f in fields(some))
    many = Observations(*arrays)
    for k in range(times):  # every copy has pairs of its own
        many.pair[k * MATCHES : (k + 1) * MATCHES] += k * (MATCHES // PER_PAIR)
    start = time.process_time()
    fit(many)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"  {MANY:,} matches: {seconds:.1f} s {wanted(seconds, 12)}")
    print(f"  the most memory: {peak:.2f} GB")


if __name__ == "__main__":
    main()
