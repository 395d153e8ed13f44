"""Calibration on real scenes: overlapping photos, videos, lists of pairs, maps.

Where a map tells the truth, the law is fitted to true residuals, as views of photos
are. Where nothing does, the pairs' own geometry is found and the law fitted by what it
can tell (:mod:`semisure.calibrate.without_truth`). Some of the pairs are held out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from semisure.calibrate.from_maps import MapScene, MapSource
from semisure.calibrate.from_photos import (
    SelfCalibration,
    Views,
    law_of_views,
    usual_size,
)
from semisure.calibrate.held_out import trial, tried
from semisure.calibrate.held_out_lines import trial_across
from semisure.calibrate.scene_matching import SceneMatches, SceneSettings, SceneWork
from semisure.calibrate.scenes import ScenePair, fit_scenes
from semisure.calibrate.without_truth import (
    GENERIC,
    along_for,
    fit_without_truth,
    start_for,
)
from semisure.engine import HERE, Engine
from semisure.errors import FileError, InputError
from semisure.law.likelihood import observe
from semisure.types import Calibration, Matcher
from semisure.types.progress import Begin, quietly

VIEWS = "views of photos"
Some = TypeVar("Some")


def calibrate_scenes(
    matcher: Matcher,
    scenes: Sequence[Path] = (),
    *,
    maps: Sequence[MapSource] = (),
    photos: Sequence[Path] = (),
    settings: SceneSettings | None = None,
    name: str = "unknown",
    cache: Path | None = None,
    engine: Engine = HERE,
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
    cache, engine, begin
        As in :func:`semisure.self_calibrate`.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
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
    work = SceneWork(matcher, settings, cache, begin, engine)
    views, start = _start(work, photos, name)
    mapped = _named([work.mapped(source) for source in maps])
    matched = {str(path): work.matched(path) for path in scenes}
    skipped = [
        *(views.skipped if views else ()),
        *(s for m in mapped.values() for s in m.left_out),
    ]
    if not matched:
        result = _with_truth(mapped, views, start, work)
    else:
        result = _without_truth(matched, mapped, views, start, work)
    return replace(result, skipped=(*skipped, *result.skipped))


def _named(mapped: Sequence[MapScene]) -> dict[str, MapScene]:
    """Maps by name; COLMAP calls every first model 0."""
    named: dict[str, MapScene] = {}
    for scene in mapped:
        known = scene.name in named
        named[f"{scene.name} ({len(named) + 1})" if known else scene.name] = scene
    return named


def _start(
    work: SceneWork, photos: Sequence[Path], name: str
) -> tuple[Views | None, Calibration]:
    """Views of the photos, if any, and the law to begin with."""
    settings = work.settings.views
    if photos:
        views = work.views(photos)
        return views, law_of_views(views, work.matcher, settings, name)[0]
    start = start_for(name)
    if settings.location and start.location is None:
        raise InputError(
            "A shift that all matches share moves their geometry with it, so that "
            "scenes alone cannot tell it; give --photos too, or leave --location out."
        )
    return None, start


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
    matched: Mapping[str, SceneMatches],
    mapped: Mapping[str, MapScene],
    views: Views | None,
    start: Calibration,
    work: SceneWork,
) -> SelfCalibration:
    along, names = along_for(start.matcher)
    found, skipped = work.find_all(matched, start)
    if start.provenance == GENERIC.provenance:
        # A law that knows nothing of the matcher takes planes for depth, or depth for
        # planes: a first fit makes a better one, by which all pairs are found anew.
        some, _ = parted(found, work.settings.held_out)
        if any(some.values()):
            first, _ = fit_without_truth(some, start, along)
            start = replace(first, pairs=None)
            found, skipped = work.find_all(matched, start)
    fitted, held_out = parted(found, work.settings.held_out)
    if not any(fitted.values()) or not held_out:
        total = sum(len(scene.matches) for scene in matched.values())
        first_reason = f" First: {skipped[0]}" if skipped else ""
        raise InputError(
            "A calibration on scenes needs at least two pairs whose geometry can be "
            f"trusted, but {sum(map(len, found.values()))} of {total} can."
            f"{first_reason}"
        )
    work.begin("Fitting")
    size = usual_size([pair.matches for pairs in found.values() for pair in pairs])
    calibration, report = fit_without_truth(
        fitted,
        replace(start, resolution=size),
        along,
        views=views.fitted if views else (),
        known={f"map {name}": s.pairs for name, s in mapped.items() if s.pairs},
        provenance=work.provenance(
            "scenes without truth, by errors across epipolar lines",
            scenes={name: len(pairs) for name, pairs in fitted.items()},
            maps={name: scene.method for name, scene in mapped.items()},
            photos=views.photos if views else 0,
            left_out=skipped,
            errors_along_lines_from=names,
        ),
    )
    trust = trial_across(held_out, calibration)
    return SelfCalibration(
        calibration=tried(calibration, trust),
        report=report,
        trust=trust,
        skipped=tuple(skipped),
    )


def _with_truth(
    mapped: Mapping[str, MapScene],
    views: Views | None,
    start: Calibration,
    work: SceneWork,
) -> SelfCalibration:
    if not any(scene.pairs for scene in mapped.values()):
        raise FileError(
            "A calibration from maps needs matches near points of known place, but "
            "there are too few in all of its pairs."
        )
    fitted, held_out = parted(
        {name: scene.pairs for name, scene in mapped.items()}, work.settings.held_out
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
            maps={name: scene.method for name, scene in mapped.items()},
            photos=views.photos if views else 0,
        ),
    )
    trust = trial(observe(tested), calibration)
    return SelfCalibration(
        calibration=tried(calibration, trust),
        report=report,
        trust=trust,
        skipped=(),
    )
