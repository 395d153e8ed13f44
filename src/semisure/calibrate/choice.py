"""Which calibration serves a matcher: the one given, the shipped, or its own.

A matcher without a law is calibrated on its first use: random views of photos are
matched, as for `semisure calibrate`, but fewer. That law is kept in the user's cache
under the matcher's fingerprint: other weights, settings or code are another matcher.
One matcher has one law there; other photos replace it.
"""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING

from semisure.errors import FileError, InputError
from semisure.io.cache import cache_folder, digest, key_of
from semisure.io.files import is_shipped, load_calibration, save_calibration
from semisure.matchers import has_official_weights, identity, name_of
from semisure.types import Calibration, Matcher
from semisure.types.checks import require_kind
from semisure.types.display import Begin, counted, quietly

# Imported only to make a calibration: most calls need none.
if TYPE_CHECKING:
    from semisure.calibrate.photos import Photos, SelfCalibration

VIEWS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstUse:
    """What to do where a matcher has no calibration.

    Parameters
    ----------
    allowed
        If False, an error says what to do instead.
    photos
        A folder, or files; without it the photos of scikit-image are used, or whatever
        the kept law was made from.
    tell
        Gets sentences for the waiting user; by default they are logged.
    """

    allowed: bool = True
    photos: Photos | None = None
    tell: Callable[[str], None] = logging.getLogger(__name__).warning
    begin: Begin = quietly


def calibration_for(
    matcher: Matcher,
    calibration: Calibration | SelfCalibration | str | PathLike[str] | None = None,
    *,
    force: bool = False,
    first_use: FirstUse | None = None,
) -> Calibration:
    """The calibration that is given, or else the matcher's own.

    One of another matcher is refused without `force`. A built-in matcher with its
    official weights may have a shipped one; any other is calibrated on first use.

    >>> from semisure.matchers import load_matcher
    >>> calibration_for(load_matcher("daisy")).matcher
    'daisy'
    """
    name = name_of(matcher)
    if calibration is None:
        if name is not None and is_shipped(name) and has_official_weights(matcher):
            return load_calibration(name)
        return first_use_law(matcher, first_use or FirstUse())
    shown = "given"
    if isinstance(calibration, str | PathLike):
        shown, calibration = str(calibration), load_calibration(Path(calibration))
    elif not isinstance(calibration, Calibration):
        from semisure.calibrate.photos import SelfCalibration

        advice = "Give a name, the path of a file, or a semisure.Calibration."
        require_kind("calibration", calibration, SelfCalibration, advice)
        calibration = calibration.calibration
    if name is not None and calibration.matcher not in (name, "unknown") and not force:
        raise InputError(
            f"The calibration {shown} is of {calibration.matcher}, not of {name}, so "
            f"that its errors would be wrong. Leave it out, calibrate {name}, or force "
            "it."
        )
    return calibration


def first_use_law(matcher: Matcher, options: FirstUse) -> Calibration:
    """The law kept for `matcher`, or one that is made now."""
    from semisure.calibrate.photos import SelfCalSettings, photo_files, self_calibrate

    # A callable's own name, whatever its settings are now.
    own = str(getattr(matcher, "__qualname__", type(matcher).__qualname__))
    name = name_of(matcher) or own
    decided_by = identity(matcher)
    if decided_by is None:
        raise InputError(
            f"The matcher {name} has no calibration. Make one with "
            "semisure.self_calibrate(matcher, photos) and pass it; or give the matcher "
            "an attribute `fingerprint`, a text that changes with its weights and "
            "settings, and it is calibrated on first use."
        )
    settings = SelfCalSettings(pairs=VIEWS, location=True)
    plain = re.sub(r"[^\w-]", "_", name)[:40]
    key = key_of(decided_by, settings)[:16]
    file = cache_folder() / "calibrations" / f"{plain}-{key}.json"
    photos = None if options.photos is None else photo_files(options.photos)
    with suppress(FileError):  # there is none, or it is damaged
        law = load_calibration(file)
        if photos is None or law.provenance["first_use"]["photos"] == digest(photos):
            return law
    if not options.allowed:
        weights = getattr(matcher, "weights", None)
        whose = "" if weights is None else f" with the weights {weights}"
        raise InputError(
            f"{name}{whose} has no calibration yet. Make one from any photos by "
            "`semisure calibrate`, which -c then takes, or by "
            "semisure.self_calibrate(matcher, photos); or let it be made on first use."
        )
    if photos is None:
        from semisure.datasets.samples import calibration_photos

        photos = calibration_photos(f"Calibrating {name} on first use")
    options.tell(
        f"{name} has no calibration yet: calibrating it once, on {settings.pairs} "
        f"random views of {counted(len(photos), 'photo')}, which takes as long as "
        f"{settings.pairs} matches."
    )
    parts = file.with_suffix(".parts")
    result = self_calibrate(
        matcher, photos, settings, name=name, cache=parts, begin=options.begin
    )
    first_use = {"views": settings.pairs, "photos": digest(photos)}
    provenance = {**result.calibration.provenance, "first_use": first_use}
    calibration = replace(result.calibration, provenance=provenance)
    save_calibration(calibration, file, result.report)
    shutil.rmtree(parts, ignore_errors=True)
    options.tell(f"Done: {result.trust.verdict()} Kept for later in {file}.")
    return calibration
