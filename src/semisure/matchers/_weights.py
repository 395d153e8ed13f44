"""Weights files: located and verified; `_download` fetches them.

Looked for in this order: a path that the user names; the caches of semisure, torch and
the Hugging Face hub; an installed package that carries them; the official download.
What is fetched must have the SHA-256 written here, or where none is, the one that the
hub itself publishes for the file; that one is kept beside the file and checked at every
later use. A file that is known by git's name for its content, a SHA-1, has that
checked. Files that other programs put into their caches are verified where they carry
a SHA-256, and said to be unverified where they do not.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from semisure.errors import FileError
from semisure.io.cache import cache_folder, user_cache
from semisure.matchers._download import (
    QUIET_VARIABLE,
    download,
    hub_endpoint,
    record_of,
    verify,
)
from semisure.types import Tick

logger = logging.getLogger(__name__)

_SHA256 = "[0-9a-f]{64}"


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
    git_blob: str = ""  # git's name for the content, where there is no SHA-256
    terms: str = ""  # to which the user must say yes before the file is fetched,
    matcher: str = ""  # by `semisure fetch` and this name
    size: int = 0  # bytes; 0: the hub knows it
    about: int = 0  # bytes, for a listing where the size is not written here
    package: tuple[str, str, str] | None = None  # pip name, module, path inside it

    @property
    def address(self) -> str:
        """Where the file itself is."""
        if not self.hub:
            return self.url
        name = self.hub_filename or self.filename
        return f"{hub_endpoint()}/{self.hub}/resolve/main/{name}"

    @property
    def source(self) -> str:
        """Where it comes from, in short."""
        if self.hub:
            return f"huggingface.co/{self.hub}"
        return (self.url.split("/raw/")[0] or self.page).removeprefix("https://")


def locate(weights: Weights) -> tuple[Path, str] | None:
    """A file that is on this machine, and the name of its place; None without one."""
    for path, place in _places(weights):
        if path.is_file():
            return path, place
    return None


def _places(weights: Weights) -> Iterator[tuple[Path, str]]:
    yield cache_folder() / weights.filename, "cache"
    user = user_cache()
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
    weights: Weights,
    path: str | Path | None = None,
    tick: Tick | None = None,
    *,
    accept_terms: bool = False,
) -> Path:
    """A verified weights file, downloaded if it must be.

    A file that the user names is taken as it is; one found on this machine whose
    SHA-256 nobody states is taken too, and the log says that it was not verified.
    """
    if path is not None:
        chosen = Path(path)
        if not chosen.is_file():
            raise FileError(f"There is no weights file {chosen}.")
        return chosen
    local = locate(weights)
    if local is None:
        if weights.terms and not accept_terms:
            raise FileError(
                f"{weights.filename} is not on this machine, and its terms ask for "
                f"your consent. Run: semisure fetch {weights.matcher}"
            )
        return download(weights, cache_folder() / weights.filename, tick)
    file, place = local
    sha256 = weights.sha256 or stated_sha256(file)
    if sha256 or weights.git_blob:
        verify(file, replace(weights, sha256=sha256))
    elif not os.environ.get(QUIET_VARIABLE):
        logger.warning(
            "%s, found in %s, was not verified: nothing states its SHA-256.",
            file,
            place,
        )
    return file


def stated_sha256(path: Path) -> str:
    """The SHA-256 kept beside a file, or in the name that the hub's cache gave it."""
    record = record_of(path)
    if not record.is_file():
        blob = path.resolve().name
        return blob if re.fullmatch(_SHA256, blob) else ""
    try:
        words = record.read_text("ascii").split()
    except (OSError, UnicodeDecodeError):
        words = []
    if not words or not re.fullmatch(_SHA256, words[0]):
        raise FileError(
            f"{record} must hold the SHA-256 of {path.name}, but does not. Delete "
            "both and run again."
        )
    return words[0]


def has_sha256(path: Path) -> bool:
    """Whether something states what the file must be, soundly or not."""
    return record_of(path).is_file() or bool(stated_sha256(path))
