"""What is said of matches once their pair's geometry is known, on scenes with truth.

    python benchmarks/laws_after_fit.py daisy DATA --cache CACHE

DATA are folders of posed images with depth, and of homographies. Laws keep their
shipped effects. Errors along lines are learnt from every second scene in depth and
judged on the others, then the other way round: by the pair's effects alone (blind), and
with each match's own distance and neighbours (after). Of the whole law, planes too, the
shares inside the central 50 and 90 % per axis.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

import semisure
from semisure import metrics
from semisure.bench.options import Options
from semisure.bench.run import ONE_PROCESS
from semisure.bench.scenes import Scene, scene_pair, scenes_of
from semisure.bench.study import Study
from semisure.calibrate.scenes import ScenePair, fit_along
from semisure.datasets.subsets import evenly
from semisure.engine import open_engine
from semisure.law import mixture
from semisure.law.mixture import ErrorLaw
from semisure.law.pair_effects import size_of_sum
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import Kind
from semisure.pairs.result import PairResult
from semisure.types import Calibration, FloatArray, PerAxis, PerMatch
from semisure.types.checks import within_px

PAIRS = 12  # of a scene, evenly
TAIL_PX = 8.0
LEVELS = [0.5, 0.9]


@dataclass(frozen=True, slots=True, eq=False)
class Along:
    """Errors along lines, and their law: components (k, n)."""

    chance: FloatArray
    scale: FloatArray
    error: PerMatch

    def numbers(self) -> list[float]:
        size = np.abs(self.error)
        tail = self.chance * np.exp(-size / self.scale)
        expected, wrong = (self.chance * self.scale).sum(axis=0), size > TAIL_PX
        predicted = (self.chance * np.exp(-TAIL_PX / self.scale)).sum(axis=0)
        return [
            -float(np.log((tail / (2.0 * self.scale)).sum(axis=0) + 1e-300).mean()),
            *(100.0 * np.mean(tail.sum(axis=0) > 1.0 - level) for level in LEVELS),
            100.0 * float(predicted.mean()),
            100.0 * float(wrong.mean()),
            metrics.auroc(expected, wrong),
            metrics.spearman(expected, size),
        ]


def components(law: ErrorLaw) -> list[tuple[PerAxis, PerAxis]]:
    """Chance and scale of either component."""
    alpha = mixture.tail_prob(law)
    return [(1.0 - alpha, law.fine_scale), (alpha, law.coarse_scale)]


def seen_along(pair: ScenePair, result: PairResult) -> tuple[Along, Along]:
    """The errors of a pair along its lines by its law, blind and after the fit."""
    view, known = result.lines_view(), np.flatnonzero(within_px(pair.residual))
    assert view is not None
    normal, blind = view.lines.normal[known], result.blind_law.take(known)
    x, y = np.abs(normal[:, ::-1].T)
    off = pair.residual[known] - blind.location
    error = off[:, 1] * normal[:, 0] - off[:, 0] * normal[:, 1]
    both = [(c, d) for c in components(blind) for d in components(blind)]
    chance = np.array([p[:, 0] * q[:, 1] for (p, _), (q, _) in both])
    scale = np.array([size_of_sum(s[:, 0] * x, t[:, 1] * y) for (_, s), (_, t) in both])
    # Failure is one event; the axes share the size along.
    parts = components(result.law.take(known))
    once = np.array([chances[:, 0] for chances, _ in parts])
    size = np.array([np.hypot(*scales.T) for _, scales in parts])
    return Along(chance, scale, error), Along(once, size, error)


def joined(parts: Sequence[Along]) -> Along:
    fields = [[getattr(part, name) for part in parts] for name in Along.__slots__]
    return Along(*(np.concatenate(arrays, axis=-1) for arrays in fields))


def pairs_of(scene: Scene) -> list[ScenePair]:
    return [scene_pair(pair) for pair in evenly(scene.judged, PAIRS)]


def judge(scene: Scene, law: Calibration) -> list[list[float]]:
    """The numbers of a scene along lines, blind and after; printed."""
    kind: Kind = "fundamental" if scene.in_depth else "homography"
    every = [(p, refit_matches(p.matches, law, model=kind)) for p in pairs_of(scene)]
    pairs = [(pair, result) for pair, result in every if result.pair_law is not None]
    pits = [mixture.cdf(r.law, p.residual)[within_px(p.residual)] for p, r in pairs]
    axes = 100.0 * metrics.coverage(np.concatenate(pits), LEVELS)
    print(f"{scene.name:24} per axis {axes[0]:3.0f} / {axes[1]:3.0f}")
    if not scene.in_depth:
        return []
    both = zip(*(seen_along(pair, result) for pair, result in pairs), strict=True)
    rows = [joined(parts).numbers() for parts in both]
    for title, row in zip(("blind", "after"), rows, strict=True):
        show(title, row)
    return rows


def show(title: str, row: Sequence[float]) -> None:
    nll, half, most, predicted, observed, auroc, rank = row
    inside, beyond = f"{half:3.0f} / {most:3.0f}", f"{predicted:5.1f} / {observed:4.1f}"
    print(f"  {title:22} {nll:5.2f}  {inside}  {beyond}  {auroc:.3f}  {rank:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("matcher")
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--cache", type=Path, default=Path("semisure-cache"))
    asked = parser.parse_args()
    names = (asked.matcher,)
    options = Options(data=asked.data, matchers=names, limit=50, cache=asked.cache)
    with open_engine(ONE_PROCESS) as engine:
        scenes = scenes_of(Study(options, engine), asked.matcher)
    law = semisure.load_calibration(asked.matcher)
    assert law.pairs is not None
    deep = [scene for scene in scenes if scene.in_depth]
    print(f"{'along lines':24}   NLL  in 50 / 90  beyond 8 px  AUROC  rank")
    rows = []
    for part in (0, 1):
        along = fit_along({s.name: pairs_of(s) for s in deep[part::2]}, law)
        print(along)
        other = replace(law, pairs=replace(law.pairs, along=along))
        rows += [judge(scene, other) for scene in deep[1 - part :: 2]]
    for title, means in zip(("blind", "after"), np.mean(rows, axis=0), strict=True):
        show(f"mean, {title}", means)
    for scene in scenes:
        if not scene.in_depth:
            judge(scene, law)


if __name__ == "__main__":
    main()
