"""How often the truth lies in the 50 % and 90 % regions that a covariance claims.

Four trials for each matcher. *Views*: random views of photos, truth exact.
*Published*: sequences with published homographies, whose own error is taken as 0.7 px
at each corner, or not at all. *Agreement*: the two matchers' refits of the same real
pair against the sum of their covariances, which no published truth can spoil. *SIFT*:
the pairs of which OpenCV's SIFT has a homography with 100 inliers; it stands in for the
truth, beside the published one of just these pairs. *Pose*: the RedKitchen queries of
`semisure bench localisation`, the pseudo-truth's floor added or not.

    python benchmarks/coverage.py ../shared/data --cache /tmp/honest
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from honest_cases import Case, matched, published, sift_homography, views
from semisure.datasets.homographies import read_sequences
from semisure.datasets.queries import RETRIEVAL, read_located, read_located_map
from semisure.estimators import estimate_homography
from semisure.estimators.pose import estimate_pose
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.geometry.lifting import lift
from semisure.io.files import load_calibration
from semisure.io.images import read_image
from semisure.mapping.sources import FromImages, stored
from semisure.matchers import load_matcher
from semisure.refit.core import without_bias
from semisure.refit.corners import expected_corner_error
from semisure.refit.planes import refit_homography
from semisure.refit.poses import refit_pose
from semisure.refit.weights import RefitMethod
from semisure.types import FloatArray, Matches, WorldMatches

MATCHERS = ("xfeat-star", "daisy")
METHODS: tuple[RefitMethod, ...] = ("core+", "core")
PARTS = ("views", "published", "poses")
GROSS_PX = 20.0  # a wrong model is not a matter of its covariance
PUBLISHED_PX = 0.7
FLOOR = np.radians(0.02) / np.sqrt(3), 0.0008 / np.sqrt(3)  # rad, m, per axis

Outcome = tuple[FloatArray, FloatArray]  # offset from the truth, covariance


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, help="folder of homography, photos, posed")
    parser.add_argument("--pairs", type=int, default=90)
    parser.add_argument("--cache", type=Path, required=True, help="folder of matches")
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    options = parser.parse_args()
    for name in MATCHERS:
        if "views" in options.parts:
            cases = views(options.data, "second", options.pairs)
            made = with_truth(name, cases, "views", options.cache)
            for method in METHODS:
                outcomes = refits(made, name, method, made=True)
                show(f"{name} {method} views", outcomes, 2)
        if "poses" in options.parts:
            poses(name, options.data / "posed" / "redkitchen", options.cache)
    if "published" in options.parts:
        show_published(options.data, options.cache)


def show_published(data: Path, cache: Path) -> None:
    """Real pairs: against the published truth, SIFT, and the other matcher."""
    extra = 0.5 * PUBLISHED_PX**2 * np.eye(8)
    by_matcher: dict[str, dict[str, Outcome]] = {}
    for name in MATCHERS:
        real = with_truth(name, published(data), "homography", cache)
        for method in METHODS:
            outcomes = refits(real, name, method)
            show(f"{name} {method} published, as is", outcomes, 2)
            show(f"{name} {method} published, 0.7 px", outcomes, 2, extra)
            if method == "core+":
                by_matcher[name] = outcomes
                show_third(f"{name} {method}", outcomes, real, data)
    first, second = (by_matcher[name] for name in MATCHERS)
    both: dict[str, Outcome] = {
        pair: (first[pair][0] - second[pair][0], first[pair][1] + second[pair][1])
        for pair in first.keys() & second.keys()
    }
    show("agreement of the two, core+", both, 2)


def with_truth(
    matcher: str, cases: Iterator[Case], kind: str, cache: Path
) -> dict[str, tuple[Matches, FloatArray]]:
    """The matches of the cases of a kind, and their true homographies, by name."""
    pairs = {}
    for pair in matched(matcher, (case for case in cases if case.kind == kind), cache):
        truth = pair.truth()
        assert truth is not None
        pairs[pair.case.name] = pair.matches, truth
    return pairs


def refits(
    pairs: dict[str, tuple[Matches, FloatArray]],
    name: str,
    method: RefitMethod,
    *,
    made: bool = False,
) -> dict[str, Outcome]:
    """Corner offsets and covariances of the refits that are not plainly wrong.

    Where images are `made`, nothing is assumed that photographs always have.
    """
    calibration = load_calibration(name)
    if made:
        calibration = replace(calibration, model_error=0.0)
    outcomes: dict[str, Outcome] = {}
    for key, (matches, truth) in pairs.items():
        unbiased, _ = without_bias(matches, calibration)
        start = estimate_homography(unbiased)
        refit = refit_homography(matches, calibration, start, method=method)
        C = refit.covariance
        if refit.model is None or C is None:
            continue
        frame = plane.corners(matches.source_size)
        offset = plane.project(refit.model, frame) - plane.project(truth, frame)
        if np.abs(offset).max() < GROSS_PX:
            outcomes[key] = offset.ravel(), C
    return outcomes


def show_third(
    told: str,
    found: dict[str, Outcome],
    real: dict[str, tuple[Matches, FloatArray]],
    data: Path,
) -> None:
    """What another method says of the published pairs, with 0.7 px of its own."""
    extra = 0.5 * PUBLISHED_PX**2 * np.eye(8)
    by_sift: dict[str, Outcome] = {}
    for pair in read_sequences(data / "homography"):
        third = sift_homography(read_image(pair.image0), read_image(pair.image1))
        if pair.name not in found or third is None:
            continue
        (offset, C), (matches, truth) = found[pair.name], real[pair.name]
        frame = plane.corners(matches.source_size)
        there = plane.project(third, frame) - plane.project(truth, frame)
        by_sift[pair.name] = offset - there.ravel(), C
    same = {name: found[name] for name in by_sift}
    show(f"{told} of which truth, 0.7 px", same, 2, extra)
    show(f"{told} of which SIFT, 0.7 px", by_sift, 2, extra)


def poses(name: str, data: Path, cache: Path) -> None:
    images = FromImages(data / "images", data / "images", load_matcher(name))
    source = stored(images, cache / f"poses-{name}")
    calibration = load_calibration(name)
    floor = np.diag(np.repeat(np.square(FLOOR), 3))
    model, queries = read_located_map(data), read_located(data)
    for retrieval in RETRIEVAL:
        outcomes: dict[RefitMethod, dict[str, Outcome]] = {m: {} for m in METHODS}
        for query in queries:
            if query.condition != retrieval or query.truth is None:
                continue
            parts = []
            for other in query.mapped:
                matches, seen = source(query.name, other), model.observations(other)
                parts.append(lift(matches, *seen))
            source.keep()
            world = WorldMatches.joined(parts)
            unbiased, _ = without_bias(world, calibration)
            start = estimate_pose(unbiased, query.camera, "poselib")
            for method, by_query in outcomes.items():
                refit = refit_pose(
                    world, query.camera, calibration, start, method=method
                )
                C = refit.covariance
                if refit.model is not None and C is not None:
                    by_query[query.name] = se3.tangent(refit.model, query.truth), C
        for method, by_query in outcomes.items():
            show(f"{name} {method} pose {retrieval}, as is", by_query, 3)
            show(f"{name} {method} pose {retrieval}, floor", by_query, 3, floor)


def show(
    title: str,
    outcomes: dict[str, Outcome],
    block: int,
    extra: FloatArray | float = 0.0,
) -> None:
    """Shares inside the regions of all parameters, and of each `block` of them."""
    from scipy.stats import chi2

    whole, parts, ratios = [], [], []
    for offset, alone in outcomes.values():
        C, p = alone + extra, len(offset)
        whole.append(float(offset @ np.linalg.solve(C, offset)))
        for i in range(0, p, block):
            of = slice(i, i + block)
            parts.append(float(offset[of] @ np.linalg.solve(C[of, of], offset[of])))
        if p == 8:
            seen = float(np.linalg.norm(offset.reshape(4, 2), axis=1).mean())
            ratios.append((seen, expected_corner_error(C)))
    inside = [
        f"{100 * np.mean(np.array(d) < chi2.ppf(level, k)):3.0f}"
        for d, k in ((whole, p), (parts, block))
        for level in (0.5, 0.9)
    ]
    line = f"{title:<34} n={len(whole):<4} all {inside[0]}/{inside[1]} %"
    line += f"   each {inside[2]}/{inside[3]} %"
    if ratios:
        seen, claimed = np.median(ratios, axis=0)
        line += f"   corners: {claimed:.2f} px claimed, {seen:.2f} seen"
    print(line, flush=True)


if __name__ == "__main__":
    main()
