"""Calibration on real scenes: overlapping photos, videos, lists of pairs, maps.

Where a map tells the truth, the law is fitted to true residuals, as views of photos
are. Where nothing does, the pairs' own geometry is found and the law fitted by what it
can tell (:mod:`semisure.selfcal.without_truth`). Some of the pairs are held out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import radians, tan
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from semisure.calibration import observe
from semisure.errors import FileError, InputError
from semisure.geometry.camera import Camera
from semisure.pipeline.models import Cameras
from semisure.selfcal.found_pairs import FoundPair, find_pair
from semisure.selfcal.from_maps import MapScene, MapSource, map_scene, told
from semisure.selfcal.from_photos import (
    Begin,
    SelfCalibration,
    SelfCalSettings,
    Views,
    law_of_views,
    match_views,
    quietly,
    usual_size,
    versions,
)
from semisure.selfcal.held_out import trial
from semisure.selfcal.held_out_lines import trial_across
from semisure.selfcal.image_pairs import ImagePairs, find_pairs
from semisure.selfcal.pair_store import PairStore, described, identified
from semisure.selfcal.scenes import ScenePair, fit_scenes
from semisure.selfcal.without_truth import along_for, fit_without_truth, start_for
from semisure.types import Calibration, Matcher, Matches, Matrix3

VIEWS = "views of photos"
Some = TypeVar("Some")


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneSettings:
    """The settings that decide a calibration on scenes."""

    pairs: int = 40  # of each scene, at most
    held_out: float = 0.25  # share of the pairs
    max_side: int = 640  # larger images are reduced to this
    intrinsics: tuple[float, float, float, float] | None = None  # fx, fy, cx, cy, px
    fov_deg: float | None = None  # along the longer side, instead
    views: SelfCalSettings = field(default_factory=SelfCalSettings)  # of photos

    def __post_init__(self) -> None:
        if self.pairs < 2:
            raise InputError(f"pairs must be at least 2, but is {self.pairs}.")
        if not 0.0 < self.held_out < 1.0:
            raise InputError(f"held_out must lie in (0, 1), but is {self.held_out}.")


def calibrate_scenes(
    matcher: Matcher,
    scenes: Sequence[Path] = (),
    *,
    maps: Sequence[MapSource] = (),
    photos: Sequence[Path] = (),
    settings: SceneSettings | None = None,
    name: str = "unknown",
    cache: Path | None = None,
    begin: Begin = quietly,
) -> SelfCalibration:
    """Fit the error law of `matcher` to real scenes, with or without truth.

    Parameters
    ----------
    scenes
        Folders of overlapping photos, videos, or text files with two image names a
        line. Nothing is known of them but that they overlap.
    maps
        COLMAP models with their images, or posed images with depth: truth.
    photos
        Photos of anything. Their random views, of exact truth, hold what epipolar lines
        leave open.
    name
        Of the matcher. The law shipped under it, if any, is where the fit begins.
    cache, begin
        As in :func:`semisure.self_calibrate`.

    Examples
    --------
    >>> import tempfile
    >>> from semisure.io.images import write_png
    >>> from semisure.matchers import load_matcher
    >>> folder = Path(tempfile.mkdtemp())
    >>> blobs = np.random.default_rng(0).integers(0, 255, (40, 50), np.uint8)
    >>> wall = blobs.repeat(5, 0).repeat(5, 1)
    >>> for k in range(3):  # a camera that moves along a wall
    ...     write_png(folder / f"{k}.png", wall[:, 9 * k : 9 * k + 220])
    >>> result = calibrate_scenes(load_matcher("daisy"), [folder], name="daisy")
    >>> sum(result.calibration.provenance["scenes"].values()), result.trust.pairs
    (2, 1)
    """
    settings = settings or SceneSettings()
    views, start = _start(matcher, photos, settings, name, cache, begin)
    work = _Work(matcher, settings, cache, begin)
    mapped = [work.mapped(source) for source in maps]
    matched = {str(path): work.matched(path) for path in scenes}
    skipped = [
        *(views.skipped if views else ()),
        *(s for m in mapped for s in m.left_out),
    ]
    if not matched:
        result = _with_truth(mapped, views, start, work)
    else:
        result = _without_truth(matched, mapped, views, start, work)
    return replace(result, skipped=(*skipped, *result.skipped))


def _start(
    matcher: Matcher,
    photos: Sequence[Path],
    settings: SceneSettings,
    name: str,
    cache: Path | None,
    begin: Begin,
) -> tuple[Views | None, Calibration]:
    """Views of the photos, if any, and the law to begin with."""
    if photos:
        views = match_views(matcher, photos, settings.views, cache=cache, begin=begin)
        return views, law_of_views(views, matcher, settings.views, name)[0]
    start = start_for(name)
    if settings.views.location and start.location is None:
        raise InputError(
            "A shift that all matches share moves their geometry with it, so that "
            "scenes alone cannot tell it; give --photos too, or leave --location out."
        )
    return None, start


@dataclass(frozen=True, slots=True)
class _Scene:
    """A scene's images and the matches of its pairs."""

    images: ImagePairs
    matches: list[Matches]


