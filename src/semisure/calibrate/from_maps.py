"""Scenes with truth: a COLMAP model with its images, or posed images with depth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from semisure.calibrate.kept_pairs import HERE, kept_pairs
from semisure.calibrate.map_truth import covisible, map_pair
from semisure.calibrate.pair_store import (
    PairStore,
    Residuals,
    identified,
    without_truth,
)
from semisure.calibrate.scenes import MIN_MATCHES, ScenePair
from semisure.datasets import evenly
from semisure.datasets.layouts import has_depth, is_posed, read_posed_pairs
from semisure.datasets.posed import PosedCamera, PosedPair, depth_residual
from semisure.engine import Engine
from semisure.errors import FileError, InputError
from semisure.geometry.camera import Camera
from semisure.geometry.epipolar import checked_pose, fundamental
from semisure.geometry.fundamental import of_rank_2
from semisure.io.colmap import MapModel, read_model
from semisure.io.images import read_image, reduced
from semisure.io.sources import digest
from semisure.types import Matcher, Matches, Pose, Tick, silent

Files = tuple[Path, Path]


@dataclass(frozen=True, slots=True, kw_only=True)
class MapSource:
    """A folder with a COLMAP model or posed images; the former needs its images."""

    folder: Path
    images: Path | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MapScene:
    """Pairs of a map with their true residuals, and what was left out."""

    name: str
    method: str  # where the truth comes from
    pairs: list[ScenePair]
    left_out: tuple[str, ...]


def is_colmap(folder: Path) -> bool:
    """True for a folder with a COLMAP model."""
    return any((folder / f"images{suffix}").is_file() for suffix in (".bin", ".txt"))


def map_scene(
    source: MapSource,
    matcher: Matcher,
    *,
    limit: int,
    max_side: int,
    cache: Path | None = None,
    engine: Engine = HERE,
    tick: Tick = silent,
) -> MapScene:
    """At most `limit` pairs of a map, matched, with the residuals that are known."""
    task = _Task(matcher, max_side, cache, engine, tick)
    if is_colmap(source.folder):
        return _of_model(source, limit, task)
    if not is_posed(source.folder):
        raise FileError(
            f"{source.folder} is no map: expected a COLMAP model (cameras, images and "
            "points3D, .bin or .txt), or posed images with depth (cameras.txt, "
            "pairs.csv, images/, depth/)."
        )
    return _of_posed(source.folder, limit, task)


@dataclass(frozen=True, slots=True)
class _Task:
    """What pairs of images are matched with."""

    matcher: Matcher
    max_side: int
    cache: Path | None
    engine: Engine
    tick: Tick

    def matched(self, files: Sequence[Files]) -> list[Matches]:
        """The matches of each pair of files."""
        made_of: dict[str, Any] = {}
        if self.cache is not None:
            contents = [[digest([a]), digest([b])] for a, b in files]
            made_of = {"matcher": identified(self.matcher), "map": contents}
            made_of["max_side"] = self.max_side
        store = PairStore(self.cache, made_of)
        work = _PairOfFiles(self.matcher, self.max_side, files)
        pairs = kept_pairs(work, len(files), store, self.engine, self.tick)
        return [matches for matches, _ in pairs]


@dataclass(frozen=True, slots=True)
class _PairOfFiles:
    """The matches of two files by their number."""

    matcher: Matcher
    max_side: int
    files: Sequence[Files]

    def __call__(self, index: int) -> Residuals:
        image0, image1 = (
            reduced(read_image(file), self.max_side) for file in self.files[index]
        )
        return without_truth(self.matcher(image0, image1))


def _of_model(source: MapSource, limit: int, task: _Task) -> MapScene:
    if source.images is None:
        raise InputError(
            f"{source.folder} is a COLMAP model, which holds no pixels; give the "
            "folder of its images by --images."
        )
    model, images = read_model(source.folder), source.images
    there = [
        pair
        for pair in covisible(model)
        if all((images / name).is_file() for name in pair)
    ]
    if not there:
        raise FileError(
            f"{images} holds none of the image pairs of the map, such as "
            f"{next(iter(model.images), 'none')}."
        )
    chosen = evenly(there, limit)
    matched = task.matched([(images / a, images / b) for a, b in chosen])
    pairs = [
        map_pair(model, names, m) for names, m in zip(chosen, matched, strict=True)
    ]
    method = f"matches beside points of a COLMAP model, {_quality(model)}"
    return _scene(source.folder.resolve().name, method, pairs)


def _quality(model: MapModel) -> str:
    return f"median reprojection error {np.median(model.error_px):.2f} px"


def _of_posed(folder: Path, limit: int, task: _Task) -> MapScene:
    listed = read_posed_pairs(folder)
    if not listed or not has_depth(listed):
        raise FileError(
            f"{folder} must hold overlapping images with depth, from which the "
            "matches' true errors come; without depth, give its images by --scene."
        )
    chosen = evenly(listed, limit)
    files = [(pair.camera0.image, pair.camera1.image) for pair in chosen]
    matched = task.matched(files)
    pairs = [_posed_pair(pair, m) for pair, m in zip(chosen, matched, strict=True)]
    return _scene(folder.resolve().name, "posed images with depth", pairs)


def _posed_pair(pair: PosedPair, matches: Matches) -> ScenePair:
    """The pair at the size it was matched at."""
    resized = replace(
        pair,
        camera0=_resized(pair.camera0, matches.source_size),
        camera1=_resized(pair.camera1, matches.target_size),
    )
    K0, K1 = resized.camera0.K, resized.camera1.K
    return ScenePair(
        matches=matches,
        residual=depth_residual(resized, matches),
        F_01=of_rank_2(fundamental(_sound(resized.P_01), K0, K1)),
    )


def _resized(camera: PosedCamera, size: tuple[int, int]) -> PosedCamera:
    height, width = read_image(camera.image).shape[:2]
    whole = Camera.from_matrix(camera.K, (width, height))
    return replace(camera, K=whole.resized(size).matrix)


def _sound(P_01: Pose) -> Pose:
    """The pose with an exact rotation: cameras are published to a few digits."""
    U, _, Vt = np.linalg.svd(P_01[:, :3])
    return checked_pose(np.column_stack([U @ Vt, P_01[:, 3]]))


def _scene(name: str, method: str, pairs: list[ScenePair]) -> MapScene:
    usable = [pair for pair in pairs if len(pair.known()[0]) >= MIN_MATCHES]
    few = f"fewer than {MIN_MATCHES} matches of known error"
    counts = Counter({few: len(pairs) - len(usable)})
    return MapScene(
        name=name,
        method=method,
        pairs=usable,
        left_out=told(name, counts, len(pairs)),
    )


def told(scene: str, counts: Counter[str], total: int) -> tuple[str, ...]:
    """Sentences about the pairs of a scene that were left out, by reason.

    >>> told("street", Counter({"the view hardly changed": 3}), 20)
    ('3 of 20 pairs of street: the view hardly changed.',)
    """
    return tuple(
        f"{count} of {total} pairs of {scene}: {reason}."
        for reason, count in counts.most_common()
        if count
    )
