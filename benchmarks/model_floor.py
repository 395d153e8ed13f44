"""What core+'s floor on the fine scale costs where the homography is exact.

`core_plus.MODEL_FLOOR` was chosen on real pairs whose truth is off by about a pixel.
Random views of photos obey their homography to rounding, so there the best floor is
none; the price of the one in use is what this prints, beside the base estimator and
`core`.

    python benchmarks/model_floor.py PHOTOS
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from semisure.calibrate.random_views import random_pair
from semisure.estimators import estimate_homography
from semisure.io.files import load_calibration
from semisure.io.images import find_images, read_image, reduced
from semisure.matchers import load_matcher
from semisure.metrics import auc, corner_error
from semisure.refit import core_plus
from semisure.refit.planes import refit_homography
from semisure.types import FloatArray, Matches

FLOORS = (0.0, 1e-4, 2e-4, 4e-4, 8e-4, 1.6e-3)
THRESHOLDS = (0.5, 1, 3, 5, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--pairs", type=int, default=80)
    parser.add_argument("--seed", type=int, default=12345)
    options = parser.parse_args()
    pairs = make_pairs(options.photos, options.pairs, options.seed)
    calibration = load_calibration("daisy")
    print(f"{len(pairs)} pairs, AUC at {'/'.join(map(str, THRESHOLDS))} px")
    for name in ("ransac", "magsac++"):
        starts = [estimate_homography(matches, name) for matches, _ in pairs]
        both = list(zip(starts, pairs, strict=True))
        show(f"{name} base", [start.model for start in starts], pairs)
        core = [
            refit_homography(matches, calibration, start, method="core").model
            for start, (matches, _) in both
        ]
        show(f"{name} core", core, pairs)
        for floor in FLOORS:
            core_plus.MODEL_FLOOR = floor
            plus = [
                refit_homography(matches, calibration, start).model
                for start, (matches, _) in both
            ]
            show(f"{name} core+ {floor:g}", plus, pairs)


def make_pairs(folder: Path, count: int, seed: int) -> list[tuple[Matches, FloatArray]]:
    """Matches of random views of shuffled photos, and the exact homographies."""
    photos, matcher = find_images(folder), load_matcher("daisy")
    order = np.random.default_rng(seed).permutation(len(photos))[:count]
    made = []
    for i, index in enumerate(order):
        photo = reduced(read_image(photos[index]), 640)
        image0, image1, H_01 = random_pair(photo, np.random.default_rng([seed, i]))
        made.append((matcher(image0, image1), H_01))
    return made


def show(
    name: str,
    models: Sequence[FloatArray | None],
    pairs: list[tuple[Matches, FloatArray]],
) -> None:
    errors = [
        corner_error(H, truth, matches.source_size)
        for H, (matches, truth) in zip(models, pairs, strict=True)
    ]
    areas = " / ".join(f"{100 * area:5.1f}" for area in auc(errors, THRESHOLDS))
    print(f"  {name:<22}{areas}   median {np.median(errors):.3f} px")


if __name__ == "__main__":
    main()
