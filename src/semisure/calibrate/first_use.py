"""A law for a matcher that has none: made on its first use, and kept.

Random views of photos are matched, as for `semisure calibrate`, but fewer. The law is
kept in the user's cache under the matcher's fingerprint: other weights, settings or
code are another matcher. One matcher has one law there; other photos replace it.
"""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from os import PathLike
from pathlib import Path
from time import monotonic
from typing import TypeAlias

from semisure.calibrate.from_photos import SelfCalSettings, photo_files, self_calibrate
from semisure.datasets.samples import calibration_photos
from semisure.errors import FileError, InputError
from semisure.io.files import load_calibration, save_calibration
from semisure.io.sources import digest
from semisure.io.user_cache import cache_folder
from semisure.matchers import identity
from semisure.types import Calibration, Matcher, Tick
from semisure.types.display import counted
from semisure.types.progress import Begin, quietly

Photos: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]

SETTINGS = SelfCalSettings(pairs=60, location=True)
TIMED_VIEWS = 3  # are matched before the time of all is estimated
WORTH_TELLING_S = 5.0
# Of a matcher's settings, those that leave its answers alone, or are known by content.
_NO_MATTER = ("device", "weights")


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstUse:
    """What to do where a matcher has no calibration.

    Parameters
    ----------
    allowed
        False raises a sentence that says what to do instead.
    photos
        A folder, or files; without it the photos of scikit-image are used, or whatever
        the kept law was made from.
    tell
        Gets the sentences for a person who waits; a log, unless told otherwise.
    """

    allowed: bool = True
    photos: Photos | None = None
    tell: Callable[[str], None] = logging.getLogger(__name__).warning
    begin: Begin = quietly
    settings: SelfCalSettings = SETTINGS


def first_use_law(matcher: Matcher, name: str | None, options: FirstUse) -> Calibration:
    """The law kept for `matcher`, or one that is made now."""
    shown = name or _called(matcher)
    decided_by = _decided_by(matcher)
    if decided_by is None:
        raise InputError(
            f"The matcher {shown} has no calibration. Make one with "
            "semisure.self_calibrate(matcher, photos) and pass it; or give the matcher "
            "an attribute `fingerprint`, a text that changes with its weights and "
            "settings, and it is calibrated on first use."
        )
    file = _place(shown, {**decided_by, "views": str(options.settings)})
    photos = None if options.photos is None else photo_files(options.photos)
    kept = _kept(file)
    if kept is not None and (photos is None or digest(photos) == _made_from(kept)):
        return kept
    if not options.allowed:
        raise InputError(_without_calibrating(matcher, name))
    if photos is None:
        photos = calibration_photos(f"Calibrating {shown} on first use")
    return _made(matcher, shown, file, photos, options)


def _called(matcher: Matcher) -> str:
    """A callable's own name, whatever its settings are now."""
    return str(getattr(matcher, "__qualname__", type(matcher).__qualname__))


def _without_calibrating(matcher: Matcher, name: str | None) -> str:
    """What to do instead of calibrating on first use."""
    weights = getattr(matcher, "weights", None)
    whose = "" if weights is None else f" with the weights {weights}"
    flag = "" if weights is None else f" --weights {weights}"
    way = (
        "with semisure.self_calibrate(matcher, photos)"
        if name is None
        else f"by `semisure calibrate --matcher {name}{flag} --photos FOLDER -o "
        f"{name}.json`, which `-c {name}.json` then takes"
    )
    return (
        f"{name or _called(matcher)}{whose} has no calibration yet. Make one from "
        f"any photos {way}; or let it be made on first use."
    )


def _decided_by(matcher: Matcher) -> dict[str, str] | None:
    """What decides the matcher's errors; None where it does not say."""
    decided_by = identity(matcher)
    if decided_by is None or not is_dataclass(matcher) or "settings" not in decided_by:
        return decided_by
    settings = {
        field.name: str(getattr(matcher, field.name))
        for field in fields(matcher)
        if field.repr and field.name not in _NO_MATTER
    }
    return {**decided_by, "settings": str(settings)}


def _place(name: str, decided_by: Mapping[str, str]) -> Path:
    """Where the law of a matcher is kept."""
    text = json.dumps(decided_by, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:16]
    plain = "".join(c if c.isalnum() or c in "-_" else "_" for c in name)[:40]
    return cache_folder() / "calibrations" / f"{plain}-{key}.json"


def _kept(file: Path) -> Calibration | None:
    """A law from before; None where there is none, or its file is damaged."""
    try:
        return load_calibration(file)
    except FileError:
        return None


def _made_from(calibration: Calibration) -> object:
    first_use = calibration.provenance.get("first_use")
    return first_use.get("photos") if isinstance(first_use, Mapping) else None


def _made(
    matcher: Matcher, name: str, file: Path, photos: list[Path], options: FirstUse
) -> Calibration:
    """The law of the matcher on views of `photos`, put in its place."""
    views = options.settings.pairs
    options.tell(
        f"{name} has no calibration yet: calibrating it once, on {views} random views "
        f"of {counted(len(photos), 'photo')}."
    )
    parts = file.with_suffix(".parts")
    result = self_calibrate(
        matcher,
        photos,
        options.settings,
        name=name,
        cache=parts,
        begin=_estimating(options),
    )
    calibration = result.calibration
    first_use = {"views": views, "photos": digest(photos)}
    provenance = {**calibration.provenance, "first_use": first_use}
    calibration = replace(calibration, provenance=provenance)
    save_calibration(calibration, file, result.report)
    shutil.rmtree(parts, ignore_errors=True)
    options.tell(f"Done: {result.trust.verdict()} Kept for later in {file}.")
    return calibration


def _estimating(options: FirstUse) -> Begin:
    """Stages that, once a few views are matched, tell how long the rest takes."""

    def begin(stage: str) -> Tick:
        tick, started = options.begin(stage), monotonic()

        def counting(done: int, total: int) -> None:
            tick(done, total)
            left_s = (monotonic() - started) / max(done, 1) * (total - done)
            if stage != "Matching views" or left_s < WORTH_TELLING_S:
                return
            if done == TIMED_VIEWS:
                options.tell(f"This takes about {duration(left_s)}.")
            elif options.begin is quietly and done % (total // 4) == 0:  # no bar
                options.tell(f"{done} of {total} views; {duration(left_s)} to go.")

        return counting

    return begin


def duration(seconds: float) -> str:
    """A time for people.

    >>> duration(41.2), duration(130)
    ('41 s', '2 min')
    """
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
