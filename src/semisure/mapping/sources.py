"""Where the matches of a query and a mapped image come from: images, or a store.

Every source can be sent to a worker process, if its matcher can.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

from semisure.errors import FileError, InputError
from semisure.io.images import Image, read_image
from semisure.matchers import identity
from semisure.types import Matcher, Matches
from semisure.types.pair_records import PairRecord

# Matches of a query and a mapped image by their names, the query's points first.
Source: TypeAlias = Callable[[str, str], Matches]


class QueryFirst:
    """A matcher called so that the query, its first image, is the refined side.

    Matchers differ in which image they refine; the first matches show which one it is.
    If it refines both, images are not exchanged: lifting converts the other matches.
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


class FromStore:
    """Matches of a store, whichever image of a pair comes first there.

    Pairs that it lacks are matched by `source`, if there is one, and written by
    :meth:`keep`.
    """

    def __init__(self, path: str | Path, source: Source | None = None) -> None:
        from semisure.io.store import Store  # loads pyarrow

        self.store, self.source = Store.at(path), source
        self._new: list[PairRecord] = []

    def __reduce__(self) -> tuple[type, tuple[Path, Source | None]]:
        """For worker processes, which open the store themselves."""
        return type(self), (self.store.folder, self.source)

    def __call__(self, query: str, mapped: str) -> Matches:
        record = self.store.record(query, mapped)
        if record is not None and record.matches is not None:
            return record.matches
        record = self.store.record(mapped, query)
        if record is not None and record.matches is not None:
            return record.matches.swapped()
        if self.source is None:
            raise FileError(
                f"{self.store.folder} has no matches of {query} and {mapped}."
            )
        from semisure.io.shards import as_stored

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
        """Write the new matches into the store, as one shard."""
        if self._new:
            self.store.write(self._new)
            self._new.clear()


def stored(source: Source, path: str | Path, matcher: Any = None) -> FromStore:
    """The same matches, each pair kept in the store at `path`, and read there.

    A store is made if there is none; one of another `matcher` raises.
    """
    from semisure.io.store import MANIFEST, Manifest, Store

    stamp = None if matcher is None else identity(matcher)
    recipe: dict[str, Any] = {"matcher": stamp, "geometry": None}
    if not Path(path, MANIFEST).exists():
        Store.made(path, Manifest(recipe=recipe))
        return FromStore(path, source)
    stated = Store.at(path).manifest.recipe.get("matcher") or {}
    for name in ("weights", "code", "fingerprint"):
        if stamp is not None and stated.get(name) != stamp.get(name):
            raise InputError(
                f"{path} holds matches by other {name} of the matcher. Give another "
                "--matches, or leave out --images to use these matches as they are."
            )
    return FromStore(path, source)
