"""Would thresholds that follow the error law gain? Estimators, before and after core+.

    python benchmarks/thresholds.py ROOT DATA/homography DATA/posed/* --cache CACHE

Three thresholds for distances from lines: 1 px (usual); a number of px for each
estimator (fixed); a number of medians of the pair's calibrated fine scales for each
(law). Planes get three times as much. For each matcher, estimator and folder or scene:
AUC of the base and of core+ (planes 1 / 3 / 5 / 10 px, poses 1 / 3 / 5 / 10 / 20°), and
differences with standard errors. Points are less their systematic shift, as
semisure.match has them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import semisure
from semisure.bench.data import labels, pairs_of, parts_of
from semisure.bench.exported import Exported
from semisure.bench.options import Options
from semisure.bench.run import open_study
from semisure.cli.progress import stages
from semisure.datasets.posed import PosedPair
from semisure.engine import EngineSettings
from semisure.estimators import RansacSettings, estimate_homography
from semisure.estimators.relative import RELATIVE_SETTINGS, estimate_relative
from semisure.law.error_laws import error_law
from semisure.metrics import auc, auc_gain, corner_error, pose_error_deg
from semisure.refit.planes import refit_homography
from semisure.refit.relative import refit_relative

# Chosen on scene 0015 of MegaDepth, every third pair: the best of 0.7, 1, 1.4, 2, 2.8
# and 4 medians for both matchers together, and what these are there in px.
SCALES = {"ransac": 0.7, "magsac++": 0.7, "poselib": 2.0}
FIXED_PX = {"ransac": 0.5, "magsac++": 0.5, "poselib": 1.5}
USUAL_PX = 1.0
WAYS = "usual", "fixed", "law"
ARMS = "base", "core+"
PX, DEGREES = (1, 3, 5, 10), (1, 3, 5, 10, 20)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A pair to be judged."""

    part: str
    matcher: str
    estimator: str
    exported: Exported


def evaluate(job: Job) -> dict[str, Any]:
    """Errors by threshold and arm."""
    matches, truth = job.exported.matches(), job.exported.truth
    law = semisure.load_calibration(job.matcher)
    points, _ = semisure.without_bias(matches, law)
    fine = error_law(matches, law).fine_scale
    fixed = FIXED_PX[job.estimator]
    follows = SCALES[job.estimator] * float(np.median(fine)) if len(fine) else fixed
    row: dict[str, Any] = {"part": job.part, "posed": isinstance(truth, PosedPair)}
    for name, line_px in zip(WAYS, (USUAL_PX, fixed, follows), strict=True):
        if isinstance(truth, PosedPair):
            K = truth.camera0.K, truth.camera1.K
            settings = replace(RELATIVE_SETTINGS, threshold_px=line_px)
            start = estimate_relative(points, *K, job.estimator, settings)
            refit = refit_relative(matches, law, start, *K)
            errors = [pose_error_deg(m, truth.P_01) for m in (start.model, refit.model)]
        else:
            wider = RansacSettings(threshold_px=3.0 * line_px)
            start = estimate_homography(points, job.estimator, wider)
            refit = refit_homography(matches, law, start)
            H_01, size = job.exported.H_01, matches.source_size
            errors = [corner_error(m, H_01, size) for m in (start.model, refit.model)]
        row[f"{name} base"], row[f"{name} core+"] = errors
    return row


def report(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """AUC of the four arms and four differences of them."""
    limits = DEGREES if rows[0]["posed"] else PX
    errors = {
        f"{name} {arm}": np.array([row[f"{name} {arm}"] for row in rows])
        for name in WAYS
        for arm in ARMS
    }
    print(f"\n{title}, {len(rows)} pairs")
    for name, values in errors.items():
        areas = "/".join(f"{100 * a:.1f}" for a in auc(values, limits))
        print(f"  {name:<26}{areas}")
    for one, other in (
        *((f"law {arm}", f"{way} {arm}") for way in WAYS[:2] for arm in ARMS),
        *((f"{way} core+", f"{way} base") for way in WAYS),
    ):
        mean, error = auc_gain(errors[other], errors[one], limits, 0)
        both = zip(100 * mean, 100 * error, strict=True)
        gains = ", ".join(f"{m:+.1f}±{e:.1f}" for m, e in both)
        print(f"  {one} − {other:<14}{gains}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--matcher", nargs="*", default=["daisy", "xfeat-star"])
    parser.add_argument("--estimator", nargs="*", default=tuple(SCALES))
    parser.add_argument("--cache", type=Path, default=Path("semisure-cache"))
    parser.add_argument("--limit", type=int)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    options = Options(
        data=given.data,
        matchers=tuple(given.matcher),
        limit=given.limit,
        cache=given.cache,
    )
    workers = EngineSettings(workers=given.workers)
    with stages() as begin, open_study(options, workers, begin) as study:
        named = [
            (name, pair)
            for name, root in zip(labels(options.data), options.data, strict=True)
            for pair in pairs_of(options, root)
        ]
        folders = [name for name, _ in named]
        for matcher in options.matchers:
            exported = study.matched(matcher, [(pair, None) for _, pair in named])
            parts = parts_of(folders, exported)
            for estimator in given.estimator:
                jobs = [
                    Job(part, matcher, estimator, one)
                    for part, one in zip(parts, exported, strict=True)
                ]
                title = f"{matcher}, {estimator}"
                rows = study.map(evaluate, jobs, title)
                for part in dict.fromkeys(parts):
                    mine = [row for row in rows if row["part"] == part]
                    report(f"{title}, {part}", mine)


if __name__ == "__main__":
    main()