@dataclass(frozen=True, slots=True)
class _Work:
    """What scenes are matched with."""

    matcher: Matcher
    settings: SceneSettings
    cache: Path | None
    begin: Begin

    def mapped(self, source: MapSource) -> MapScene:
        return map_scene(
            source,
            self.matcher,
            limit=self.settings.pairs,
            max_side=self.settings.max_side,
            cache=self.cache,
            tick=self.begin(f"Matching {source.folder.name}"),
        )

    def matched(self, path: Path) -> _Scene:
        limit, max_side = self.settings.pairs, self.settings.max_side
        images = find_pairs(path, limit, self.begin(f"Pairing {path.name}"))
        made_of: dict[str, Any] = {}
        if self.cache is not None:
            made_of["matcher"] = identified(self.matcher)
            made_of |= {"scene": images.made_of(), "max_side": max_side}
        store = PairStore(self.cache, made_of)
        tick, matched = self.begin(f"Matching {path.name}"), []
        for k, pair in enumerate(images.pairs):
            known = store.load(k)
            if known is None:
                image0, image1 = (images.read(name, max_side) for name in pair)
                matches = self.matcher(image0, image1)
                known = store.save(k, (matches, np.full_like(matches.target, np.nan)))
            matched.append(known[0])
            tick(k + 1, len(images.pairs))
        return _Scene(images, matched)

    def found(
        self, scene: _Scene, start: Calibration
    ) -> tuple[list[FoundPair], Counter[str]]:
        """The pairs whose geometry can be trusted, and why others cannot."""
        tick = self.begin(f"Geometry of {scene.images.name}")
        good, reasons = [], Counter[str]()
        for k, (names, matches) in enumerate(
            zip(scene.images.pairs, scene.matches, strict=True)
        ):
            cameras = self.cameras(scene.images, names, matches)
            found = find_pair(matches, start, cameras)
            if isinstance(found, FoundPair):
                good.append(found)
            else:
                reasons[found] += 1
            tick(k + 1, len(scene.matches))
        return good, reasons

    def cameras(
        self, images: ImagePairs, names: tuple[str, str], matches: Matches
    ) -> Cameras | None:
        """Intrinsics at the size that was matched, if any were given."""
        sizes = matches.source_size, matches.target_size
        if self.settings.intrinsics is not None:
            whole = [images.full(name).shape[1::-1] for name in names]
            fx, fy, cx, cy = self.settings.intrinsics
            K = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
            first, second = (
                Camera.from_matrix(K, before).resized(after).matrix
                for before, after in zip(whole, sizes, strict=True)
            )
            return first, second
        if self.settings.fov_deg is not None:
            return _by_field(self.settings.fov_deg, sizes[0]), _by_field(
                self.settings.fov_deg, sizes[1]
            )
        return None

    def provenance(self, method: str, **more: Any) -> dict[str, Any]:
        return {
            "method": method,
            "matcher": described(self.matcher),
            **more,
            "settings": asdict(self.settings),
            **versions(),
        }


def _by_field(degrees: float, size: tuple[int, int]) -> Matrix3:
    focal = 0.5 * max(size) / tan(radians(degrees) / 2)
    cx, cy = 0.5 * (size[0] - 1), 0.5 * (size[1] - 1)
    return np.array([[focal, 0.0, cx], [0.0, focal, cy], [0.0, 0.0, 1.0]])


