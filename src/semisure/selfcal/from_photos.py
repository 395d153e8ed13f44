"""Calibration of any matcher on anyone's photos: no ground-truth data set.

Random views of each photo are matched with each other. Their homography is known, so
every match's error is known too. A share of the photos is held out to test the fitted
law.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from semisure.__about__ import __version__
from semisure.calibration import FitReport, fit, observe
from semisure.errors import FileError, InputError
from semisure.geometry.homography import true_residual
from semisure.io.atomic import write_json
from semisure.io.files import load_arrays, matches_from, save_matches
from semisure.io.images import read_image, reduced
from semisure.selfcal.held_out import Trust, trial
from semisure.selfcal.random_views import DEFAULT_WARPS, WarpSettings, random_pair
from semisure.selfcal.shared_error import fit_shared_error
from semisure.types import Calibration, Matcher, Matches, PerAxis, Tick, silent

MIN_PHOTOS = 5
MIN_SIDE_PX = 64

Residuals = tuple[Matches, PerAxis]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCalSettings:
    """The settings that decide a self-calibration; its cache is named after them."""

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


def self_calibrate(
    matcher: Matcher,
    photos: Sequence[Path],
    settings: SelfCalSettings | None = None,
    *,
    name: str = "unknown",
    cache: Path | None = None,
    begin: Callable[[str], Tick] = lambda stage: silent,
) -> SelfCalibration:
    """Fit the error law of `matcher` on random views of `photos`.

    With a `cache` folder, finished pairs are kept there: an interrupted run continues
    where it stopped. `begin` is called with the name of each stage and returns the
    stage's tick.

    >>> import tempfile
    >>> from semisure.io.images import write_png
    >>> from semisure.matchers import load_matcher
    >>> folder = Path(tempfile.mkdtemp())
    >>> rng = np.random.default_rng(0)
    >>> for k in range(5):
    ...     blocks = rng.integers(0, 255, (24, 32), np.uint8)
    ...     write_png(folder / f"{k}.png", blocks.repeat(4, 0).repeat(4, 1))
    >>> photos, settings = sorted(folder.iterdir()), SelfCalSettings(pairs=5)
    >>> result = self_calibrate(load_matcher("daisy"), photos, settings, name="daisy")
    >>> result.calibration.matcher, result.trust.pairs
    ('daisy', 1)
    """
    settings = settings or SelfCalSettings()
    usable, skipped = _usable(photos, settings.max_side, begin("Reading photos"))
    store = _Store(cache, name, settings, usable)
    fitted, held_out = _matched(
        matcher, usable, settings, store, begin("Matching views")
    )
    begin("Fitting")
    calibration, report = fit(
        fitted,
        location=settings.location,
        matcher=name,
        resolution=_usual_size([matches for matches, _ in fitted]),
        provenance=_provenance(matcher, len(usable), settings),
    )
    shared_error = fit_shared_error(fitted, calibration)
    calibration = replace(calibration, shared_error=shared_error)
    return SelfCalibration(
        calibration=calibration,
        report=report,
        trust=trial(observe(held_out), calibration),
        skipped=tuple(skipped),
    )


def _matched(
    matcher: Matcher,
    photos: Sequence[Path],
    settings: SelfCalSettings,
    store: _Store,
    tick: Tick,
) -> tuple[list[Residuals], list[Residuals]]:
    """Pairs of views to fit to, and pairs of the held-out photos.

    Photos are shuffled and used in turn; the first of that order are held out.
    """
    order = np.random.default_rng(settings.seed).permutation(len(photos))
    shuffled = [photos[i] for i in order][: settings.pairs]
    held_out_photos = max(1, round(settings.held_out * len(shuffled)))
    fitted: list[Residuals] = []
    held_out: list[Residuals] = []
    for i in range(settings.pairs):
        k = i % len(shuffled)
        pair = store.load(i) or store.save(i, _pair(matcher, shuffled[k], i, settings))
        if len(pair[0]):
            (held_out if k < held_out_photos else fitted).append(pair)
        tick(i + 1, settings.pairs)
    if not fitted or not held_out:
        raise InputError(
            f"The matcher found matches on {len(fitted)} of the calibration and "
            f"{len(held_out)} of the held-out pairs; both need some. Use more."
        )
    return fitted, held_out


def _provenance(
    matcher: Matcher, photos: int, settings: SelfCalSettings
) -> dict[str, Any]:
    return {
        "method": "random views of photos",
        "matcher": _described(matcher),
        "photos": photos,
        "settings": asdict(settings),
        "semisure": __version__,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
    }


def _usual_size(matched: list[Matches]) -> tuple[int, int]:
    """Median width and height of the matched images."""
    width, height = np.median([m.target_size for m in matched], axis=0)
    return int(width), int(height)


def _described(matcher: Matcher) -> str:
    """The matcher with its settings if it is a dataclass, else its name."""
    if is_dataclass(matcher):
        return repr(matcher)
    return str(getattr(matcher, "__qualname__", type(matcher).__name__))


def _usable(
    photos: Sequence[Path], max_side: int, tick: Tick
) -> tuple[list[Path], list[str]]:
    """The photos that can be read, are large enough and not of one colour."""
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
    return matches, true_residual(H_01, matches)


class _Store:
    """Finished pairs on disk, in a folder named after everything that decides them."""

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

    def save(self, index: int, pair: Residuals) -> Residuals:
        """Store a pair, and return it."""
        if self.folder is not None:
            save_matches(pair[0], self._path(index), residual=pair[1])
        return pair
