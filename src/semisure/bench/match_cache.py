"""Matches exported once into a cache of one NPZ file per image pair.

A file is named by the digest of all that its content rests on: both images, the size
they were brought to, the matcher with its settings, its weights and our code. A changed
setting therefore looks for another file and never finds a stale one. Files are put in
place whole, and carry a digest of their own arrays; a damaged one is made again.
"""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from semisure.datasets.posed import PosedPair
from semisure.errors import FileError
from semisure.geometry.homography import project
from semisure.io.atomic import write_atomically
from semisure.io.files import arrays_of, load_arrays, matches_from
from semisure.io.images import read_image, resized
from semisure.matchers import load_matcher, refines_source
from semisure.matchers._stopwatch import seconds_on_cues
from semisure.types import Array, FloatArray, Matcher, Matches, Pair

_DIGEST = "digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """Who matches, and at what size: the paper brings images to one fixed size."""

    matcher: str
    size: tuple[int, int] | None = (1280, 960)  # None: as they are
    query_first: bool = False  # image 0 is a query and must be the refined side
    max_side: int | None = None  # of what the matcher looks at; None: its own
    weights: Path | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Job:
    """One pair to be exported, and where to."""

    pair: Pair | PosedPair
    setup: Setup
    cache: Path
    fingerprint: str  # of the matcher's weights and code


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Exported:
    """A pair whose matches are in the cache."""

    name: str
    group: str  # pairs that share an image: never split by cross-validation
    truth: FloatArray | PosedPair | None  # between the images as they were matched
    sizes: tuple[tuple[int, int], tuple[int, int]]  # of the images before
    file: Path
    seconds: float  # of matching, when it was done
    cue_seconds: float  # of these, on what only the cues need
    images: tuple[Path, Path]
    size: tuple[int, int] | None  # that they were brought to

    def matches(self) -> Matches:
        return stored_matches(self.file)

    @property
    def H_01(self) -> FloatArray:
        """The true homography."""
        assert isinstance(self.truth, np.ndarray)
        return self.truth


def stored_matches(file: Path) -> Matches:
    """The matches in a file of the cache."""
    return matches_from(load_arrays(file), file)


def export(job: Job) -> Exported:
    """Match a pair unless the cache has it."""
    file = _file(job)
    stored = _load(file)
    if stored is None:
        stored = _match(job)
        _save(file, stored)
    to0, to1 = (
        resizing(before, after)
        for before, after in zip(stored["before"], stored["after"], strict=True)
    )
    return Exported(
        name=job.pair.name,
        group=group_of(job.pair),
        truth=_truth(job.pair, to0, to1),
        sizes=tuple((int(w), int(h)) for w, h in stored["before"]),  # type: ignore[arg-type]
        file=file,
        seconds=float(stored["seconds"]),
        cue_seconds=float(stored["cue_seconds"]),
        images=images_of(job.pair),
        size=job.setup.size,
    )


def attempt(job: Job) -> Exported | FileError:
    """The same, where a file that cannot be read is an answer: the others go on."""
    try:
        return export(job)
    except FileError as error:
        return error


def _truth(
    pair: Pair | PosedPair, to0: FloatArray, to1: FloatArray
) -> FloatArray | PosedPair | None:
    if isinstance(pair, Pair):
        if pair.H_01 is None:
            return None
        return to1 @ pair.H_01 @ np.linalg.inv(to0)
    a, b = pair.camera0, pair.camera1
    return replace(
        pair, camera0=replace(a, K=to0 @ a.K), camera1=replace(b, K=to1 @ b.K)
    )


def images_of(pair: Pair | PosedPair) -> tuple[Path, Path]:
    if isinstance(pair, Pair):
        return pair.image0, pair.image1
    return pair.camera0.image, pair.camera1.image


def group_of(pair: Pair | PosedPair) -> str:
    """The sequence of a planar pair; the whole scene of a posed one."""
    if isinstance(pair, Pair):
        return pair.group or "/".join(pair.image0.parts[-2:])
    return pair.scene


def _match(job: Job) -> dict[str, Array]:
    images = [read_image(path) for path in images_of(job.pair)]
    size = job.setup.size
    small = images if size is None else [resized(image, size) for image in images]
    matcher = _matcher(job.setup)
    start, cues = time.perf_counter(), seconds_on_cues()
    if _turned(job.setup):
        matches = matcher(small[1], small[0]).swapped()
    else:
        matches = matcher(small[0], small[1])
    seconds = time.perf_counter() - start
    arrays = arrays_of(matches)
    arrays["before"] = np.array([image.shape[1::-1] for image in images])
    arrays["after"] = np.array([image.shape[1::-1] for image in small])
    arrays["seconds"] = np.array(seconds)
    arrays["cue_seconds"] = np.array(seconds_on_cues() - cues)
    return arrays


def _turned(setup: Setup) -> bool:
    return setup.query_first and not refines_source(setup.matcher)


@lru_cache(maxsize=1)
def _matcher(setup: Setup) -> Matcher:
    return load_matcher(
        setup.matcher,
        max_side=setup.max_side,
        weights=setup.weights,
        device=setup.device,
    )


def resizing(before: FloatArray, after: FloatArray) -> FloatArray:
    """The map of pixel centres from one image size to another, (p + 0.5) s − 0.5.

    >>> resizing(np.array([100, 50]), np.array([200, 50])) @ [0, 0, 1]
    array([0.5, 0. , 1. ])
    """
    s = np.asarray(after, dtype=np.float64) / np.asarray(before, dtype=np.float64)
    H = np.diag([s[0], s[1], 1.0])
    H[:2, 2] = 0.5 * s - 0.5
    return H


def moved(
    points: FloatArray, before: tuple[int, int], after: tuple[int, int]
) -> FloatArray:
    """Points of an image of one size, in pixels of the same at another."""
    return project(resizing(np.array(before), np.array(after)), points)


def _file(job: Job) -> Path:
    setup = job.setup
    made_of = {
        "images": [_image_digest(p) for p in images_of(job.pair)],
        "matcher": setup.matcher,
        "size": setup.size,
        "max_side": setup.max_side,
        "device": setup.device,
        "fingerprint": job.fingerprint,
    }
    if _turned(setup):
        made_of["turned"] = True
    text = json.dumps(made_of, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:24]
    return job.cache / setup.matcher / f"{key}.npz"


def _image_digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        raise FileError(f"There is no image {path}.") from None


def _digest(arrays: dict[str, Array]) -> Array:
    whole = hashlib.sha256()
    for name in sorted(arrays.keys() - {_DIGEST}):
        array = np.ascontiguousarray(arrays[name])
        whole.update(f"{name} {array.dtype.str} {array.shape}".encode())
        whole.update(array.tobytes())
    return np.frombuffer(whole.digest(), np.uint8)


def _save(file: Path, arrays: dict[str, Array]) -> None:
    whole = {**arrays, _DIGEST: _digest(arrays)}
    write_atomically(file, lambda out: np.savez_compressed(out, **whole))  # type: ignore[arg-type]


def _load(file: Path) -> dict[str, Array] | None:
    """The arrays of a file, or None if it is not there, or not as it was written."""
    if not file.exists():
        return None
    try:
        arrays = load_arrays(file)
    except FileError:
        return None
    stored = arrays.get(_DIGEST)
    whole = stored is not None and np.array_equal(stored, _digest(arrays))
    return arrays if whole else None
