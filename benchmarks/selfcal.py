"""Does a calibration on random views of photos hold on real pairs? In one run.

The shipped calibration of the embedded matcher, made from photos alone, is tried on
each scene of the data; its rival is fitted on the data's other scenes. Wanted: NLL and
ECE of the expected error within 15 % of the rival's, and the reliability curve within
25 % of the diagonal over its middle 80 %.

Published homographies can be worse than the matches they judge (Oxford's: 0.7 px). With
``--truth crossed`` each half of a pair's blocks is judged by the homography refitted to
the other half, started from the published one.

    python benchmarks/selfcal.py DATA/homography
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from embedded import load_pair
from semisure.calibrate.held_out import trial
from semisure.datasets.homographies import read_sequences
from semisure.geometry.homography import residual
from semisure.io.files import load_calibration
from semisure.law.fit_law import fit
from semisure.law.observations import observe
from semisure.matchers import load_matcher
from semisure.metrics import (
    corner_error,
    expected_calibration_error,
    reliability,
    spearman,
)
from semisure.refit.planes import refit_homography
from semisure.types import FloatArray, Matches

BLOCK_PX = 64
MAX_SHIFT_PX = 8.0

Residuals = tuple[Matches, FloatArray]
Scenes = dict[str, list[Residuals]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--max-side", type=int, default=800)
    parser.add_argument("--only", default="", help="scenes whose name starts so")
    parser.add_argument(
        "--truth", choices=("published", "crossed"), default="published"
    )
    options = parser.parse_args()
    scenes = match_scenes(options)
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


def match_scenes(options: argparse.Namespace) -> Scenes:
    matcher = load_matcher("daisy")
    scenes: Scenes = {}
    for pair in read_sequences(options.data):
        if not pair.name.startswith(options.only):
            continue
        image0, image1, truth = load_pair(pair, options.max_side)
        matches = matcher(image0, image1)
        judge = crossed if options.truth == "crossed" else published
        found = [p for p in judge(matches, truth) if len(p[0])]
        scenes.setdefault(pair.image0.parent.name, []).extend(found)
    return {name: pairs for name, pairs in scenes.items() if pairs}


def published(matches: Matches, truth: FloatArray) -> list[Residuals]:
    errors = residual(truth, matches)
    seen = np.asarray(np.isfinite(errors).all(axis=1))
    return [(matches.take(seen), errors[seen])]


def crossed(matches: Matches, truth: FloatArray) -> list[Residuals]:
    """Each half of a chequerboard, judged by the fit to the other half."""
    place = np.floor(matches.source / BLOCK_PX).sum(axis=1)
    white = place % 2 == 0
    judged = []
    for half in (white, ~white):
        refit = refit_homography(matches.take(half), load_calibration("daisy"), truth)
        # A refit far from the published truth, or none, judges nobody.
        far = corner_error(refit.model, truth, matches.source_size) > MAX_SHIFT_PX
        if refit.model is not None and refit.reason is None and not far:
            judged += published(matches.take(~half), refit.model)
    return judged


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
