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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import semisure
from semisure.bench.data import labels, pairs_of, parts_of
from semisure.bench.exported import Exported
from semisure.bench.options import Options
from semisure.bench.run import open_study
from semisure.bench.studies.fundamental import pose_of
from semisure.cli.progress import stages
from semisure.datasets.posed import PosedPair
from semisure.engine import EngineSettings
from semisure.estimators import RansacSettings
from semisure.law.error_laws import error_law
from semisure.metrics import auc, auc_gain, corner_error, pose_error_deg
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import Kind
from semisure.types import Matches

# Chosen on scene 0015 of MegaDepth, every third pair: the best of 0.7, 1, 1.4, 2, 2.8
# and 4 medians for both matchers together, and what these are there in px.
SCALES = {"ransac": 0.7, "lo-ransac": 0.7, "magsac++": 0.7, "poselib": 2.0}
FIXED_PX = {"ransac": 0.5, "lo-ransac": 0.5, "magsac++": 0.5, "poselib": 1.5}
USUAL_PX = 1.0
SAMPLES = 2000
WAYS = "usual", "fixed", "law"
ARMS = "base", "core+"
PX, DEGREES = (1, 3, 5, 10), (1, 3, 5, 10, 20)


@dataclass(frozen=True, slots=True, eq=False)
class Job:
    """A pair to be judged."""

    part: str
    matcher: str
    estimator: str
    kind: Kind  # of model, of pairs with cameras
    exported: Exported


def evaluate(job: Job) -> dict[str, Any]:
    """Errors by threshold and arm."""
    matches, truth = job.exported.matches(), job.exported.truth
    kind: Kind = job.kind if isinstance(truth, PosedPair) else "homography"
    K0 = K1 = None
    if isinstance(truth, PosedPair) and kind == "essential":
        K0, K1 = truth.camera0.K, truth.camera1.K
    law = semisure.load_calibration(job.matcher)
    fine = error_law(matches, law).fine_scale
    fixed = FIXED_PX[job.estimator]
    follows = SCALES[job.estimator] * float(np.median(fine)) if len(fine) else fixed
    row: dict[str, Any] = {"part": job.part, "posed": kind != "homography"}
    for name, line_px in zip(WAYS, (USUAL_PX, fixed, follows), strict=True):
        # Lines get a third of it.
        limit = RansacSettings(threshold_px=3.0 * line_px, max_iterations=SAMPLES)
        result = refit_matches(
            matches,
            law,
            model=kind,
            estimator=job.estimator,
            settings=limit,
            K0=K0,
            K1=K1,
        )
        for arm, model in zip(
            ARMS, (result.estimate.model, result.refit.model), strict=True
        ):
            row[f"{name} {arm}"] = error_of(model, kind, job.exported, matches, line_px)
    return row


def error_of(
    model: Any, kind: Kind, exported: Exported, matches: Matches, line_px: float
) -> float:
    """Of corners in px, or of the pose in degrees."""
    truth = exported.truth
    if kind == "homography":
        return corner_error(model, exported.H_01, matches.source_size)
    assert isinstance(truth, PosedPair)
    if kind == "fundamental":
        model = pose_of(model, truth, matches, line_px)
    return pose_error_deg(model, truth.P_01)


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
    parser.add_argument(
        "--estimator",
        nargs="*",
        default=["ransac", "magsac++", "poselib"],
        choices=tuple(SCALES),
    )
    parser.add_argument(
        "--model",
        default="essential",
        choices=("essential", "fundamental"),
        help="Of pairs with cameras; judged by the pose.",
    )
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
                    Job(part, matcher, estimator, given.model, one)
                    for part, one in zip(parts, exported, strict=True)
                ]
                title = f"{matcher}, {estimator}"
                rows = study.map(evaluate, jobs, title)
                for part in dict.fromkeys(parts):
                    mine = [row for row in rows if row["part"] == part]
                    report(f"{title}, {part}", mine)


if __name__ == "__main__":
    main()
