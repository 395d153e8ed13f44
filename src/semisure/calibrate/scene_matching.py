"""The images of scenes matched, and the geometry of their pairs found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from semisure.calibrate.found_pairs import FoundPair, find_pair
from semisure.calibrate.from_maps import MapScene, MapSource, map_scene, told
from semisure.calibrate.from_photos import SelfCalSettings, Views, match_views, versions
from semisure.calibrate.image_pairs import ImagePairs, find_pairs
from semisure.calibrate.kept_pairs import kept_pairs
from semisure.calibrate.pair_store import (
    PairStore,
    Residuals,
    described,
    identified,
    without_truth,
)
from semisure.engine import HERE, Engine
from semisure.errors import InputError
from semisure.geometry.camera import Camera
from semisure.io.intrinsics import intrinsics_of
from semisure.pairs.models import Cameras
from semisure.types import Calibration, Matcher, Matches
from semisure.types.progress import Begin


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneSettings:
    """The settings that decide a calibration on scenes.

    >>> SceneSettings(pairs=20, fov_deg=60.0).held_out
    0.25
    """

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


@dataclass(frozen=True, slots=True)
class SceneMatches:
    """A scene's images and the matches of its pairs."""

    images: ImagePairs
    matches: list[Matches]


@dataclass(frozen=True, slots=True)
class _PairOfScene:
    """The matches of a pair by its number; their errors are unknown."""

    matcher: Matcher
    images: ImagePairs

    def __call__(self, index: int) -> Residuals:
        image0, image1 = (self.images.read(name) for name in self.images.pairs[index])
        return without_truth(self.matcher(image0, image1))


@dataclass(frozen=True, slots=True)
class SceneWork:
    """What scenes are matched with."""

    matcher: Matcher
    settings: SceneSettings
    cache: Path | None
    begin: Begin
    engine: Engine = HERE

    def views(self, photos: Sequence[Path]) -> Views:
        return match_views(
            self.matcher,
            photos,
            self.settings.views,
            cache=self.cache,
            engine=self.engine,
            begin=self.begin,
        )

    def mapped(self, source: MapSource) -> MapScene:
        return map_scene(
            source,
            self.matcher,
            limit=self.settings.pairs,
            max_side=self.settings.max_side,
            cache=self.cache,
            engine=self.engine,
            tick=self.begin(f"Matching {source.folder.name}"),
        )

    def matched(self, path: Path) -> SceneMatches:
        limit, max_side = self.settings.pairs, self.settings.max_side
        tick = self.begin(f"Pairing {path.name}")
        images = find_pairs(path, limit, max_side, tick)
        made_of: dict[str, Any] = {}
        if self.cache is not None:
            made_of["matcher"] = identified(self.matcher)
            made_of |= {"scene": images.made_of(), "max_side": max_side}
        store = PairStore(self.cache, made_of)
        tick = self.begin(f"Matching {path.name}")
        work = _PairOfScene(self.matcher, images)
        pairs = kept_pairs(work, len(images.pairs), store, self.engine, tick)
        return SceneMatches(images, [matches for matches, _ in pairs])

    def found(
        self, scene: SceneMatches, law: Calibration
    ) -> tuple[list[FoundPair], Counter[str]]:
        """The pairs whose geometry can be trusted, and why others cannot."""
        tick = self.begin(f"Geometry of {scene.images.name}")
        good, reasons = [], Counter[str]()
        for k, (names, matches) in enumerate(
            zip(scene.images.pairs, scene.matches, strict=True)
        ):
            cameras = self.cameras(scene.images, names, matches)
            found = find_pair(matches, law, cameras)
            if isinstance(found, FoundPair):
                good.append(found)
            else:
                reasons[found] += 1
            tick(k + 1, len(scene.matches))
        return good, reasons

    def find_all(
        self, matched: Mapping[str, SceneMatches], law: Calibration
    ) -> tuple[dict[str, list[FoundPair]], list[str]]:
        """The trusted pairs of scenes by name, and sentences about all others."""
        found: dict[str, list[FoundPair]] = {}
        skipped: list[str] = []
        for path, scene in matched.items():
            # Folders of several scenes may have the same name.
            name = path if scene.images.name in found else scene.images.name
            found[name], reasons = self.found(scene, law)
            skipped += scene.images.skipped
            skipped += told(name, reasons, len(scene.matches))
        return found, skipped

    def cameras(
        self, images: ImagePairs, names: tuple[str, str], matches: Matches
    ) -> Cameras | None:
        """Intrinsics at the size that was matched, if any were given."""
        sizes = matches.source_size, matches.target_size
        if self.settings.intrinsics is not None:
            whole = [images.size_of(name) for name in names]
            fx, fy, cx, cy = self.settings.intrinsics
            K = np.array([[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]])
            first, second = (
                Camera.from_matrix(K, before).resized(after).matrix
                for before, after in zip(whole, sizes, strict=True)
            )
            return first, second
        K0, K1 = (intrinsics_of(size, fov=self.settings.fov_deg) for size in sizes)
        return None if K0 is None or K1 is None else (K0, K1)

    def provenance(self, method: str, **more: Any) -> dict[str, Any]:
        return {
            "method": method,
            "matcher": described(self.matcher),
            **more,
            "settings": asdict(self.settings),
            **versions(),
        }
