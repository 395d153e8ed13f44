"""Where the matches of a query and a mapped image come from: images, a store, hloc.

Every source can be sent to a worker process, if its matcher can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias, runtime_checkable

from semisure.errors import FileError, InputError
from semisure.io import hloc
from semisure.io.images import Image, read_image
from semisure.io.shards import as_stored
from semisure.io.store import Manifest, Store
from semisure.matchers import identity
from semisure.types import Matcher, Matches
from semisure.types.pair_records import PairRecord

# Matches of a query and a mapped image by their names, the query's points first.
Source: TypeAlias = Callable[[str, str], Matches]
HDF5_SUFFIXES = (".h5", ".hdf5")  # of hloc's files; all else is a store


@runtime_checkable
class Keeps(Protocol):
    """A source that gathers what it matched until a query is done."""

    def keep(self) -> None: ...


class QueryFirst:
    """A matcher called so that the query, its first image, is the refined side.

    Matchers differ in which image they refine; the first matches show which one it is.
    One that refines both is not turned: lifting converts the other matches.
    """

    def __init__(self, matcher: Matcher) -> None:
        self.matcher = matcher
        self.turned: bool | None = None

    def __call__(self, query: Image, mapped: Image) -> Matches:
        if self.turned is None:
            matches = self.matcher(query, mapped)
            if len(matches):
                self.turned = bool((matches.side == 1).all())
            if not self.turned:
                return matches
        if self.turned:
            return self.matcher(mapped, query).swapped()
        return self.matcher(query, mapped)


class FromImages:
    """Matches of image files in two folders; keeps the last query in memory."""

    def __init__(
        self, folder: str | Path, query_folder: str | Path, matcher: Matcher
    ) -> None:
        self._folder, self._query_folder = Path(folder), Path(query_folder)
        self._match = QueryFirst(matcher)

    def __call__(self, query: str, mapped: str) -> Matches:
        image = _query_image(self._query_folder / query)
        return self._match(image, read_image(self._folder / mapped))


@lru_cache(maxsize=1)
def _query_image(path: Path) -> Image:
    return read_image(path)


def from_images(
    folder: str | Path, query_folder: str | Path, matcher: Matcher
) -> Source:
    """Matches of image files in two folders."""
    return FromImages(folder, query_folder, matcher)


def from_store(path: str | Path) -> Source:
    """Matches that were written before: a store, or a file of hloc's."""
    if is_hdf5(path):
        return FromFile(path)
    return FromStore(str(path))


def is_hdf5(path: str | Path) -> bool:
    """Whether a path is a file of hloc's, by its name."""
    return Path(path).suffix.lower() in HDF5_SUFFIXES


@dataclass(frozen=True, slots=True)
class FromFile:
    """Matches in a file of hloc's."""

    path: str | Path

    def __call__(self, query: str, mapped: str) -> Matches:
        return hloc.read_matches(self.path, query, mapped)


class FromStore:
    """Matches in a store, whichever image of a pair comes first there."""

    def __init__(self, name: str) -> None:
        self.name, self.store = name, Store.at(name)

    def __reduce__(self) -> tuple[type, tuple[str]]:
        """For worker processes, which open the store themselves."""
        return type(self), (self.name,)

    def __call__(self, query: str, mapped: str) -> Matches:
        matches = self.find(query, mapped)
        if matches is None:
            raise FileError(f"{self.name} has no matches of {query} and {mapped}.")
        return matches

    def find(self, query: str, mapped: str) -> Matches | None:
        """The matches, or None where there are none."""
        record = self.store.record(query, mapped)
        if record is not None and record.matches is not None:
            return record.matches
        record = self.store.record(mapped, query)
        if record is not None and record.matches is not None:
            return record.matches.swapped()
        return None


@dataclass(slots=True)
class KeptMatches:
    """Matches of a store, which gets those that it lacks, a query's at a time."""

    source: Source
    stored: FromStore
    _new: list[PairRecord] = field(default_factory=list)

    def __call__(self, query: str, mapped: str) -> Matches:
        matches = self.stored.find(query, mapped)
        if matches is None:
            matches = as_stored(self.source(query, mapped))
            self._new.append(
                PairRecord(
                    image0=query,
                    image1=mapped,
                    state="matched",
                    match_count=len(matches),
                    matches=matches,
                )
            )
        return matches

    def keep(self) -> None:
        """Put what was matched since into the store, as one shard."""
        if self._new:
            store = self.stored.store
            pairs = [record.names for record in self._new]
            store.write(store.shard_of(pairs, {}), self._new)
            self._new.clear()


def stored(
    source: Source, path: str | Path, made_of: str = "", *, matcher: Any = None
) -> Source:
    """The same matches, each pair kept in a store or a file of hloc's, and read there.

    Pairs of a file that say they were made of something else are matched again; a
    store that was made by another `matcher` is refused.
    """
    if is_hdf5(path):
        return _KeptInFile(source, path, made_of)
    decided_by = None if matcher is None else identity(matcher)
    _check_matcher(path, decided_by)
    return KeptMatches(source, FromStore(str(path)))


def _check_matcher(path: str | Path, decided_by: dict[str, str] | None) -> None:
    """Begin the store if it is not there; refuse one of another matcher."""
    recipe: dict[str, Any] = {"matcher": decided_by, "geometry": None}
    try:
        known = Store.at(path).manifest.recipe.get("matcher") or {}
    except FileError:
        Store.made(path, Manifest(recipe=recipe))
        return
    for name in ("weights", "code", "fingerprint"):
        if decided_by is not None and known.get(name) != decided_by.get(name):
            raise InputError(
                f"{path} holds matches by other {name} of the matcher. Give another "
                "--matches, or leave out --images to use these matches as they are."
            )


@dataclass(frozen=True, slots=True)
class _KeptInFile:
    """Matches of a file of hloc's, which gets those that it lacks."""

    source: Source
    path: str | Path
    made_of: str

    def __call__(self, query: str, mapped: str) -> Matches:
        if hloc.has_matches(self.path, query, mapped, self.made_of):
            return hloc.read_matches(self.path, query, mapped)
        matches = self.source(query, mapped)
        hloc.write_matches(self.path, query, mapped, matches, self.made_of)
        return matches
