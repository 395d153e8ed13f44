"""Does what is said of a pair hold? Expected errors against actual ones, and verdicts.

*Ratios* of actual to expected errors: median, share above 3 and above 10. Random views
of photos have exact truth; "lens" and "relief" bend them by what no homography follows.
They are judged with a least model error of 0, since they are made, not photographed.
Published homographies have an error of their own, taken as 0.7 px, thermal ones 1.4 px,
added in quadrature; in the row "SIFT for truth" OpenCV's SIFT stands in for the truth,
where it has 100 inliers. Relative poses: the larger of the angles of rotation and
direction against its standard error, with 0.02° and 0.8 mm of either pose of
RedKitchen's pseudo-truth. Camera poses: their distance from the truth against its
standard error, with the 0.8 mm of the pseudo-truth.

*Verdicts* on related, unrelated and self-similar pairs. A model is right where it puts
the matches that it rests on within 1.5 % of the diagonal of their true place. Lines
(fundamental matrices) are judged on strangers, self-similar pairs and posed scenes:
right where the matches that they rest on lie within 3 px of the true lines.

All numbers were chosen on the first half of the photos (`--fit` makes the coefficients
of the verdict) and on `depth`; what is printed is about the second half and the rest.

    python benchmarks/honest.py ../shared/data --cache /tmp/honest
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
from scipy.optimize import minimize

from honest_cases import (
    Half,
    Matched,
    matched,
    posed,
    published,
    related,
    self_similar,
    sift_homography,
    unrelated,
    views,
)
from semisure.datasets.posed import PosedPair
from semisure.datasets.queries import read_located, read_located_map
from semisure.estimators.pose import estimate_pose
from semisure.geometry import homography as plane
from semisure.geometry import pose as se3
from semisure.geometry.epipolar import CalibratedViews
from semisure.geometry.lifting import lift
from semisure.geometry.rotations import rotation_vector
from semisure.geometry.significance import log_alarms_of
from semisure.io.files import load_calibration
from semisure.mapping.sources import FromImages, stored
from semisure.matchers import load_matcher
from semisure.pairs.estimation import refit_matches
from semisure.pairs.result import PairResult
from semisure.pairs.verdict import Verdict, features
from semisure.refit.core import without_bias
from semisure.refit.corners import expected_corner_error
from semisure.refit.poses import refit_pose
from semisure.types import Calibration, FloatArray, Pose, WorldMatches

OWN_PX = {"homography": 0.7, "thermal": 1.4}  # error of the published truth
# Error of RedKitchen's pseudo-truth, as its README states it.
FLOOR_DEG, FLOOR_M = 0.02, 0.0008
ON_LINES_PX = 3.0  # from true lines: lines through such matches are right
MAPPED = 5  # images matched to each query
RIGHT = 0.015  # in diagonals
# Pairs of each matcher that the verdict is fitted on: related and self-similar, in the
# proportion that is judged. Chance explains nearly all strangers: they say nothing.
MATCHERS = "daisy", "xfeat-star"
FITTED_ON, WEIGHTS = (240, 0, 240), {"related": 1.0, "self-similar": 0.4}
FLAT = 30  # views of photos among the pairs that lines are fitted on
PARTS = ("ratios", "relative", "poses", "verdicts", "lines")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--cache", type=Path, required=True, help="Folder of matches.")
    parser.add_argument("--matcher", default="daisy")
    parser.add_argument("--views", type=int, default=100)
    parser.add_argument("--pairs", type=int, nargs=3, default=(500, 500, 200))
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--fit", action="store_true", help="Verdicts' coefficients.")
    options = parser.parse_args()
    data, cache, name = options.data, options.cache, options.matcher
    law = load_calibration(name)
    if options.fit:
        fit(data, cache)
        fit_lines(data, cache)
        return
    if "ratios" in options.parts:
        cases = chain(published(data), views(data, "second", options.views))
        ratios(matched(name, cases, cache), law)
    if "relative" in options.parts:
        relative(data, name, cache, law)
    if "poses" in options.parts:
        poses(data, name, cache, law)
    if "verdicts" in options.parts:
        verdicts(verdict_pairs(data, "second", options.pairs, name, cache), law)
    if "lines" in options.parts:
        verdicts_of_lines(data, name, cache, law, options.pairs)


def ratios(pairs: Iterable[Matched], law: Calibration) -> None:
    exact = replace(law, model_error=0.0)
    table: dict[str, list[float]] = {}
    for pair in pairs:
        kind = pair.case.kind
        own = OWN_PX.get(kind, 0.0)
        result = refit_matches(pair.matches, law if own else exact, model="homography")
        C = result.refit.covariance
        names = [kind, f"{kind}, sound"] if result.verdict.name == "sound" else [kind]
        if result.related and C is not None:
            expected = np.hypot(expected_corner_error(C), own)
            for name in names:
                ratio = pair.corner_error(result.H_01) / expected
                table.setdefault(name, []).append(ratio)
            if kind == "homography":
                off = off_sift(pair, result)
                table.setdefault(f"{kind}, SIFT for truth", []).extend(off / expected)
    for name, row in sorted(table.items()):
        show(name, row)


def off_sift(pair: Matched, result: PairResult) -> FloatArray:
    """Mean corner distance from SIFT's homography, (1,), or (0,) without one."""
    first, second, _ = pair.case.make()
    H_01 = sift_homography(first, second)
    frame = plane.corners(pair.matches.source_size)
    if H_01 is None or result.H_01 is None:
        return np.zeros(0)
    off = plane.project(result.H_01, frame) - plane.project(H_01, frame)
    return np.array([np.linalg.norm(off, axis=1).mean()])


