"""The paper's relative-pose study on posed images, with a refit that needs no depth.

Pose AUC at 1/3/5/10/20° (the larger of rotation and translation angle) of base
estimators, epipolar CoRe, ours, and the depth-assisted arms where there is depth. All
arms of a block start from the same estimate on the same matches; the paper's arms use
its zero-mean law, ours the law with a location, which the matcher's calibration may
have. "base − shift" is the estimator on matches less that location: what of our gain
is the location's alone.

DATA holds ``reichstag`` (all 45 pairs), ``fountain-P11`` (all 55) and ``redkitchen``:
of its pairs with overlap ≥ 0.3 and triangulation angle ≥ 5°, every 25th from the
13th (110). ``--design`` takes every 25th from the 1st, 7th and 19th (332) instead, on
which the choices in ``core+`` were made, and no other set.

    python benchmarks/relative.py DATA --matcher daisy --matcher xfeat-star
"""

from __future__ import annotations

import argparse
from pathlib import Path

import cv2
import numpy as np

from semisure.datasets.posed import PosedPair, depth_at, read_posed
from semisure.estimators.relative import RELATIVE_ESTIMATORS, estimate_relative
from semisure.files import load_calibration, load_matches, save_matches
from semisure.images import read_image
from semisure.matchers import MATCHER_NAMES, load_matcher
from semisure.metrics import auc, pose_error_deg
from semisure.refit import without_bias
from semisure.relative import RELATIVE_METHODS, refit_relative
from semisure.types import Calibration, FloatArray, Matches

THRESHOLDS = (1, 3, 5, 10, 20)
FAITHFUL = {"daisy": "daisy", "xfeat-star": "xfeat-star-faithful"}
Errors = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--matcher", choices=MATCHER_NAMES, action="append")
    parser.add_argument("--estimator", choices=RELATIVE_ESTIMATORS, action="append")
    parser.add_argument("--cache", type=Path, help="folder to keep matches in")
    parser.add_argument("--design", action="store_true")
    options = parser.parse_args()
    cv2.setNumThreads(1)
    sets = read_sets(options.data, options.design)
    estimators = options.estimator or ["ransac", "magsac++", "poselib"]
    for matcher in options.matcher or ["daisy"]:
        found = {
            name: [matched(pair, matcher, options.cache) for pair in pairs]
            for name, pairs in sets.items()
        }
        for estimator in estimators:
            pooled: Errors = {}
            for name, pairs in sets.items():
                errors = run(pairs, found[name], matcher, estimator)
                report(f"{matcher}, {estimator}, {name}", errors)
                for arm, row in errors.items():
                    pooled.setdefault(arm, []).extend(row)
            if len(sets) > 1:
                report(f"{matcher}, {estimator}, all", pooled)


def read_sets(root: Path, design: bool) -> dict[str, list[PosedPair]]:
    kitchen = read_posed(root / "redkitchen", min_overlap=0.3, min_angle_deg=5.0)
    if design:
        chosen = [pair for first in (0, 6, 18) for pair in kitchen[first::25]]
        return {"redkitchen (design)": chosen}
    return {
        "reichstag": read_posed(root / "reichstag"),
        "fountain-P11": read_posed(root / "fountain-P11"),
        "redkitchen": kitchen[12::25],
    }


def matched(pair: PosedPair, matcher: str, cache: Path | None) -> Matches:
    kept = None if cache is None else cache / f"{matcher}_{pair.name}.npz"
    if kept is not None and kept.is_file():
        return load_matches(kept)
    images = read_image(pair.camera0.image), read_image(pair.camera1.image)
    matches = load_matcher(matcher)(*images)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        save_matches(matches, kept)
    return matches


def run(
    pairs: list[PosedPair], found: list[Matches], matcher: str, estimator: str
) -> Errors:
    ours, faithful = load_calibration(matcher), load_calibration(FAITHFUL[matcher])
    errors: Errors = {}
    for pair, matches in zip(pairs, found, strict=True):
        poses = refitted(pair, matches, estimator, ours, faithful)
        for arm, P_01 in poses.items():
            errors.setdefault(arm, []).append(pose_error_deg(P_01, pair.P_01))
    return errors


def refitted(
    pair: PosedPair,
    matches: Matches,
    estimator: str,
    ours: Calibration,
    faithful: Calibration,
) -> dict[str, FloatArray | None]:
    """The pose by every arm."""
    K = pair.camera0.K, pair.camera1.K
    start = estimate_relative(matches, *K, estimator)
    poses = {"base": start.model}
    if ours.location is not None:
        shifted, _ = without_bias(matches, ours)
        poses["base − shift"] = estimate_relative(shifted, *K, estimator).model
    depth, baseline = anchor_depth(pair, matches), np.linalg.norm(pair.P_01[:, 3])
    for method in RELATIVE_METHODS:
        if depth is not None or not method.startswith("depth"):
            refit = refit_relative(
                matches,
                ours if method == "core+" else faithful,
                start,
                *K,
                method=method,  # type: ignore[arg-type]
                depth=depth,
                baseline=float(baseline),
            )
            poses[method] = refit.model
    return poses


def anchor_depth(pair: PosedPair, matches: Matches) -> FloatArray | None:
    """Depth of the point that was not refined."""
    z0 = depth_at(pair.camera0, matches.source, matches.source_size)
    z1 = depth_at(pair.camera1, matches.target, matches.target_size)
    return None if z0 is None or z1 is None else np.where(matches.side == 1, z0, z1)


def report(title: str, errors: Errors) -> None:
    base = np.array(errors["base"])
    print(f"\n{title}: {len(base)} pairs, AUC at {'/'.join(map(str, THRESHOLDS))}°")
    for arm, row in errors.items():
        areas = " / ".join(f"{100 * area:5.1f}" for area in auc(row, THRESHOLDS))
        count = "" if len(row) == len(base) else f"  ({len(row)} pairs with depth)"
        print(f"  {arm:<13}{areas}   median {np.median(row):5.2f}°{count}")
    print(f"  core+ − base {gain(base, np.array(errors['core+']))}", flush=True)


def gain(base: FloatArray, ours: FloatArray, draws: int = 500) -> str:
    """Differences of AUC with their standard errors, pairs drawn anew."""
    rng = np.random.default_rng(0)
    drawn = []
    for _ in range(draws):
        index = rng.integers(0, len(base), len(base))
        pair = auc(ours[index], THRESHOLDS), auc(base[index], THRESHOLDS)
        drawn.append(np.subtract(*pair))
    mean = 100 * np.subtract(auc(ours, THRESHOLDS), auc(base, THRESHOLDS))
    spread = 100 * np.std(drawn, axis=0)
    parts = (f"{m:+.1f} ± {s:.1f}" for m, s in zip(mean, spread, strict=True))
    return " / ".join(parts)


if __name__ == "__main__":
    main()
