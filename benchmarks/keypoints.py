"""True errors of keypoints made of semi-dense matches, where depth is known.

A keypoint of one image is carried by depth and cameras to the other image of a matched
pair; how far it is from the keypoint that it was matched to is the error. Arms: cells
of the usual size with keypoints at their means, cells of 1 px (hloc's `loftr`), and
keypoints placed by tracks. *ratio* is the median of the errors, whitened by the
covariances of both keypoints, over what it would be were they right; *within 90 %*
counts errors inside the ellipse that should hold 90 %. Errors beyond 20 px of a 640 px
image are wrong matches and left out.

    semisure match-pairs SCENE/images --exhaustive -o store
    python benchmarks/keypoints.py store ../shared/data/depth/multiview/rendered-table
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from semisure.datasets.posed import PosedPair, carried, read_posed
from semisure.io.store import Store
from semisure.mapping.aggregation import Aggregated, AggregationSettings, Aggregator
from semisure.types import FloatArray

ARMS = {
    "mean": AggregationSettings(placement="mean"),
    "mean, 1 px": AggregationSettings(placement="mean", cell_px=1.0),
    "tracks": AggregationSettings(),
}
WRONG = 20 / 640  # of the longer side
MEDIAN, NINETY = 2 * np.log(2), 2 * np.log(10)  # quantiles of χ² with two degrees


def offsets(
    made: Aggregated, pairs: dict[tuple[str, str], PosedPair]
) -> tuple[FloatArray, FloatArray]:
    """Errors (n, 2) px of matched keypoints, and the covariances of both together."""
    errors, covariances = [], []
    for match in made.pairs:
        posed = pairs.get((match.image0, match.image1))
        if posed is None:
            continue
        first, second = made.keypoints[match.image0], made.keypoints[match.image1]
        one, other = match.matches.T
        sizes = made.sizes[match.image0], made.sizes[match.image1]
        ends = posed.camera0, posed.camera1
        truth = carried(first.points[one], *ends, posed.P_01, *sizes)
        off = second.points[other] - truth
        right = np.linalg.norm(off, axis=1) < WRONG * max(sizes[1])
        errors.append(off[right])
        covariances.append((first.covariance[one] + second.covariance[other])[right])
    return np.concatenate(errors), np.concatenate(covariances)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store")
    parser.add_argument("scene", type=Path)
    asked = parser.parse_args()
    store = Store.at(asked.store)
    posed = read_posed(asked.scene)
    pairs = {(p.camera0.image.name, p.camera1.image.name): p for p in posed}
    print(f"{asked.scene.name}: {len(store.images())} images")
    print(f"{'arm':<12}{'keypoints':>10}{'matches':>9}{'median px':>10}{'90 % px':>9}"
          f"{'ratio':>7}{'within 90 %':>12}")  # fmt: skip
    for name, settings in ARMS.items():
        made = Aggregator(store.records, store.manifest.calibration, settings)()
        off, C = offsets(made, pairs)
        length = np.linalg.norm(off, axis=1)
        known = np.isfinite(C.sum(axis=(1, 2)))
        whitened = np.linalg.solve(C[known], off[known, :, None])[..., 0]
        square = (off[known] * whitened).sum(axis=1)
        count = sum(len(found) for found in made.keypoints.values())
        print(
            f"{name:<12}{count:>10,}{len(off):>9,}{np.median(length):>10.2f}"
            f"{np.percentile(length, 90):>9.2f}"
            f"{np.sqrt(np.median(square) / MEDIAN):>7.2f}"
            f"{100 * np.mean(square < NINETY):>10.0f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
