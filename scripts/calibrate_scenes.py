"""Make the laws `daisy` and `xfeat-star` that come with the package.

    python scripts/calibrate_scenes.py daisy DATA daisy.json

for `src/semisure/data/calibrations`. The eight numbers are those of `daisy-planar`,
which `semisure calibrate` fitted to random views of photos. How pairs differ is fitted
here. DATA holds `photos/` (any), and below `depth/` and `posed/` folders of posed
images with depth, as docs/evaluation.md describes; views of photos and scenes in depth
have the same say, scene by scene. `--without NAME` leaves scenes out, to judge the law
on them.
"""

from __future__ import annotations

import argparse
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
from semisure.selfcal.scenes import ScenePair, fit_spread, usable
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


def scenes_below(
    data: Path, matcher: Matcher, without: set[str]
) -> dict[str, list[ScenePair]]:
    """Views of the photos and every posed scene, matched."""
    scenes = views(find_images(data / "photos"), matcher)
    for part in ("depth", "posed"):
        for cameras in sorted((data / part).rglob("cameras.txt")):
            name = cameras.parent.name
            if name not in without:
                print(name, flush=True)
                scenes[name] = posed_scene(cameras.parent, matcher)
    return scenes


def main() -> None:
    """Match, fit how pairs differ, and write it beside the planar law's numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("matcher")
    parser.add_argument("data", type=Path)
    parser.add_argument("output", type=Path, help="File of the law.")
    parser.add_argument("--without", nargs="*", default=[], help="Scenes left out.")
    options = parser.parse_args()
    planar = semisure.load_calibration(f"{options.matcher}-planar")
    matcher = semisure.load_matcher(options.matcher)
    scenes = scenes_below(options.data, matcher, set(options.without))
    spread = fit_spread(usable(scenes), planar)
    provenance = {
        "numbers": dict(planar.provenance),
        "pairs": "scenes in depth and random views of photos",
        "scenes": {name: len(pairs) for name, pairs in scenes.items()},
        "semisure": __version__,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
    }
    law = replace(planar, pairs=spread, provenance=provenance)
    semisure.save_calibration(law, options.output)
    print(spread)


if __name__ == "__main__":
    main()
