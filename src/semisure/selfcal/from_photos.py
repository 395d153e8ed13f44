"""Calibration of any matcher on anyone's photos: no ground-truth data set.

Random views of each photo are matched with each other. Their homography is known, so
every match's error is known too. A share of the photos is held out and says how far
the fitted law can be believed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path

import cv2
import numpy as np

from semisure.__about__ import __version__
from semisure.calibration import FitReport, fit, observe
from semisure.errors import FileError, InputError
from semisure.geometry.homography import residual
from semisure.io.atomic import write_json
from semisure.io.files import load_arrays, matches_from, save_matches
from semisure.io.images import read_image, reduced
from semisure.selfcal.held_out import Trust, trial
from semisure.selfcal.random_views import DEFAULT_WARPS, WarpSettings, random_pair
from semisure.selfcal.shared_error import fit_shared_error
from semisure.types import Calibration, FloatArray, Matcher, Matches

MIN_PHOTOS = 5
MIN_SIDE_PX = 64

Residuals = tuple[Matches, FloatArray]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCalSettings:
    """What decides the result of a self-calibration, and so names its cache."""

    pairs: int = 200  # the paper's number
    held_out: float = 0.25  # share of the photos
    max_side: int = 640  # larger photos are reduced to this
    location: bool = False
    seed: int = 0
    warps: WarpSettings = DEFAULT_WARPS

    def __post_init__(self) -> None:
        if self.pairs < 2:
            raise InputError(f"pairs must be at least 2, but is {self.pairs}.")
        if not 0.0 < self.held_out < 1.0:
            raise InputError(f"held_out must lie in (0, 1), but is {self.held_out}.")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SelfCalibration:
    """The calibration of a matcher, its fit, and its trial on held-out photos."""

    calibration: Calibration
    report: FitReport
    trust: Trust
    skipped: tuple[str, ...]  # photos that could not be used, with the reason


Tick = Callable[[int, int], None]


def _silent(done: int, total: int) -> None:
    pass


def self_calibrate(
    matcher: Matcher,
    photos: Sequence[Path],
    settings: SelfCalSettings | None = None,
    *,
    name: str = "unknown",
    cache: Path | None = None,
    begin: Callable[[str], Tick] = lambda stage: _silent,
) -> SelfCalibration:
    """Fit the error law of `matcher` on random views of `photos`.

    With a `cache` folder, finished pairs are kept there: a run that was interrupted
    goes on where it stopped. `begin` is told what begins, and gives what is told how
    much of it is done, of how much.
    """
    settings = settings or SelfCalSettings()
    usable, skipped = _usable(photos, settings.max_side, begin("Reading photos"))
    order = np.random.default_rng(settings.seed).permutation(len(usable))
    shuffled = [usable[i] for i in order][: settings.pairs]
    held_out = max(1, round(settings.held_out * len(shuffled)))
    tasks = [shuffled[i % len(shuffled)] for i in range(settings.pairs)]
    store = _Store(cache, name, settings, usable)
    pairs: dict[bool, list[Residuals]] = {False: [], True: []}
    tick = begin("Matching views")
    for i, path in enumerate(tasks):
        made = store.load(i) or store.save(i, _pair(matcher, path, i, settings))
        if len(made[0]):
            pairs[i % len(shuffled) < held_out].append(made)
        tick(i + 1, len(tasks))
    if not pairs[False] or not pairs[True]:
        raise InputError(
            f"The matcher found matches on {len(pairs[False])} of the calibration and "
            f"{len(pairs[True])} of the held-out pairs; both need some. Use more."
        )
    begin("Fitting")
    calibration, report = fit(
        pairs[False],
        location=settings.location,
        matcher=name,
        resolution=_usual_size([matches for matches, _ in pairs[False]]),
        provenance={
            "method": "random views of photos",
            "matcher": _described(matcher),
            "photos": len(usable),
            "settings": asdict(settings),
            "semisure": __version__,
            "numpy": np.__version__,
            "opencv": cv2.__version__,
        },
    )
    shared = fit_shared_error(pairs[False], calibration)
    calibration = replace(calibration, shared_error=shared)
    return SelfCalibration(
        calibration=calibration,
        report=report,
        trust=trial(observe(pairs[True]), calibration),
        skipped=tuple(skipped),
    )


def _usual_size(matched: list[Matches]) -> tuple[int, int]:
    """Median width and height of the images matched."""
    width, height = np.median([m.target_size for m in matched], axis=0)
    return int(width), int(height)


def _described(matcher: Matcher) -> str:
    """The matcher with its settings where it shows them, else its name."""
    if is_dataclass(matcher):
        return repr(matcher)
    return str(getattr(matcher, "__qualname__", type(matcher).__name__))


def _usable(
    photos: Sequence[Path], max_side: int, tick: Tick
) -> tuple[list[Path], list[str]]:
    """The photos that can be read, are large enough and show something."""
    good, skipped = [], []
    for k, path in enumerate(photos):
        tick(k, len(photos))
        try:
            photo = reduced(read_image(path), max_side)
        except FileError as error:
            skipped.append(str(error))
            continue
        if min(photo.shape[:2]) < MIN_SIDE_PX:
            skipped.append(f"{path} is smaller than {MIN_SIDE_PX} px.")
        elif photo.std() < 1.0:
            skipped.append(f"{path} is of one colour.")
        else:
            good.append(path)
    tick(len(photos), len(photos))
    if len(good) < MIN_PHOTOS:
        first = f" First: {skipped[0]}" if skipped else ""
        raise InputError(
            f"A self-calibration needs at least {MIN_PHOTOS} usable photos, better 50, "
            f"but {len(good)} of {len(photos)} are usable.{first}"
        )
    return good, skipped


def _pair(
    matcher: Matcher, path: Path, index: int, settings: SelfCalSettings
) -> Residuals:
    photo = reduced(read_image(path), settings.max_side)
    rng = np.random.default_rng([settings.seed, index])
    image0, image1, H_01 = random_pair(photo, rng, settings.warps)
    matches = matcher(image0, image1)
    errors = residual(H_01, matches)
    # A point that the truth sends beyond the horizon has no error to speak of.
    seen = np.asarray(np.isfinite(errors).all(axis=1))
    return matches.take(seen), errors[seen]


class _Store:
    """Finished pairs on disk, under a name made of all that decides them."""

    def __init__(
        self,
        folder: Path | None,
        name: str,
        settings: SelfCalSettings,
        photos: Sequence[Path],
    ) -> None:
        self.folder = None
        if folder is None:
            return
        made_of = {
            "matcher": name,
            "settings": asdict(settings),
            "photos": [[path.name, path.stat().st_size] for path in photos],
            "semisure": __version__,
        }
        text = json.dumps(made_of, sort_keys=True)
        self.folder = folder / hashlib.sha256(text.encode()).hexdigest()[:16]
        write_json(self.folder / "made_of.json", made_of)

    def _path(self, index: int) -> Path:
        assert self.folder is not None
        return self.folder / f"pair_{index:05d}.npz"

    def load(self, index: int) -> Residuals | None:
        """A stored pair, or None if there is none or its file is damaged."""
        if self.folder is None or not self._path(index).exists():
            return None
        try:
            arrays = load_arrays(self._path(index))
            return matches_from(arrays, self._path(index)), arrays["residual"]
        except (FileError, KeyError):
            return None

    def save(self, index: int, made: Residuals) -> Residuals:
        if self.folder is not None:
            save_matches(made[0], self._path(index), residual=made[1])
        return made
