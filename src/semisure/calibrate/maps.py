"""Calibration on maps with truth: COLMAP models, or posed images with depth."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np

from semisure.calibrate.map_truth import beside_points, covisible
from semisure.calibrate.photos import (
    Residuals,
    SelfCalibration,
    SelfCalSettings,
    described,
    match_all,
    match_views,
    tested,
    usual_size,
    versions,
)
from semisure.calibrate.scenes import MIN_MATCHES, ScenePair, fit_scenes
from semisure.datasets import evenly
from semisure.datasets.layouts import has_depth, is_posed, read_posed_pairs
from semisure.datasets.posed import PosedCamera, PosedPair, depth_residual
from semisure.engine import HERE, Engine
from semisure.errors import FileError, InputError
from semisure.geometry.camera import Camera
from semisure.geometry.epipolar import checked_pose, fundamental
from semisure.geometry.fundamental import of_rank_2
from semisure.io.colmap import read_model
from semisure.io.images import read_image, reduced
from semisure.types import Matcher, Matches
from semisure.types.display import Begin, quietly

VIEWS = "views of photos"


def calibrate_maps(
    matcher: Matcher,
    maps: Sequence[Path],
    *,
    images: Path | None = None,
    photos: Sequence[Path] = (),
    settings: SelfCalSettings | None = None,
    map_pairs: int = 40,
    name: str = "unknown",
    cache: Path | None = None,
    engine: Engine = HERE,
    begin: Begin = quietly,
) -> SelfCalibration:
    """Fit the error law of `matcher` to maps, and to random views of `photos` if any.

    Parameters
    ----------
    maps
        Folders of COLMAP models, or of posed images with depth.
    images
        The folder of the COLMAP models' images.
    photos
        Photos of anything; their random views weigh as much as one map.
    map_pairs
        Pairs of each map, at most.
    name, cache, engine, begin
        As in :func:`semisure.self_calibrate`.

    Examples
    --------
    >>> maps = [Path("sfm/model")]
    >>> calibrate_maps(matcher, maps, images=Path("photos"))  # doctest: +SKIP
    """
    settings = settings or SelfCalSettings()
    sources = {str(folder): open_map(folder, images, map_pairs) for folder in maps}
    scenes: dict[str, list[ScenePair]] = {}
    skipped: list[str] = []
    for label, source in sources.items():
        jobs = [PairOfFiles(*files, settings.max_side) for files in source.files]
        matched = match_all(jobs, matcher, cache, engine, begin(f"Matching {label}"))
        every = [source.truth(k, matches) for k, (matches, _) in enumerate(matched)]
        scenes[label] = [p for p in every if len(p.known()[0]) >= MIN_MATCHES]
        if few := len(every) - len(scenes[label]):
            skipped.append(
                f"{few} of {len(every)} pairs of {label}: fewer than {MIN_MATCHES} "
                "matches of known error."
            )
    if not any(scenes.values()):
        raise FileError(
            "A calibration from maps needs matches near points of known place, but "
            "there are too few in all of its pairs."
        )
    fitted, held_out = parted(scenes, settings.held_out)
    test_set: list[Residuals] = [pair.known() for pair in held_out]
    if photos:
        views = match_views(
            matcher, photos, settings, cache=cache, engine=engine, begin=begin
        )
        fitted[VIEWS] = [ScenePair(matches=m, residual=r) for m, r in views.fitted]
        test_set += views.held_out
        skipped += views.skipped
    if not test_set:
        raise InputError(
            "A calibration from maps needs at least two pairs, one of them to test "
            "it; give more images, or --photos."
        )
    begin("Fitting")
    calibration, report = fit_scenes(
        fitted,
        location=settings.location,
        matcher=name,
        resolution=usual_size([p.matches for ps in fitted.values() for p in ps]),
        provenance={
            "method": "maps with truth",
            "matcher": described(matcher),
            "scenes": {label: len(pairs) for label, pairs in fitted.items()},
            "maps": {label: source.method for label, source in sources.items()},
            "photos": views.photos if photos else 0,
            "settings": {**asdict(settings), "map_pairs": map_pairs},
            **versions(),
        },
    )
    return tested(calibration, report, test_set, skipped)


def parted(
    scenes: Mapping[str, Sequence[ScenePair]], held_out: float
) -> tuple[dict[str, list[ScenePair]], list[ScenePair]]:
    """What is fitted to, scene by scene, and what is held out, evenly."""
    every = max(2, round(1.0 / held_out))
    fitted: dict[str, list[ScenePair]] = {}
    held: list[ScenePair] = []
    for name, pairs in scenes.items():
        own = pairs[every - 1 :: every] or pairs[1:][-1:]  # at least one of two
        fitted[name] = [pair for pair in pairs if pair not in own]
        held += own
    return fitted, held


@dataclass(frozen=True, slots=True)
class PairOfFiles:
    """The matches of two images; the map gives their errors later."""

    image0: Path
    image1: Path
    max_side: int

    def __call__(self, matcher: Matcher) -> Residuals:
        image0, image1 = (
            reduced(read_image(file), self.max_side)
            for file in (self.image0, self.image1)
        )
        matches = matcher(image0, image1)
        return matches, np.full_like(matches.target, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class Map:
    """Pairs of images whose matches' errors are known."""

    method: str  # where the truth comes from
    files: Sequence[tuple[Path, Path]]
    truth: Callable[[int, Matches], ScenePair]  # of a pair by its number


