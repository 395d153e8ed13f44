"""What refinement at full size gives, on views of large photos with exact truth.

    python scripts/make_mosaics.py DATA/photos mosaics --part 1 --count 20
    python benchmarks/full_size.py mosaics --pairs 40

PHOTOS is any folder of large photos. Two views of each are matched by the embedded
matcher and by XFeat*, then refined. Prints, in px of the photos, the error of matches
and the AUC of the corner error of base, core and core+, before and after, the seconds
of CPU of both stages, how often the laws' 50 and 90 % intervals hold the truth, and the
peak memory of each matcher in a process of its own. Matches are kept in --cache.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from semisure.bench.calibrations import both_laws
from semisure.calibrate.random_views import random_pair
from semisure.estimators import estimate_homography
from semisure.geometry.homography import true_residual
from semisure.io.files import load_arrays, matches_from, save_matches
from semisure.io.images import Image, find_images, read_image
from semisure.law import mixture
from semisure.matchers import load_matcher
from semisure.matchers.daisy import FULL_SIZE
from semisure.matchers.full_size import FullSize, Refined
from semisure.metrics import auc, corner_error
from semisure.refit.planes import refit_homography
from semisure.types import FloatArray, Matches, Matrix3

THRESHOLDS = (1, 3, 5, 10)
MATCHERS = {  # not refined, refined
    "daisy": ("daisy", "daisy"),
    "xfeat-star": ("xfeat-star", "xfeat-star+full"),
}
NEAR = 3.0  # px as the matcher saw them: farther matches are outliers


@dataclass(frozen=True, slots=True, eq=False)
class Case:
    """A pair of views as one matcher saw it."""

    before: Matches
    after: Matches
    H_01: Matrix3
    seconds: FloatArray  # of CPU: matching, refining
    reduction: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--pairs", type=int, default=40)
    parser.add_argument("--cache", type=Path, default=Path("full-size-cache"))
    parser.add_argument("--matcher", choices=MATCHERS, action="append")
    parser.add_argument("--estimator", default="magsac++")
    parser.add_argument("--match-only", action="store_true")
    parser.add_argument("--memory-of", help=argparse.SUPPRESS)
    options = parser.parse_args()
    cv2.setNumThreads(1)
    photos = find_images(options.photos)
    names = options.matcher or list(MATCHERS)
    if options.memory_of:
        print(peak_memory(options.memory_of, photos[0]))
        return
    options.cache.mkdir(parents=True, exist_ok=True)
    match_all(photos, names, options.pairs, options.cache)
    if options.match_only:
        return
    for name in names:
        cases = [load(options.cache, name, k) for k in range(options.pairs)]
        report(name, cases, options.estimator)
        for matcher in ((name, True), (name, False)):
            report_memory(options.photos, *matcher)


def views_of(photos: list[Path], k: int) -> tuple[Image, Image, Matrix3]:
    photo = read_image(photos[k % len(photos)])
    return random_pair(photo, np.random.default_rng([19, k]))


def match_all(photos: list[Path], names: list[str], pairs: int, cache: Path) -> None:
    """Match and refine what the cache lacks; views are made once for all matchers."""
    for k in range(pairs):
        lacking = [name for name in names if not _files(cache, name, k)[1].exists()]
        if not lacking:
            continue
        image0, image1, H_01 = views_of(photos, k)
        for name in lacking:
            save(cache, name, k, matched(name, image0, image1, H_01))
        print(f"\rpair {k + 1} of {pairs}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def matched(name: str, image0: Image, image1: Image, H_01: Matrix3) -> Case:
    """One pair: the matcher alone, and the refinement alone."""
    matcher, refinement = load_matcher(name, refine="none"), refinement_of(name)
    reductions = reduction(matcher, image0), reduction(matcher, image1)
    start = time.process_time()
    before = matcher(image0, image1)
    middle = time.process_time()
    after = refinement(image0, image1, before, reductions)
    seconds = np.array([middle - start, time.process_time() - middle])
    return Case(before, after, H_01, seconds, reductions[1])


def refinement_of(name: str) -> FullSize:
    matcher = load_matcher(name, refine="full")
    return matcher.refinement if isinstance(matcher, Refined) else FULL_SIZE


def reduction(matcher: object, image: Image) -> float:
    return max(max(image.shape[:2]) / matcher.max_side, 1.0)  # type: ignore[attr-defined]


def _files(cache: Path, name: str, k: int) -> tuple[Path, Path]:
    return cache / f"{name}-{k}-before.npz", cache / f"{name}-{k}-after.npz"


def save(cache: Path, name: str, k: int, case: Case) -> None:
    before, after = _files(cache, name, k)
    save_matches(case.before, before)
    extra = {"H_01": case.H_01, "seconds": case.seconds}
    save_matches(case.after, after, **extra, reduction=np.array(case.reduction))


def load(cache: Path, name: str, k: int) -> Case:
    before, after = _files(cache, name, k)
    arrays = load_arrays(after)
    return Case(
        matches_from(load_arrays(before), before),
        matches_from(arrays, after),
        arrays["H_01"],
        arrays["seconds"],
        float(arrays["reduction"]),
    )


# ---- what is printed -----------------------------------------------------------------


def report(name: str, cases: list[Case], estimator: str) -> None:
    matching, refining = np.median([case.seconds for case in cases], axis=0)
    print(
        f"\n{name}: {len(cases)} pairs of {cases[0].before.target_size} px, "
        f"{estimator}; CPU {matching:.2f} s, refinement {refining:.2f} s "
        f"({(matching + refining) / matching:.2f} times)"
    )
    for label, law in zip(("before", "after"), MATCHERS[name], strict=True):
        stage = [(getattr(case, label), case) for case in cases]
        near = np.concatenate([errors(m, case)[0] for m, case in stage])
        share = np.mean([errors(m, case)[1] for m, case in stage])
        quarters = np.quantile(near, (0.5, 0.9))
        print(
            f"  {label:<7}matches {np.mean([len(m) for m, _ in stage]):6.0f}, inliers "
            f"{100 * share:.1f} %, median error {quarters[0]:.3f} px, 90 % "
            f"{quarters[1]:.2f} px; {covered(stage, law)}"
        )
        for arm, areas in arms(stage, law, estimator):
            text = " / ".join(f"{100 * area:5.1f}" for area in areas[0])
            print(f"    {arm:<6}{text}   median corner {areas[1]:.3f} px")


def errors(matches: Matches, case: Case) -> tuple[FloatArray, float]:
    """Errors of the matches that the matcher had not plainly missed, and their share.

    The same matches before and after: those near the truth before the refinement.
    """
    start = np.linalg.norm(true_residual(case.H_01, case.before), axis=1)
    near = start < NEAR * case.reduction
    error = np.linalg.norm(true_residual(case.H_01, matches), axis=1)
    return error[near], float(near.mean())


def covered(stage: list[tuple[Matches, Case]], law: str) -> str:
    """How often the law's central intervals hold the truth."""
    calibration = both_laws(law).ours
    inside: list[FloatArray] = []
    for matches, case in stage:
        law_of_pair = mixture.mixture_law(matches, calibration)
        inside.append(mixture.cdf(law_of_pair, true_residual(case.H_01, matches)))
    away = np.abs(np.concatenate(inside) - 0.5)
    half, most = np.mean(away < 0.25), np.mean(away < 0.45)
    return f"law's 50/90 % hold {100 * half:.0f}/{100 * most:.0f} %"