def parted(
    scenes: Mapping[str, Sequence[Some]], held_out: float
) -> tuple[dict[str, list[Some]], list[Some]]:
    """What is fitted to, scene by scene, and what is held out, evenly.

    >>> parted({"street": "abcdefgh"}, 0.25)
    ({'street': ['a', 'b', 'c', 'e', 'f', 'g']}, ['d', 'h'])
    """
    every = max(2, round(1.0 / held_out))
    kept, held = {}, []
    for name, pairs in scenes.items():
        kept[name] = [pair for k, pair in enumerate(pairs) if k % every != every - 1]
        held += [pair for k, pair in enumerate(pairs) if k % every == every - 1]
        if len(pairs) > 1 and len(kept[name]) == len(pairs):
            held.append(kept[name].pop())
    return kept, held


def _without_truth(
    matched: Mapping[str, _Scene],
    mapped: Sequence[MapScene],
    views: Views | None,
    start: Calibration,
    work: _Work,
) -> SelfCalibration:
    found: dict[str, list[FoundPair]] = {}
    skipped: list[str] = []
    for path, scene in matched.items():
        # Folders of several scenes may have the same name.
        name = path if scene.images.name in found else scene.images.name
        found[name], reasons = work.found(scene, start)
        skipped += scene.images.skipped
        skipped += told(name, reasons, len(scene.matches))
    fitted, held_out = parted(found, work.settings.held_out)
    if not any(fitted.values()) or not held_out:
        raise InputError(
            "A calibration on scenes needs at least two pairs whose geometry can be "
            f"trusted, but {sum(map(len, found.values()))} of "
            f"{sum(len(scene.matches) for scene in matched.values())} can."
            + (f" First: {skipped[0]}" if skipped else "")
        )
    work.begin("Fitting")
    along, taught_by = along_for(start.matcher)
    size = usual_size([pair.matches for pairs in found.values() for pair in pairs])
    calibration, report = fit_without_truth(
        fitted,
        replace(start, resolution=size),
        along,
        views=views.fitted if views else (),
        known={scene.name: scene.pairs for scene in mapped if scene.pairs},
        provenance=work.provenance(
            "scenes without truth, by errors across epipolar lines",
            scenes={name: len(pairs) for name, pairs in fitted.items()},
            maps={scene.name: scene.method for scene in mapped},
            photos=views.photos if views else 0,
            left_out=skipped,
            errors_along_lines_from=taught_by,
        ),
    )
    return SelfCalibration(
        calibration=calibration,
        report=report,
        trust=trial_across(held_out, calibration),
        skipped=tuple(skipped),
    )


def _with_truth(
    mapped: Sequence[MapScene], views: Views | None, start: Calibration, work: _Work
) -> SelfCalibration:
    if not any(scene.pairs for scene in mapped):
        raise FileError(
            "A calibration from maps needs matches near points of known place, but "
            "there are too few in all of its pairs."
        )
    fitted, held_out = parted(
        {scene.name: scene.pairs for scene in mapped}, work.settings.held_out
    )
    tested = [pair.known() for pair in held_out]
    if views is not None:
        fitted[VIEWS] = [ScenePair(matches=m, residual=r) for m, r in views.fitted]
        tested += views.held_out
    if not tested:
        raise InputError(
            "A calibration from maps needs at least two pairs, one of them to test "
            "it; give more images, or --photos."
        )
    work.begin("Fitting")
    calibration, report = fit_scenes(
        fitted,
        location=work.settings.views.location,
        matcher=start.matcher,
        resolution=usual_size([p.matches for ps in fitted.values() for p in ps]),
        provenance=work.provenance(
            "maps with truth",
            scenes={name: len(pairs) for name, pairs in fitted.items()},
            maps={scene.name: scene.method for scene in mapped},
            photos=views.photos if views else 0,
        ),
    )
    calibration = replace(calibration, shared_error=start.shared_error)
    return SelfCalibration(
        calibration=calibration,
        report=report,
        trust=trial(observe(tested), calibration),
        skipped=(),
    )
