"""Pairs whose matches are kept on disk, each with its truth at the matches' size.

Matches are exported once, into one NPZ file per image pair, whose name is the digest of
both images, the size they were resized to, the matcher with its settings, weights and
code, and the code that reads and resizes images.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

import numpy as np

from semisure.bench.options import Options
from semisure.datasets.mtv import homography_by_depth
from semisure.datasets.posed import PosedPair, depth_residual
from semisure.errors import FileError
from semisure.geometry.homography import project, true_residual
from semisure.io.cache import digest, kept_arrays, kept_row, key_of, room
from semisure.io.files import arrays_of, load_arrays, matches_from
from semisure.io.images import Image, read_image, resized
from semisure.matchers import NamedMatcher, fingerprint, refines_source
from semisure.matchers.stopwatch import seconds_on_cues, synchronise
from semisure.types import Array, Matches, Matrix3, Pair, PerAxis, Points
from semisure.types.checks import within_px

AnyPair: TypeAlias = Pair | PosedPair
Size: TypeAlias = tuple[int, int]  # width, height


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Exported:
    """A pair whose matches are on disk."""

    name: str
    group: str  # pairs that share an image: never split by cross-validation
    truth: Matrix3 | PosedPair | None  # between the images as they were matched
    sizes: tuple[Size, Size]  # of the images before resizing
    file: Path
    seconds: float  # of matching, measured when it ran
    cue_seconds: tuple[float, float]  # of these, on the cues: coarse and fine
    images: tuple[Path, Path]
    size: Size | None  # that they were resized to

    def matches(self) -> Matches:
        return stored_matches(self.file)

    @property
    def H_01(self) -> Matrix3:
        """The true homography."""
        assert isinstance(self.truth, np.ndarray)
        return self.truth


def stored_matches(file: Path) -> Matches:
    """The matches in a file of the cache."""
    return matches_from(load_arrays(file), file)


def with_truth(exported: Exported) -> tuple[Matches, PerAxis]:
    """The matches with a finite true residual, and those residuals.

    Residuals by depth maps, which are slow to read, are kept beside the matches.
    """
    matches, truth = exported.matches(), exported.truth
    if isinstance(truth, PosedPair):
        key = key_of(truth, digest(room("datasets")))
        file = exported.file.with_name(f"{exported.file.stem}-{key}.npz")
        kept = kept_arrays(file, lambda: {"px": residual_of(exported, matches)})
        residual = kept["px"]
    else:
        residual = residual_of(exported, matches)
    finite = within_px(residual)
    return matches.take(finite), residual[finite]


def residual_of(exported: Exported, matches: Matches) -> PerAxis:
    """True residuals, px, of any matches of the pair; NaN where unknown."""
    if isinstance(exported.truth, PosedPair):
        return depth_residual(exported.truth, matches)
    return true_residual(exported.H_01, matches)


def images_of(pair: AnyPair) -> tuple[Path, Path]:
    """The files of both images."""
    if isinstance(pair, Pair):
        return pair.image0, pair.image1
    return pair.camera0.image, pair.camera1.image


def group_of(pair: AnyPair) -> str:
    """The sequence of a planar pair; the whole scene of a posed one."""
    if isinstance(pair, Pair):
        return pair.group or "/".join(pair.image0.parts[-2:])
    return pair.scene


def resizing(before: Size, after: Size) -> Matrix3:
    """The map of pixel centres from one image size to another, (p + 0.5) s − 0.5.

    >>> resizing((100, 50), (200, 50)) @ [0, 0, 1]
    array([0.5, 0. , 1. ])
    """
    s = np.array(after, dtype=np.float64) / np.array(before, dtype=np.float64)
    H = np.diag([s[0], s[1], 1.0])
    H[:2, 2] = 0.5 * s - 0.5
    return H


def moved(points: Points, before: Size, after: Size) -> Points:
    """Points of an image of one size, in pixels of the same image at another."""
    return project(resizing(before, after), points)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MatchJob:
    """A pair to be matched, and where its matches are kept.

    For queries the images are swapped if the matcher refines image 1, and the size is
    rotated for images taller than wide.
    """

    pair: AnyPair
    matcher: NamedMatcher
    size: Size | None  # the paper brings all images to one; None: as they are
    for_queries: bool
    cache: Path
    code: str  # digest of the matcher's weights and code, and of the image reader

    @property
    def swapped(self) -> bool:
        return self.for_queries and not refines_source(self.matcher.name)


def jobs_of(
    options: Options,
    matcher: str,
    pairs: Sequence[tuple[AnyPair, Size | None]],
    *,
    for_queries: bool = False,
) -> list[MatchJob]:
    """A job for each pair at its size; None leaves the images as they are."""
    code = key_of(fingerprint(matcher, options.weights))
    named = NamedMatcher(matcher, device=options.device, weights=options.weights)
    return [
        MatchJob(
            pair=pair,
            matcher=named,
            size=size,
            for_queries=for_queries,
            cache=options.cache,
            code=code,
        )
        for pair, size in pairs
    ]


def export(job: MatchJob) -> Exported | FileError:
    """The pair, matched unless its matches are kept.

    An unreadable file is returned as an error, not raised.
    """
    images, name = images_of(job.pair), job.matcher.name
    setup = name, job.matcher.device, job.code
    key = key_of(images, setup, job.size, job.swapped, job.for_queries)
    file = job.cache / name / f"{key}.npz"
    try:
        stored = kept_arrays(file, partial(_match, job))
        pair = _with_homography(job)
    except FileError as error:
        return error
    before, after = stored["before"].tolist(), stored["after"].tolist()
    coarse, fine = stored["cue_seconds"].tolist()
    return Exported(
        name=pair.name,
        group=group_of(pair),
        truth=_truth(pair, *map(resizing, before, after)),
        sizes=(tuple(before[0]), tuple(before[1])),
        file=file,
        seconds=float(stored["seconds"]),
        cue_seconds=(coarse, fine),
        images=images,
        size=job.size,
    )


def _match(job: MatchJob) -> dict[str, Array]:
    images = [read_image(path) for path in images_of(job.pair)]
    small = [_resized(image, job) for image in images]
    matcher, cues = job.matcher.loaded(), seconds_on_cues()
    begin = time.perf_counter()
    matches = matcher(small[1], small[0]).swapped() if job.swapped else matcher(*small)
    synchronise()
    seconds, spent = time.perf_counter() - begin, seconds_on_cues()
    return {
        **arrays_of(matches),
        "before": np.array([image.shape[1::-1] for image in images]),
        "after": np.array([image.shape[1::-1] for image in small]),
        "seconds": np.array(seconds),
        "cue_seconds": np.array([spent[k] - cues[k] for k in ("coarse", "fine")]),
    }


def _resized(image: Image, job: MatchJob) -> Image:
    """The image at the size of the job."""
    if job.size is None:
        return image
    tall = job.for_queries and image.shape[0] > image.shape[1]
    return resized(image, job.size[::-1] if tall else job.size)


def _with_homography(job: MatchJob) -> AnyPair:
    """The pair with the homography that its depth implies, if that is its truth."""
    pair = job.pair
    if isinstance(pair, Pair) or not pair.planar:
        return pair
    key = key_of("homography", pair, digest(room("datasets")))
    file = job.cache / "rows" / f"{key}.json"
    row = kept_row(file, lambda: {"H_01": homography_by_depth(pair).tolist()})
    image0, image1 = images_of(pair)
    H_01, group = np.array(row["H_01"]), pair.scene
    return Pair(name=pair.name, image0=image0, image1=image1, H_01=H_01, group=group)


def _truth(pair: AnyPair, to0: Matrix3, to1: Matrix3) -> Matrix3 | PosedPair | None:
    """The truth between the images at the size they were resized to."""
    if isinstance(pair, Pair):
        return None if pair.H_01 is None else to1 @ pair.H_01 @ np.linalg.inv(to0)
    a, b = pair.camera0, pair.camera1
    return replace(
        pair, camera0=replace(a, K=to0 @ a.K), camera1=replace(b, K=to1 @ b.K)
    )
