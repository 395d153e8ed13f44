"""Does a calibration on random views of photos hold on real pairs? In one run.

The shipped calibration of the embedded matcher, made from photos alone, is tried on
each scene of the data; its rival is fitted on the data's other scenes. Wanted: NLL and
ECE of the expected error within 15 % of the rival's, and the reliability curve within
25 % of the diagonal over its middle 80 %.

    python benchmarks/selfcal.py DATA/homography
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from embedded import load_pair
from semisure.calibrate import fit
from semisure.datasets.sequences import read_sequences
from semisure.files import load_calibration
from semisure.geometry.homography import residual
from semisure.likelihood import observe
from semisure.matchers import load_matcher
from semisure.metrics import expected_calibration_error, reliability, spearman
from semisure.selfcal import trial
from semisure.types import FloatArray, Matches

Scenes = dict[str, list[tuple[Matches, FloatArray]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--max-side", type=int, default=800)
    parser.add_argument("--only", default="", help="scenes whose name starts so")
    options = parser.parse_args()
    scenes = match_scenes(options.data, options.max_side, options.only)
    arms: dict[str, list[tuple[float, int, FloatArray, FloatArray]]] = {}
    for scene, own in scenes.items():
        others = [p for name, pairs in scenes.items() if name != scene for p in pairs]
        rivals = {
            "photos": load_calibration("daisy"),
            "other scenes": fit(others)[0],
        }
        for arm, calibration in rivals.items():
            trust = trial(observe(own), calibration)
            row = (trust.nll, trust.matches, trust.expected, trust.observed)
            arms.setdefault(arm, []).append(row)
    results = {arm: summarise(arm, rows) for arm, rows in arms.items()}
    for i, name in enumerate(("NLL", "ECE")):
        ratio = results["photos"][i] / results["other scenes"][i]
        print(f"{name}: photos / other scenes = {ratio:.3f} (wanted: at most 1.15)")


def match_scenes(root: Path, max_side: int, only: str) -> Scenes:
    matcher = load_matcher("daisy")
    scenes: Scenes = {}
    for pair in read_sequences(root):
        if not pair.name.startswith(only):
            continue
        image0, image1, truth = load_pair(pair, max_side)
        matches = matcher(image0, image1)
        errors = residual(truth, matches)
        seen = np.asarray(np.isfinite(errors).all(axis=1))
        scene = pair.image0.parent.name
        scenes.setdefault(scene, []).append((matches.take(seen), errors[seen]))
    return {name: [p for p in pairs if len(p[0])] for name, pairs in scenes.items()}


def summarise(
    arm: str, rows: list[tuple[float, int, FloatArray, FloatArray]]
) -> tuple[float, float]:
    """NLL and ECE over all scenes, printed with the reliability curve."""
    counts = np.array([row[1] for row in rows])
    nll = float(np.average([row[0] for row in rows], weights=counts))
    expected, observed = (np.concatenate([row[k] for row in rows]) for k in (2, 3))
    ece = expected_calibration_error(expected, observed)
    x, y, _ = reliability(expected, observed, bins=20)
    off = np.abs(y / x - 1.0)[2:-2]  # the middle 80 %
    print(
        f"{arm:<13} {counts.sum():,} matches: NLL {nll:.3f}, ECE {ece:.2f} px, "
        f"rank correlation {spearman(expected, observed):.3f}"
    )
    ratios = " ".join(f"{ratio:.2f}" for ratio in y / x)
    print(f"  observed / expected by bin: {ratios}")
    print(f"  middle 80 %: off by at most {100 * off.max():.0f} % (wanted: 25 %)")
    return nll, ece


if __name__ == "__main__":
    main()