def show(name: str, ratios: list[float]) -> None:
    r = np.array(ratios)
    above = [f"above {limit}: {100 * np.mean(r > limit):.1f} %" for limit in (3, 10)]
    words = "   ".join([f"n={len(r):<4} median {np.median(r):.2f}", *above])
    print(f"{name:<28} {words}", flush=True)


def relative(data: Path, name: str, cache: Path, law: Calibration) -> None:
    table: dict[str, list[float]] = {}
    cases = list(posed(data, "posed", 20))
    pairs = matched(name, (case for case, _ in cases), cache)
    for pair, (_, truth) in zip(pairs, cases, strict=True):
        K0, K1 = truth.camera0.K, truth.camera1.K
        result = refit_matches(pair.matches, law, model="essential", K0=K0, K1=K1)
        std = result.pose_std_deg
        if not result.related or std is None or result.P_01 is None:
            continue
        turn, way = pose_angles(result.P_01, truth.P_01)
        own = own_deg(pair.case.kind, truth.P_01)
        ratio = max(turn / np.hypot(std[0], own[0]), way / np.hypot(std[1], own[1]))
        table.setdefault(pair.case.kind, []).append(ratio)
        if result.verdict.name == "sound":
            table.setdefault(f"{pair.case.kind}, sound", []).append(ratio)
    for kind, row in table.items():
        show(kind, row)


def own_deg(kind: str, P_01: Pose) -> tuple[float, float]:
    """Error of the true rotation and direction between two cameras, degrees."""
    if "redkitchen" not in kind:
        return 0.0, 0.0
    way = np.sqrt(2.0) * FLOOR_M / float(np.linalg.norm(P_01[:, 3]))
    return float(np.sqrt(2.0) * FLOOR_DEG), float(np.degrees(way))


def poses(data: Path, name: str, cache: Path, law: Calibration) -> None:
    """The queries of a map: distance of the camera against its standard error."""
    root = data / "posed" / "redkitchen"
    images = FromImages(root / "images", root / "images", load_matcher(name))
    source = stored(images, cache / f"poses-{name}")
    model, row = read_located_map(root), []
    for query in read_located(root):
        if query.condition != "near" or query.truth is None:
            continue
        parts = [
            lift(source(query.name, other), *model.observations(other))
            for other in query.mapped[:MAPPED]
        ]
        source.keep()
        world = WorldMatches.joined(parts)
        start = estimate_pose(without_bias(world, law)[0], query.camera, "poselib")
        refit = refit_pose(world, query.camera, law, start)
        if refit.model is None or refit.covariance is None:
            continue
        off = se3.tangent(refit.model, query.truth)[3:]
        std2 = float(np.trace(refit.covariance[3:, 3:]))
        row.append(float(np.linalg.norm(off)) / float(np.hypot(std2**0.5, FLOOR_M)))
    show("camera poses, redkitchen", row)