def arms(
    stage: list[tuple[Matches, Case]], law: str, estimator: str
) -> Iterator[tuple[str, tuple[FloatArray, float]]]:
    laws = both_laws(law)
    rows: dict[str, list[float]] = {"base": [], "core": [], "core+": []}
    for matches, case in stage:
        start = estimate_homography(matches, estimator)
        models = {"base": start.model}
        core = refit_homography(matches, laws.paper, start, method="core")
        plus = refit_homography(matches, laws.ours, start, method="core+")
        models |= {"core": core.model, "core+": plus.model}
        for arm, model in models.items():
            rows[arm].append(corner_error(model, case.H_01, matches.source_size))
    for arm, row in rows.items():
        yield arm, (np.asarray(auc(row, THRESHOLDS)), float(np.median(row)))


def report_memory(photos: Path, name: str, full: bool) -> None:
    wanted = f"{name}:{'full' if full else 'none'}"
    command = [sys.executable, __file__, str(photos), "--memory-of", wanted]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    print(f"  peak memory, refine={wanted.split(':')[1]}: {done.stdout.strip()}")


def peak_memory(wanted: str, photo: Path) -> str:
    """Of matching the photo to itself, in this process."""
    name, _, refine = wanted.partition(":")
    image = read_image(photo)
    matcher = load_matcher(name, refine=refine)
    before = _peak_mb()
    matcher(image, image)
    return f"{_peak_mb():.0f} MB (before matching {before:.0f} MB)"


def _peak_mb() -> float:
    """Of this process; the one that started it leaves its own peak in ru_maxrss."""
    status = Path("/proc/self/status")
    if status.exists():
        lines = status.read_text().splitlines()
        return int(next(x for x in lines if x.startswith("VmHWM")).split()[1]) / 2**10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


if __name__ == "__main__":
    main()
