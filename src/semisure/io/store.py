"""A store: many matched pairs in one folder, which any number of processes may fill.

::

    STORE/manifest.json     what decides the answers: matcher, settings, calibration
    STORE/images/*.parquet  the images by name, with sizes and digests
    STORE/shards/*.parquet  some dozens of pairs each, a pair a row

A shard is named by the digest of all that it rests on: the manifest's recipe, and names
and contents of its images. So a task that runs twice writes the same bytes under the
same name, and a run that was interrupted goes on by a listing of names. Nothing is
changed in place: an image that changed gets another row, and older pairs of it are
passed over. All of it is plain JSON and Parquet that other programs read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from semisure.__about__ import __version__
from semisure.errors import FileError, InputError, in_short
from semisure.io import shards
from semisure.io.atomic import as_json
from semisure.io.cache import sha256_of
from semisure.io.files import calibration_from
from semisure.io.places import Place
from semisure.types import Calibration
from semisure.types.pair_records import (
    ImageRecord,
    Names,
    PairRecord,
    PairSummary,
)

FORMAT = "semisure-store"
SCHEMA_VERSION = 1
MANIFEST, IMAGES, SHARDS = "manifest.json", "images", "shards"
_SUFFIX = ".parquet"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What all pairs of a store have in common.

    `recipe` decides the answers and is plain JSON: pairs made by another one go into
    another store. `images` is the folder of images at the time, for those who need
    more than their names.

    >>> one, other = (Manifest(recipe={"threshold_px": px}) for px in (3.0, 1.0))
    >>> one.key == other.key
    False
    """

    recipe: Mapping[str, Any]
    images: str = ""

    def __post_init__(self) -> None:
        # As it comes back from the file: a tuple is a list there.
        object.__setattr__(self, "recipe", json.loads(json.dumps(self.recipe)))

    @cached_property
    def key(self) -> str:
        """A digest of the recipe."""
        return sha256_of(json.dumps(self.recipe, sort_keys=True))

    @property
    def calibration(self) -> Calibration | None:
        """The calibration that models were refitted with, if there were any."""
        document = self.recipe.get("calibration")
        if document is None:
            return None
        return calibration_from(document, Path(MANIFEST))

    def document(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            "semisure_version": __version__,
            "images": self.images,
            "recipe": dict(self.recipe),
        }