def pose_angles(found: Pose, truth: Pose) -> tuple[float, float]:
    """Angles between the rotations and between the directions, degrees."""
    turn = float(np.linalg.norm(rotation_vector(found[:, :3] @ truth[:, :3].T)))
    t = truth[:, 3] / np.linalg.norm(truth[:, 3])
    way = float(np.arccos(np.clip(found[:, 3] @ t, -1, 1)))
    return float(np.degrees(turn)), float(np.degrees(way))


def verdict_pairs(
    data: Path, half: Half, counts: tuple[int, int, int], name: str, cache: Path
) -> Iterator[Matched]:
    makers = related, unrelated, self_similar
    cases = (make(data, half, n) for make, n in zip(makers, counts, strict=True))
    return matched(name, chain.from_iterable(cases), cache)


def is_right(pair: Matched, result: PairResult) -> bool:
    """True where the model puts what it rests on where it belongs."""
    truth = pair.truth()
    if result.H_01 is None or truth is None:
        return False
    there = plane.project(truth, pair.matches.source)
    return _used_within(
        plane.project(result.H_01, pair.matches.source) - there, pair, result
    )


def _used_within(off: FloatArray, pair: Matched, result: PairResult) -> bool:
    """True where the matches that a model rests on are right, by the median."""
    apart = np.linalg.norm(off, axis=1)
    used = (result.refit.weight > 0.5) & np.isfinite(apart)
    limit = RIGHT * float(np.hypot(*pair.matches.target_size))
    return bool(used.any() and np.median(apart[used]) < limit)


def verdicts(pairs: Iterable[Matched], law: Calibration) -> None:
    judged = []
    for pair in pairs:
        result = refit_matches(pair.matches, law, model="homography")
        judged.append((pair.case.kind, result.verdict, is_right(pair, result)))
    judge(judged)


def verdicts_of_lines(
    data: Path, name: str, cache: Path, law: Calibration, counts: tuple[int, int, int]
) -> None:
    """Scenes in depth that chose nothing, against pairs that show nothing alike."""
    judged = []
    strangers = chain(
        unrelated(data, "second", counts[1]), self_similar(data, "second", counts[2])
    )
    for pair in matched(name, strangers, cache):
        if pair.corners is None:  # not two views of one wall
            result = refit_matches(pair.matches, law, model="fundamental")
            judged.append((pair.case.kind, result.verdict, False))
    scenes = list(posed(data, "posed", 20))
    in_depth = matched(name, (case for case, _ in scenes), cache)
    for pair, (_, truth) in zip(in_depth, scenes, strict=True):
        result = refit_matches(pair.matches, law, model="fundamental")
        judged.append(
            (pair.case.kind, result.verdict, lines_right(pair, truth, result))
        )
    judge(judged)


def lines_right(pair: Matched, truth: PosedPair, result: PairResult) -> bool:
    """True where the matches that the lines rest on lie on the true lines."""
    weight = result.refit.weight
    views = CalibratedViews(truth.P_01, truth.camera0.K, truth.camera1.K)
    distance = np.abs(views.lines(pair.matches).distance)
    used = (weight > 0.5) & np.isfinite(distance)
    return bool(used.any() and np.median(distance[used]) < ON_LINES_PX)


def judge(told: list[tuple[str, Verdict, bool]]) -> None:
    """Print what verdicts were worth."""
    kinds = [kind for kind, _, _ in told]
    chances = [verdict.probability for _, verdict, _ in told]
    names, rights = [v.name for _, v, _ in told], [right for _, _, right in told]
    p, right, kind, name = map(np.array, (chances, rights, kinds, names))
    for one in dict.fromkeys(kinds):
        of = kind == one
        counts = {v: int((name[of] == v).sum()) for v in ("sound", "weak", "unrelated")}
        wrong = int(((name == "sound") & of & ~right).sum())
        print(f"{one:<14} {of.sum():>4} pairs, {right[of].sum():>4} right: {counts}, "
              f"sound but wrong: {wrong}")  # fmt: skip
    sound, apart = name == "sound", name == "unrelated"
    false, lost = (sound & ~right).mean(), (right & ~sound).sum() / right.sum()
    denied = (right & apart).sum() / right.sum()
    print(f"false sound: {100 * false:.2f} % of all pairs")
    print(f"right, not sound: {100 * lost:.1f} %; unrelated: {100 * denied:.1f} %")
    edges = np.array([0.0, 1e-9, 0.2, 0.5, 0.8, 0.95, 0.99, 1.0 + 1e-9])
    for low, high in pairwise(edges):
        of = (p >= low) & (p < high)
        if of.any():
            print(
                f"  said {p[of].mean():.3f}, right {right[of].mean():.3f}  ({of.sum()})"
            )
    print(f"Brier score {((p - right) ** 2).mean():.4f}", flush=True)


