"""Make the laws `daisy-scenes` and `xfeat-star-scenes` that come with the package.

    python scripts/calibrate_scenes.py daisy DATA src/semisure/data/calibrations

DATA holds `photos/` (any), and below `depth/` and `posed/` folders of posed images with
depth, as docs/evaluation.md describes. Views of photos and scenes in depth have the
same say, scene by scene.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np

import semisure
from semisure.__about__ import __version__
from semisure.datasets.depth_truth import depth_residual
from semisure.datasets.posed import PosedPair, read_posed
from semisure.geometry.epipolar import checked_pose, fundamental
from semisure.geometry.fundamental import of_rank_2
from semisure.geometry.homography import residual
from semisure.io.images import find_images, read_image, reduced
from semisure.selfcal.random_views import random_pair
from semisure.selfcal.scenes import ScenePair, fit_scenes
from semisure.types import Matcher

PAIRS_A_SCENE = 12
VIEWS = 96
GROUPS = 8  # that views of photos are dealt out to: as many say as so many scenes
MAX_SIDE = 640  # of photos
MIN_OVERLAP = 0.3


def posed_scene(root: Path, matcher: Matcher) -> list[ScenePair]:
    """Some pairs of a folder of posed images with depth, matched as they are."""
    pairs = read_posed(root, min_overlap=MIN_OVERLAP)
    if len(pairs) > PAIRS_A_SCENE:
        every = len(pairs) / PAIRS_A_SCENE
        pairs = [pairs[int(k * every)] for k in range(PAIRS_A_SCENE)]
    return [_posed(pair, matcher) for pair in pairs]


def _posed(pair: PosedPair, matcher: Matcher) -> ScenePair:
    a, b = pair.camera0, pair.camera1
    matches = matcher(read_image(a.image), read_image(b.image))
    R, t = pair.P_01[:, :3], pair.P_01[:, 3]
    U, _, Vt = np.linalg.svd(R)  # cameras are published to a few digits
    pose = checked_pose(np.column_stack([U @ Vt, t]))
    return ScenePair(
        matches=matches,
        residual=depth_residual(pair, matches),
        F_01=of_rank_2(fundamental(pose, a.K, b.K)),
    )


def views(photos: list[Path], matcher: Matcher) -> dict[str, list[ScenePair]]:
    """Random views of photos, dealt out to groups that count as scenes."""
    order = np.random.default_rng(0).permutation(len(photos))[:VIEWS]
    groups: dict[str, list[ScenePair]] = {}
    for k, index in enumerate(order):
        photo = reduced(read_image(photos[index]), MAX_SIDE)
        image0, image1, H_01 = random_pair(photo, np.random.default_rng([0, k]))
        matches = matcher(image0, image1)
        pair = ScenePair(matches=matches, residual=residual(H_01, matches))
        groups.setdefault(f"views {k % GROUPS}", []).append(pair)
    return groups


def main(name: str, data: Path, output: Path) -> None:
    """Match, fit and write one matcher's law."""
    matcher = semisure.load_matcher(name)
    scenes: dict[str, list[ScenePair]] = views(find_images(data / "photos"), matcher)
    for part in ("depth", "posed"):
        for cameras in sorted((data / part).rglob("cameras.txt")):
            print(cameras.parent.name, flush=True)
            scenes[cameras.parent.name] = posed_scene(cameras.parent, matcher)
    planar = semisure.load_calibration(name)
    calibration, report = fit_scenes(
        scenes,
        location=planar.location is not None,
        matcher=name,
        resolution=planar.resolution,
        provenance={
            "method": "scenes in depth and random views of photos",
            "scenes": {key: len(pairs) for key, pairs in scenes.items()},
            "semisure": __version__,
            "numpy": np.__version__,
            "opencv": cv2.__version__,
        },
    )
    # What a pair errs in common is a matter of views, whose truth is exact.
    calibration = replace(calibration, shared_error=planar.shared_error)
    semisure.save_calibration(calibration, output / f"{name}-scenes.json", report)
    print(report.summary())
    print(calibration.pairs)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