class Store:
    """The pairs in a folder, or at an fsspec address.

    >>> import tempfile
    >>> store = Store.made(tempfile.mkdtemp(), Manifest(recipe={"matcher": "mine"}))
    >>> lost = PairRecord(image0="a", image1="b", state="failed", reasons=("no b",))
    >>> store.write("first", [lost])
    >>> [(pair.names, pair.state) for pair in Store.at(store.name).summaries()]
    [(('a', 'b'), 'failed')]
    """

    def __init__(self, place: Place, manifest: Manifest) -> None:
        self.place, self.manifest = place, manifest

    @property
    def name(self) -> str:
        """Its path or address."""
        return self.place.name

    @classmethod
    def made(cls, address: str | Path, manifest: Manifest) -> Store:
        """The store at `address`, begun if it is not there.

        One that was made by another recipe is refused.
        """
        shards.require_pyarrow()  # now, not after an hour of work
        place = Place(address)
        there = _manifest_at(place)
        if there is None:
            place.write(MANIFEST, as_json(manifest.document()))
            there = manifest
        if there.key != manifest.key:
            raise InputError(
                f"{place.name} holds pairs that were made otherwise: "
                f"{_difference(there.recipe, manifest.recipe)}. Choose another store."
            )
        return cls(place, there)

    @classmethod
    def at(cls, address: str | Path) -> Store:
        """The store that is there."""
        shards.require_pyarrow()
        place = Place(address)
        manifest = _manifest_at(place)
        if manifest is None:
            raise FileError(
                f"{place.name} is no store: it has no {MANIFEST}. Make one with "
                "`semisure match-pairs`."
            )
        return cls(place, manifest)

    # ---- images ----------------------------------------------------------------------

    def images(self) -> dict[str, ImageRecord]:
        """The images by name; of one that was changed, the newest."""
        newest: dict[str, ImageRecord] = {}
        for table in self._tables(IMAGES):
            with self._opened(IMAGES, table) as (file, name):
                for image in shards.images_in(file, name):
                    older = newest.get(image.name)
                    if older is None or older.modified_ns < image.modified_ns:
                        newest[image.name] = image
        return dict(sorted(newest.items()))

    def write_images(self, images: Iterable[ImageRecord]) -> None:
        """Add a table of images."""
        in_order = sorted(images, key=lambda image: image.name)
        content = shards.parquet_of_images(in_order)
        name = hashlib.sha256(content).hexdigest()[:32]
        self.place.write(_path(IMAGES, name), content)

    # ---- shards ----------------------------------------------------------------------

    def shard_of(self, pairs: Sequence[Names], digests: Mapping[str, str]) -> str:
        """The name of the shard that would hold these pairs of these images."""
        rests_on = [[name, digests.get(name, "")] for pair in pairs for name in pair]
        return sha256_of(json.dumps([self.manifest.key, rests_on]))[:32]

    def shards(self) -> list[str]:
        """Names of the shards that are there."""
        return self._tables(SHARDS)

    def total_bytes(self) -> int:
        """Of all shards."""
        return sum(self.place.size(_path(SHARDS, shard)) for shard in self.shards())

    def write(self, shard: str, records: Sequence[PairRecord]) -> None:
        """Put a shard in place, whole."""
        self.place.write(_path(SHARDS, shard), shards.parquet_of(records))

    def _tables(self, folder: str) -> list[str]:
        """The whole files in a folder; a dot begins the name of one that is not."""
        return [
            name.removesuffix(_SUFFIX)
            for name in self.place.listed(folder)
            if name.endswith(_SUFFIX) and not name.startswith(".")
        ]

    @contextmanager
    def _opened(self, folder: str, table: str) -> Iterator[tuple[IO[bytes], str]]:
        """A file, and its name for a sentence."""
        path = _path(folder, table)
        with self.place.opened(path) as file:
            yield file, f"{self.name}/{path}"

    # ---- pairs -----------------------------------------------------------------------

    def summaries(self) -> Iterator[PairSummary]:
        """All pairs without their matches, each once.

        A pair that failed comes last, and only where no other shard has its matches.
        """
        seen, failed = set[Names](), dict[Names, PairSummary]()
        for _, _, pair in self._places():
            if pair.state == "failed":
                failed[pair.names] = pair
            elif pair.names not in seen:
                seen.add(pair.names)
                yield pair
        yield from (pair for names, pair in failed.items() if names not in seen)

    def records(self) -> Iterator[PairRecord]:
        """The pairs that have matches, each once, some in memory at a time."""
        is_current, seen = self._current(), set[Names]()
        for shard in self.shards():
            with self._opened(SHARDS, shard) as (file, name):
                for record in shards.records_in(file, name):
                    if record.names in seen or not is_current(record):
                        continue
                    if record.matches is not None:
                        seen.add(record.names)
                        yield record

    def record(self, image0: str, image1: str) -> PairRecord | None:
        """One pair by its names in their order; None where it is not there.

        The first call reads the names of all pairs, once.
        """
        if (image0, image1) not in self._index:
            return None
        shard, row = self._index[image0, image1]
        with self._opened(SHARDS, shard) as (file, name):
            return shards.record_in(file, name, row)

    @cached_property
    def _index(self) -> dict[Names, tuple[str, int]]:
        """Where each pair is; where it failed, and was matched later, the later one."""
        failed: dict[Names, tuple[str, int]] = {}
        good: dict[Names, tuple[str, int]] = {}
        for shard, row, pair in self._places():
            (failed if pair.state == "failed" else good)[pair.names] = shard, row
        return failed | good

    def _places(self) -> Iterator[tuple[str, int, PairSummary]]:
        """Shard and row of each pair that is current."""
        is_current = self._current()
        for shard in self.shards():
            with self._opened(SHARDS, shard) as (file, name):
                for row, pair in enumerate(shards.summaries_in(file, name)):
                    if is_current(pair):
                        yield shard, row, pair

    def _current(self) -> Callable[[PairSummary], bool]:
        """Whether a pair is of the images as they are now, not as they once were."""
        now = {name: image.digest for name, image in self.images().items()}

        def is_current(pair: PairSummary) -> bool:
            ends = (pair.image0, pair.digest0), (pair.image1, pair.digest1)
            return all(digest in ("", now.get(name, digest)) for name, digest in ends)

        return is_current


def _path(folder: str, table: str) -> str:
    return f"{folder}/{table}{_SUFFIX}"


def _manifest_at(place: Place) -> Manifest | None:
    content = place.read(MANIFEST)
    if content is None:
        return None
    try:
        document = json.loads(content)
        if document["format"] != FORMAT or document["schema_version"] > SCHEMA_VERSION:
            raise ValueError("it is no store of this version of semisure")
        if not isinstance(document["recipe"], dict):
            raise ValueError("its recipe must have names and values")
        return Manifest(recipe=document["recipe"], images=str(document["images"]))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise FileError(
            f"{place.name}/{MANIFEST} cannot be read: {in_short(error)}."
        ) from None


def _difference(before: Any, now: Any, name: str = "") -> str:
    """The first entry in which two recipes differ, for a sentence."""
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for key in sorted({*before, *now}):
            if before.get(key) != now.get(key):
                inner = f"{name}.{key}" if name else key
                return _difference(before.get(key), now.get(key), inner)
    return f"{name} was {_short(before)} and is {_short(now)}"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
