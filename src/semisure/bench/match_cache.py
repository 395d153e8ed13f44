"""Matches exported once into a cache of one NPZ file per image pair.

A file is named by the digest of all that its content rests on: both images, the size
they were brought to, the matcher with its settings, its weights and its own code, and
the code that reads and resizes images. A changed setting therefore looks for another
file and never finds a stale one. Files are put in place whole, and carry a digest of
their own arrays; a damaged one is made again.
"""

from __future__ import annotations

import hashlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import IO

import numpy as np

from semisure.bench.exported import (
    AnyPair,
    Exported,
    Size,
    group_of,
    images_of,
    resizing,
)
from semisure.bench.row_cache import Call, Row, remembered
from semisure.datasets.mtv import homography_by_depth
from semisure.datasets.posed import PosedPair
from semisure.errors import FileError
from semisure.io.atomic import write_atomically
from semisure.io.files import arrays_of, load_arrays
from semisure.io.images import Image, read_image, resized
from semisure.matchers import NamedMatcher, refines_source
from semisure.matchers.peers import PEER_NAMES, load_peer
from semisure.matchers.stopwatch import seconds_on_cues, synchronise
from semisure.types import Array, Matcher, Matrix3, Pair

_DIGEST = "digest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """The matcher, and the size of images: the paper brings all to one fixed size."""

    matcher: str
    size: Size | None = (1280, 960)  # None: as they are
    query_first: bool = False  # image 0 is a query and must be the refined side
    upright: bool = False  # the size is turned for images taller than wide
    max_side: int | None = None  # the matcher's limit, px; None: its own
    weights: Path | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Job:
    """One pair to be exported, and where to."""

    pair: AnyPair
    setup: Setup
    cache: Path
    fingerprint: str  # of the matcher's weights and code, and of the image reader's


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
        truth=_truth(_with_homography(job), to0, to1),
        sizes=(_size(stored["before"][0]), _size(stored["before"][1])),
        file=file,
        seconds=float(stored["seconds"]),
        processor_seconds=float(stored.get("processor_seconds", np.array(np.nan))),
        cue_seconds=(float(stored["cue_seconds"][0]), float(stored["cue_seconds"][1])),
        images=images_of(job.pair),
        size=job.setup.size,
    )


def _with_homography(job: Job) -> AnyPair:
    """The pair with the homography that its depth implies, if that is its truth."""
    pair = job.pair
    if isinstance(pair, Pair) or not pair.planar:
        return pair
    image0, image1 = images_of(pair)
    row = remembered(Call(plane_of, pair, job.cache / "rows"))
    H = np.array(row["H_01"])
    return Pair(name=pair.name, image0=image0, image1=image1, H_01=H, group=pair.scene)


def plane_of(pair: PosedPair) -> Row:
    """The homography of a pair's depth, as a row that is kept."""
    return {"H_01": homography_by_depth(pair).tolist()}


def _size(width_height: Array) -> Size:
    return int(width_height[0]), int(width_height[1])


def _truth(pair: AnyPair, to0: Matrix3, to1: Matrix3) -> Matrix3 | PosedPair | None:
    """The truth between the images at the size they were brought to."""
    if isinstance(pair, Pair):
        if pair.H_01 is None:
            return None
        return to1 @ pair.H_01 @ np.linalg.inv(to0)
    a, b = pair.camera0, pair.camera1
    return replace(
        pair, camera0=replace(a, K=to0 @ a.K), camera1=replace(b, K=to1 @ b.K)
    )


def peak_memory(job: Job) -> float | None:
    """Most memory, in bytes, that this process had after matching the pair.

    For a fresh process; None where the system does not tell.
    """
    _match(job)
    return _peak_bytes()


def _peak_bytes() -> float | None:
    """Most memory that this process had; Linux knows it apart from its parent's."""
    status = Path("/proc/self/status")
    if status.exists():
        # ru_maxrss would begin with what the parent had when it started this process.
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return 1024.0 * int(line.split()[1])
    try:
        import resource
    except ImportError:  # Windows
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    return float(unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)


def _match(job: Job) -> dict[str, Array]:
    images = [read_image(path) for path in images_of(job.pair)]
    small = [_brought(image, job.setup) for image in images]
    matcher = _matcher(job.setup)
    start, begun = time.perf_counter(), time.process_time()
    cues = seconds_on_cues()
    if _turned(job.setup):
        matches = matcher(small[1], small[0]).swapped()
    else:
        matches = matcher(small[0], small[1])
    synchronise()
    seconds, computed = time.perf_counter() - start, time.process_time() - begun
    spent = seconds_on_cues()
    arrays = arrays_of(matches)
    arrays["before"] = np.array([image.shape[1::-1] for image in images])
    arrays["after"] = np.array([image.shape[1::-1] for image in small])
    arrays["seconds"] = np.array(seconds)
    arrays["processor_seconds"] = np.array(computed)
    arrays["cue_seconds"] = np.array([spent[k] - cues[k] for k in ("coarse", "fine")])
    return arrays


def _brought(image: Image, setup: Setup) -> Image:
    """The image at the size asked for."""
    if setup.size is None:
        return image
    tall = setup.upright and image.shape[0] > image.shape[1]
    return resized(image, setup.size[::-1] if tall else setup.size)


def _turned(setup: Setup) -> bool:
    """True where the images must be swapped for the query to be refined."""
    if not setup.query_first or setup.matcher in PEER_NAMES:
        return False
    return not refines_source(setup.matcher)


@lru_cache(maxsize=1)
def _peer(name: str, max_side: int | None, device: str | None) -> Matcher:
    return load_peer(name, max_side=max_side, device=device)


def _matcher(setup: Setup) -> Matcher:
    if setup.matcher in PEER_NAMES:
        return _peer(setup.matcher, setup.max_side, setup.device)
    return NamedMatcher(
        setup.matcher, setup.max_side, setup.device, setup.weights
    ).loaded()


def _file(job: Job) -> Path:
    setup = job.setup
    ingredients = {
        "images": [_image_digest(p) for p in images_of(job.pair)],
        "matcher": setup.matcher,
        "size": setup.size,
        "max_side": setup.max_side,
        "device": setup.device,
        "fingerprint": job.fingerprint,
    }
    if _turned(setup):
        ingredients["turned"] = True
    if setup.upright and setup.size is not None:
        ingredients["upright"] = True
    text = json.dumps(ingredients, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()[:24]
    return job.cache / setup.matcher / f"{key}.npz"


def _image_digest(path: Path) -> str:
    try:
        stat = path.stat()
        return _digest_of(path, stat.st_size, stat.st_mtime_ns)
    except OSError:
        raise FileError(f"There is no image {path}.") from None


@lru_cache(maxsize=4096)
def _digest_of(path: Path, size: int, modified_ns: int) -> str:
    """Made once a process for a file that has not changed: it has many pairs."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(arrays: dict[str, Array]) -> Array:
    whole = hashlib.sha256()
    for name in sorted(arrays.keys() - {_DIGEST}):
        array = np.ascontiguousarray(arrays[name])
        whole.update(f"{name} {array.dtype.str} {array.shape}".encode())
        whole.update(array.tobytes())
    return np.frombuffer(whole.digest(), np.uint8)


def _save(file: Path, arrays: dict[str, Array]) -> None:
    whole = {**arrays, _DIGEST: _digest(arrays)}
    write_atomically(file, lambda out: _compress(out, whole))


def _compress(out: IO[bytes], arrays: dict[str, Array]) -> None:
    # NumPy's stubs take the second argument for `allow_pickle`.
    save: Callable[..., None] = np.savez_compressed
    save(out, **arrays)


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