def fit(data: Path, cache: Path) -> None:
    """Coefficients for homographies, from pairs that chance does not explain.

    One set for all matchers: what they say of a match differs, the law of it does not.
    """
    rows, right, weight = [], [], []
    for name in MATCHERS:
        law = load_calibration(name)
        for pair in verdict_pairs(data, "first", FITTED_ON, name, cache):
            result = refit_matches(pair.matches, law, model="homography")
            if result.related:
                rows.append(result_features(result))
                right.append(is_right(pair, result))
                weight.append(WEIGHTS[pair.case.kind])
    used = (1, 2)  # alarms, repeated
    X, y, w = np.array(rows), np.array(right), np.array(weight)
    print("OF_HOMOGRAPHY", logistic(X, y, w, used))


def fit_lines(data: Path, cache: Path) -> None:
    """Coefficients for lines: scenes in depth and views against what looks alike."""
    rows, right = [], []
    for name in MATCHERS:
        law = load_calibration(name)
        for pair, ok in line_pairs(data, name, cache):
            result = refit_matches(pair.matches, law, model="fundamental")
            if result.related:
                rows.append(result_features(result))
                right.append(ok(result))
    weight, used = np.ones(len(rows)), (1, 3, 4)  # alarms, together, excess
    print("OF_LINES", logistic(np.array(rows), np.array(right), weight, used))


def line_pairs(
    data: Path, name: str, cache: Path
) -> Iterator[tuple[Matched, Callable[[PairResult], bool]]]:
    """Pairs to fit the verdict on lines to, and what tells if lines are right."""
    for pair in matched(name, self_similar(data, "first", FITTED_ON[2]), cache):
        if pair.corners is None:  # not two views of one wall
            yield pair, lambda _: False
    scenes = list(posed(data, "depth", 17))
    in_depth = matched(name, (case for case, _ in scenes), cache)
    for pair, (_, truth) in zip(in_depth, scenes, strict=True):
        yield pair, partial(lines_right, pair, truth)
    for pair in matched(name, related(data, "first", FLAT), cache):
        yield pair, partial(matches_right, pair)


def matches_right(pair: Matched, result: PairResult) -> bool:
    """True where the matches that a model rests on are right."""
    truth = pair.truth()
    if truth is None:
        return False
    unbiased, _ = without_bias(pair.matches, result.calibration)
    return _used_within(plane.residual(truth, unbiased), pair, result)


def result_features(result: PairResult) -> tuple[float, ...]:
    return features(log_alarms_of(result.model_failure), result.support())


def logistic(
    X: FloatArray, y: FloatArray, weight: FloatArray, used: tuple[int, ...]
) -> tuple[float, ...]:
    """Coefficients by likelihood; signs are those that each feature must have."""
    signs = [(0, None), (None, 0), (0, None), (None, 0)]
    bounds: list[tuple[int | None, int | None]] = [(None, None)]
    bounds += [s if i in used else (0, 0) for i, s in enumerate(signs, start=1)]

    def loss(b: FloatArray) -> float:
        z = X @ b
        return float(weight @ (np.logaddexp(0, z) - y * z) + 0.05 * b[1:] @ b[1:])

    fitted = minimize(loss, np.zeros(X.shape[1]), bounds=bounds, method="L-BFGS-B")
    mean = fitted.fun / weight.sum()
    print(f"{int(y.sum())} right of {len(y)}, mean loss {mean:.4f}")
    return tuple(float(f"{v:.3g}") for v in fitted.x)


if __name__ == "__main__":
    main()
