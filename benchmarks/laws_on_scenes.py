"""Laws judged on scenes that they have not seen; and the law that ships, made.

    python benchmarks/laws_on_scenes.py daisy DATA... --cache CACHE
    python benchmarks/laws_on_scenes.py daisy DATA... --cache CACHE --write daisy.json

DATA are folders of posed images with depth, of homographies (judged, nothing is learnt
from them, since the published ones err by more than good matches do), and of photos, of
which every second one is learnt from, by random views, and the others are judged. A law
keeps the shipped eight numbers; how pairs differ is learnt from all other scenes, each
with the same say. Lines, for each scene: the law of flat photos (planar), the law of
the other scenes (left out), this after it has seen the geometry estimated from the pair
(adapted), and the shipped law after the same, which may have learnt from the scene.
Columns: NLL per axis, per cent of true residuals inside the central 50
and 90 % intervals, P(|r| > 8 px) predicted and observed (%), AUROC of errors beyond 8
px and rank correlation, both by the expected error.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

import semisure
from semisure import metrics
from semisure.__about__ import __version__
from semisure.bench.data import labels, pairs_of
from semisure.bench.exported import Exported, residual_of
from semisure.bench.options import Options
from semisure.bench.run import open_study
from semisure.bench.study import Study
from semisure.calibrate.scenes import ScenePair, fit_spread, usable
from semisure.datasets import evenly
from semisure.datasets.layouts import is_photos
from semisure.datasets.posed import PosedPair
from semisure.geometry.epipolar import fundamental
from semisure.geometry.fundamental import of_rank_2
from semisure.law import mixture
from semisure.law.mixture import ErrorLaw
from semisure.law.pair_law import predictive_law
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import Kind
from semisure.types import Calibration, PerAxis
from semisure.types.checks import within_px

PAIRS_A_FOLDER = 50
PAIRS_A_SCENE = 8  # to learn from, evenly
VIEW_SCENES = 6  # random views of photos weigh as much as so many scenes
TAIL_PX = 8.0
HEAD = ("NLL", "50 %", "90 %", "tail", "observed", "AUROC", "rank")


@dataclass(frozen=True, slots=True, eq=False)
class Scene:
    """Pairs to judge laws on, and parts to learn from, each with the same say."""

    name: str
    judged: Sequence[Exported]
    learnt: dict[str, Sequence[Exported]] = field(default_factory=dict)


def scenes_of(study: Study, matcher: str) -> Iterator[Scene]:
    """The scenes of all folders, their images as they are."""
    options = study.options
    for label, root in zip(labels(options.data), options.data, strict=True):
        pairs = [(pair, options.size) for pair in pairs_of(options, root)]
        exported = study.matched(matcher, pairs)
        if is_photos(root):
            photos = list(dict.fromkeys(pair.group for pair in exported))[1::2]
            learnt = evenly(
                [pair for pair in exported if pair.group in photos],
                VIEW_SCENES * PAIRS_A_SCENE,
            )
            parts = {f"{label} {k}": learnt[k::VIEW_SCENES] for k in range(VIEW_SCENES)}
            judged = [pair for pair in exported if pair.group not in photos]
            yield Scene(label, judged, {name: p for name, p in parts.items() if p})
        elif isinstance(exported[0].truth, PosedPair):
            for group in dict.fromkeys(pair.group for pair in exported):
                mine = [pair for pair in exported if pair.group == group]
                name = label if group == root.name else f"{label} {group}"
                yield Scene(name, mine, {name: evenly(mine, PAIRS_A_SCENE)})
        else:
            yield Scene(label, exported)


def scene_pair(exported: Exported) -> ScenePair:
    """The matches of a pair with their true residuals and epipolar geometry."""
    matches, truth = exported.matches(), exported.truth
    F = None
    if isinstance(truth, PosedPair):
        F = of_rank_2(fundamental(truth.P_01, truth.camera0.K, truth.camera1.K))
    return ScenePair(matches=matches, residual=residual_of(exported, matches), F_01=F)


def law_of_others(
    scenes: Sequence[Scene], left_out: str, planar: Calibration
) -> Calibration:
    """The law of all scenes but one; photos that are judged are never learnt from."""
    lessons = {
        name: [scene_pair(pair) for pair in pairs]
        for scene in scenes
        for name, pairs in scene.learnt.items()
        if name != left_out
    }
    return replace(planar, pairs=fit_spread(usable(lessons), planar))


def judge(laws: Sequence[tuple[ErrorLaw, PerAxis]]) -> list[float]:
    """The columns, of the matches of all pairs together."""
    parts = []
    for whole, every in laws:
        known = within_px(every)
        law, residual = whole.take(known), every[known]
        part = (
            residual,
            mixture.cdf(law, residual),
            -mixture.log_density(law, residual),
            mixture.prob_beyond(law, TAIL_PX),
            mixture.expected_abs_error(law),
        )
        parts.append(part)
    residual, pit, nll, beyond, expected = map(np.concatenate, zip(*parts, strict=True))
    size = np.abs(residual)
    error = size.mean(axis=1)
    return [
        float(nll.mean()),
        *(100.0 * float((np.abs(pit - 0.5) <= 0.5 * p).mean()) for p in (0.5, 0.9)),
        100.0 * float(beyond.mean()),
        100.0 * float((size > TAIL_PX).mean()),
        metrics.auroc(expected, error > TAIL_PX),
        metrics.spearman(expected, error),
    ]


def adapted(pair: ScenePair, law: Calibration) -> ErrorLaw:
    """The law of a pair after its geometry, or before, if there is none."""
    kind: Kind = "homography" if pair.F_01 is None else "fundamental"
    pair_law = refit_matches(pair.matches, law, model=kind).pair_law
    return predictive_law(pair.matches, law) if pair_law is None else pair_law.law


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("matcher")
    parser.add_argument("data", type=Path, nargs="+")
    parser.add_argument("--cache", type=Path, default=Path("semisure-cache"))
    parser.add_argument("--write", type=Path, help="Make the law of all scenes.")
    parser.add_argument("--limit", type=int, default=PAIRS_A_FOLDER)
    given = parser.parse_args()
    options = Options(
        data=given.data,
        matchers=(given.matcher,),
        limit=given.limit,
        cache=given.cache,
    )
    with open_study(options) as study:
        scenes = list(scenes_of(study, given.matcher))
    shipped = semisure.load_calibration(given.matcher)
    planar = replace(shipped, pairs=None)
    if given.write:
        provenance = {
            "numbers": shipped.provenance["numbers"],
            "pairs": "scenes in depth and random views of photos",
            "scenes": {k: len(v) for scene in scenes for k, v in scene.learnt.items()},
            "semisure": __version__,
        }
        law = replace(law_of_others(scenes, "", planar), provenance=provenance)
        semisure.save_calibration(law, given.write)
        return
    print(f"{'':32}", *(f"{name:>8}" for name in HEAD))
    for scene in scenes:
        law = law_of_others(scenes, scene.name, planar)
        pairs = [scene_pair(pair) for pair in scene.judged]
        flat = [predictive_law(pair.matches, planar) for pair in pairs]
        before = [predictive_law(pair.matches, law) for pair in pairs]
        after = [adapted(pair, law) for pair in pairs]
        truths = [pair.residual for pair in pairs]
        usual = [adapted(pair, shipped) for pair in pairs]
        lines = {
            "planar": flat,
            "left out": before,
            "adapted": after,
            "shipped": usual,
        }
        for name, laws in lines.items():
            numbers = judge(list(zip(laws, truths, strict=True)))
            title = f"{scene.name}, {name}"
            print(f"{title:32}", *(f"{v:8.2f}" for v in numbers), flush=True)


if __name__ == "__main__":
    main()
