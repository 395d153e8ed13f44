"""Calibration of any matcher on any photos, without ground truth.

Random views of each photo are matched with each other. Their homography is known, so
every match's error is known too. A share of the photos is held out to test the fitted
law.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias

import cv2
import numpy as np

from semisure.__about__ import __version__
from semisure.calibrate.held_out import Trust, trial, tried
from semisure.calibrate.random_views import DEFAULT_WARPS, WarpSettings, random_pair
from semisure.engine import HERE, Engine, in_order
from semisure.errors import FileError, InputError
from semisure.geometry.homography import true_residual
from semisure.io.cache import kept_arrays, key_of
from semisure.io.files import arrays_of, matches_from
from semisure.io.images import find_images, read_image, reduced
from semisure.law.fit_law import FitReport, fit
from semisure.law.observations import observe
from semisure.matchers import NamedMatcher, identity, load_matcher, name_of
from semisure.types import Calibration, Matcher, Matches, PerAxis, Tick
from semisure.types.display import Begin, quietly

MIN_PHOTOS = 5
MIN_SIDE_PX = 64

Photos: TypeAlias = str | PathLike[str] | Sequence[str | PathLike[str]]
Residuals: TypeAlias = tuple[Matches, PerAxis]  # NaN where the truth is unknown
# A pair to be matched: a dataclass, by whose fields its matches are kept.
PairJob: TypeAlias = Callable[[Matcher], Residuals]


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfCalSettings:
    """The settings that decide a self-calibration."""

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
    """The calibration of a matcher, its fit, and its trial on what was held out."""

    calibration: Calibration
    report: FitReport
    trust: Trust
    skipped: tuple[str, ...]  # photos and pairs that were left out, with the reason


def self_calibrate(
    matcher: Matcher | str,
    photos: Photos,
    settings: SelfCalSettings | None = None,
    *,
    name: str | None = None,
    cache: Path | None = None,
    engine: Engine = HERE,
    begin: Begin = quietly,
) -> SelfCalibration:
    """Fit the error law of `matcher` on random views of `photos`.

    The matcher may be a built-in name; the photos are files, or a folder of them.
    With a `cache` folder, finished pairs are kept there: an interrupted run continues
    where it stopped. A callable of your own must then have an attribute
    ``fingerprint``, a text that changes whenever its answers do. Another `engine` than
    this process needs a matcher that can be pickled, such as
    :class:`semisure.matchers.NamedMatcher`. `begin` is called with the name of
    each stage and returns the stage's tick.

    >>> import tempfile
    >>> from semisure.io.images import write_png
    >>> folder = Path(tempfile.mkdtemp())
    >>> rng = np.random.default_rng(0)
    >>> for k in range(5):
    ...     blocks = rng.integers(0, 255, (24, 32), np.uint8)
    ...     write_png(folder / f"{k}.png", blocks.repeat(4, 0).repeat(4, 1))
    >>> result = self_calibrate("daisy", folder, SelfCalSettings(pairs=5))
    >>> result.calibration.matcher, result.trust.pairs
    ('daisy', 1)
    """
    settings = settings or SelfCalSettings()
    if isinstance(matcher, str):
        matcher = load_matcher(matcher)
    views = match_views(
        matcher, photo_files(photos), settings, cache=cache, engine=engine, begin=begin
    )
    begin("Fitting")
    calibration, report = fit(
        views.fitted,
        location=settings.location,
        matcher=name or name_of(matcher) or "unknown",
        resolution=usual_size([matches for matches, _ in views.fitted]),
        provenance={
            "method": "random views of photos",
            "matcher": described(matcher),
            "photos": views.photos,
            "settings": asdict(settings),
            **versions(),
        },
    )
    return tested(calibration, report, views.held_out, views.skipped)


def tested(
    calibration: Calibration,
    report: FitReport,
    held_out: Sequence[Residuals],
    skipped: Sequence[str],
) -> SelfCalibration:
    """A fit with its trial on what was held out."""
    trust = trial(observe(held_out), calibration)
    return SelfCalibration(
        calibration=tried(calibration, trust),
        report=report,
        trust=trust,
        skipped=tuple(skipped),
    )


def photo_files(photos: Photos) -> list[Path]:
    """The images in a folder, or the files that were named."""
    if isinstance(photos, str | PathLike):
        return find_images(Path(photos))
    return [Path(photo) for photo in photos]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Views:
    """Random views of photos, matched, with their exact residuals."""

    fitted: list[Residuals]
    held_out: list[Residuals]
    photos: int
    skipped: tuple[str, ...]  # photos that could not be used, with the reason


def match_views(
    matcher: Matcher,
    photos: Sequence[Path],
    settings: SelfCalSettings,
    *,
    cache: Path | None = None,
    engine: Engine = HERE,
    begin: Begin = quietly,
) -> Views:
    """Random views of `photos`, matched; finished pairs are kept in `cache`.

    Photos are shuffled and used in turn; the first of that order are held out.
    """
    usable, skipped = _usable(photos, settings.max_side, begin("Reading photos"))
    order = np.random.default_rng(settings.seed).permutation(len(usable))
    shuffled = [usable[i] for i in order][: settings.pairs]
    jobs = [
        ViewsOfPhoto(shuffled[k % len(shuffled)], k, settings)
        for k in range(settings.pairs)
    ]
    pairs = match_all(jobs, matcher, cache, engine, begin("Matching views"))
    tested = max(1, round(settings.held_out * len(shuffled)))
    fitted: list[Residuals] = []
    held_out: list[Residuals] = []
    for k, pair in enumerate(pairs):
        if len(pair[0]):
            (held_out if k % len(shuffled) < tested else fitted).append(pair)
    if not fitted or not held_out:
        raise InputError(
            f"The matcher found matches on {len(fitted)} of the calibration and "
            f"{len(held_out)} of the held-out pairs; both need some. Use more."
        )
    return Views(
        fitted=fitted, held_out=held_out, photos=len(usable), skipped=tuple(skipped)
    )


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
        else:
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


@dataclass(frozen=True, slots=True)
class ViewsOfPhoto:
    """Two random views of a photo, drawn by the number of their pair."""

    photo: Path
    number: int
    settings: SelfCalSettings

    def __call__(self, matcher: Matcher) -> Residuals:
        settings = self.settings
        photo = reduced(read_image(self.photo), settings.max_side)
        rng = np.random.default_rng([settings.seed, self.number])
        image0, image1, H_01 = random_pair(photo, rng, settings.warps)
        matches = matcher(image0, image1)
        return matches, true_residual(H_01, matches)


def match_all(
    jobs: Sequence[PairJob],
    matcher: Matcher,
    cache: Path | None,
    engine: Engine,
    tick: Tick,
) -> list[Residuals]:
    """The matches of each job with their residuals; `cache` keeps what is done."""
    key = None if cache is None else identity(matcher)
    if cache is not None and key is None:
        raise InputError(
            "A cache needs a text that identifies the matcher's answers, but "
            f"{described(matcher)} has none: give it an attribute `fingerprint`, "
            "a text that changes with its weights and settings, or leave out the cache."
        )
    work = partial(_matched, matcher=matcher, cache=cache, key=key)
    return in_order(engine, work, jobs, tick)


def _matched(
    job: PairJob, matcher: Matcher, cache: Path | None, key: dict[str, str] | None
) -> Residuals:
    """What a worker does with a job."""
    if cache is None:
        return job(matcher)

    def answer() -> dict[str, Any]:
        matches, residual = job(matcher)
        return {**arrays_of(matches), "residual": residual}

    file = cache / f"{key_of(__version__, key, job)}.npz"
    arrays = kept_arrays(file, answer)
    return matches_from(arrays, file), arrays["residual"]


def described(matcher: Matcher) -> str:
    """The matcher with its settings if it is a dataclass, else its name."""
    if isinstance(matcher, NamedMatcher):
        matcher = matcher.loaded()
    if is_dataclass(matcher):
        return repr(matcher)
    return str(getattr(matcher, "__qualname__", type(matcher).__name__))


def versions() -> dict[str, str]:
    """The versions that a calibration depends on, for its provenance."""
    return {
        "semisure": __version__,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
    }


def usual_size(matched: Sequence[Matches]) -> tuple[int, int]:
    """Median width and height of the matched images."""
    width, height = np.median([m.target_size for m in matched], axis=0)
    return int(width), int(height)
