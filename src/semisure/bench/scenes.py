"""The scenes that laws are judged on, and what other scenes' laws may learn from them.

A folder of cameras with depth is a scene, or several if it names them. Folders of
homographies are judged whole; nothing is learnt from them, since the homographies that
are published err by more than good matches do. Of photos every second one is learnt
from, by random views, and the others are judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from semisure.bench.data import labels, pairs_of
from semisure.bench.exported import Exported
from semisure.bench.study import Study
from semisure.bench.true_errors import residual_of
from semisure.calibrate.scenes import ScenePair
from semisure.datasets.layouts import is_photos
from semisure.datasets.posed import PosedPair
from semisure.datasets.subsets import evenly
from semisure.geometry.epipolar import fundamental
from semisure.geometry.fundamental import of_rank_2

PAIRS_A_SCENE = 8  # to learn from, evenly
VIEW_SCENES = 6  # random views of photos weigh as much as so many scenes


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Scene:
    """Pairs to judge laws on, and parts to learn from, each with the same say."""

    name: str
    judged: Sequence[Exported]
    learnt: Mapping[str, Sequence[Exported]] = field(default_factory=dict)

    @property
    def in_depth(self) -> bool:
        """True unless homographies are the truth."""
        return isinstance(self.judged[0].truth, PosedPair)


def scenes_of(study: Study, matcher: str) -> list[Scene]:
    """The scenes of all folders, their images as they are unless a size is given."""
    options = study.options
    scenes = []
    for label, root in zip(labels(options.data), options.data, strict=True):
        pairs = [(pair, options.size) for pair in pairs_of(options, root)]
        scenes += _scenes(label, root, study.matched(matcher, pairs))
    return scenes


def _scenes(label: str, root: Path, exported: Sequence[Exported]) -> list[Scene]:
    if is_photos(root):
        return [_photos(label, exported)]
    if not isinstance(exported[0].truth, PosedPair):
        return [Scene(name=label, judged=exported)]
    groups: dict[str, list[Exported]] = {}
    for pair in exported:
        name = label if pair.group == root.name else f"{label} {pair.group}"
        groups.setdefault(name, []).append(pair)
    return [
        Scene(name=name, judged=pairs, learnt={name: evenly(pairs, PAIRS_A_SCENE)})
        for name, pairs in groups.items()
    ]


def _photos(label: str, exported: Sequence[Exported]) -> Scene:
    photos = list(dict.fromkeys(pair.group for pair in exported))
    some = set(photos[1::2])
    learnt = evenly(
        [pair for pair in exported if pair.group in some], VIEW_SCENES * PAIRS_A_SCENE
    )
    parts = {f"{label} {k}": learnt[k::VIEW_SCENES] for k in range(VIEW_SCENES)}
    return Scene(
        name=label,
        judged=[pair for pair in exported if pair.group not in some],
        learnt={name: pairs for name, pairs in parts.items() if pairs},
    )


def lessons(scenes: Sequence[Scene], left_out: str) -> dict[str, Sequence[Exported]]:
    """What a law may learn from that is to be judged on one scene.

    Photos need not be left out: those judged are others than those learnt from.
    """
    return {
        name: pairs
        for scene in scenes
        for name, pairs in scene.learnt.items()
        if name != left_out
    }


def scene_pair(exported: Exported) -> ScenePair:
    """The matches of a pair with their true residuals and epipolar geometry."""
    matches, truth = exported.matches(), exported.truth
    F = None
    if isinstance(truth, PosedPair):
        F = of_rank_2(fundamental(truth.P_01, truth.camera0.K, truth.camera1.K))
    return ScenePair(matches=matches, residual=residual_of(exported, matches), F_01=F)