def open_map(folder: Path, images: Path | None, limit: int) -> Map:
    """At most `limit` pairs of a COLMAP model, or of posed images with depth."""
    if any((folder / f"images{suffix}").is_file() for suffix in (".bin", ".txt")):
        return _colmap(folder, images, limit)
    if is_posed(folder):
        return _posed(folder, limit)
    raise FileError(
        f"{folder} is no map: expected a COLMAP model (cameras, images and points3D, "
        ".bin or .txt), or posed images with depth (cameras.txt, pairs.csv, images/, "
        "depth/)."
    )


def _posed(folder: Path, limit: int) -> Map:
    listed = read_posed_pairs(folder)
    if not listed or not has_depth(listed):
        raise FileError(
            f"{folder} must hold overlapping images with depth, from which the "
            "matches' true errors come; without depth, give its images by --photos."
        )
    chosen = evenly(listed, limit)
    return Map(
        method="posed images with depth",
        files=[(pair.camera0.image, pair.camera1.image) for pair in chosen],
        truth=lambda k, matches: with_depth(chosen[k], matches),
    )


def with_depth(pair: PosedPair, matches: Matches) -> ScenePair:
    """The matches with their true residuals, at the size they were matched at."""
    resized = replace(
        pair,
        camera0=_resized(pair.camera0, matches.source_size),
        camera1=_resized(pair.camera1, matches.target_size),
    )
    # Cameras are published to a few digits: the rotation is made exact.
    U, _, Vt = np.linalg.svd(resized.P_01[:, :3])
    P_01 = checked_pose(np.column_stack([U @ Vt, resized.P_01[:, 3]]))
    return ScenePair(
        matches=matches,
        residual=depth_residual(resized, matches),
        F_01=of_rank_2(fundamental(P_01, resized.camera0.K, resized.camera1.K)),
    )


def _resized(camera: PosedCamera, size: tuple[int, int]) -> PosedCamera:
    height, width = read_image(camera.image).shape[:2]
    whole = Camera.from_matrix(camera.K, (width, height))
    return replace(camera, K=whole.resized(size).matrix)


def _colmap(folder: Path, images: Path | None, limit: int) -> Map:
    if images is None:
        raise InputError(
            f"{folder} is a COLMAP model, which holds no pixels; give the folder of "
            "its images by --images."
        )
    model = read_model(folder)
    pairs = [
        pair
        for pair in covisible(model)
        if all((images / name).is_file() for name in pair)
    ]
    if not pairs:
        raise FileError(
            f"{images} holds none of the image pairs of the map, such as "
            f"{next(iter(model.images), 'none')}."
        )
    chosen = evenly(pairs, limit)
    quality = f"median reprojection error {np.median(model.error_px):.2f} px"
    return Map(
        method=f"matches beside points of a COLMAP model, {quality}",
        files=[(images / a, images / b) for a, b in chosen],
        truth=lambda k, matches: beside_points(model, chosen[k], matches),
    )
