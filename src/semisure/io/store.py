"""A store: many matched pairs in one folder, which any number of processes may fill.

::

    STORE/manifest.json     what decides the answers: matcher, settings, calibration
    STORE/images/*.parquet  the images by name, with sizes and digests
    STORE/shards/*.parquet  some dozens of pairs each, a pair a row

A shard is named by the digest of all that decides it: the manifest's recipe, and names
and contents of its images. So a task that runs twice writes the same bytes under the
same name, and an interrupted run goes on from the list of names. Nothing is
changed in place: an image that changed gets another row, and its older pairs are
ignored. All of it is plain JSON and Parquet that other programs read.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from semisure.__about__ import __version__
from semisure.errors import FileError, InputError, in_short
from semisure.io import shards
from semisure.io.atomic import write_json
from semisure.io.cache import sha256_of
from semisure.io.files import calibration_from
from semisure.types import Calibration
from semisure.types.checks import require_file
from semisure.types.pair_records import (
    ImageRecord,
    Names,
    PairRecord,
    PairSummary,
)

FORMAT = "semisure-store"
SCHEMA_VERSION = 1
MANIFEST, IMAGES, SHARDS = "manifest.json", "images", "shards"


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """What all pairs of a store have in common.

    `recipe` decides the answers and is plain JSON: pairs of another recipe go into
    another store. `images` was the folder of images, for callers who need more than
    their names.

    >>> one, other = (Manifest(recipe={"threshold_px": px}) for px in (3.0, 1.0))
    >>> one.key == other.key
    False
    """

    recipe: Mapping[str, Any]
    images: str = ""

    def __post_init__(self) -> None:
        # As read back from the file, where a tuple is a list.
        object.__setattr__(self, "recipe", json.loads(json.dumps(self.recipe)))

    @cached_property
    def key(self) -> str:
        """A digest of the recipe."""
        return sha256_of(json.dumps(self.recipe, sort_keys=True))

    @property
    def calibration(self) -> Calibration | None:
        """The calibration that models were refitted with; None without models."""
        document = self.recipe.get("calibration")
        if document is None:
            return None
        return calibration_from(document, Path(MANIFEST))


class _StoredPair(NamedTuple):
    """A pair, and its place in the shards."""

    shard: Path
    row: int
    pair: PairSummary


class Store:
    """The pairs in a folder.

    >>> import tempfile
    >>> store = Store.made(tempfile.mkdtemp(), Manifest(recipe={"matcher": "mine"}))
    >>> lost = PairRecord(image0="a", image1="b", state="failed", reasons=("no b",))
    >>> store.write([lost])
    >>> [(pair.names, pair.state) for pair in Store.at(store.folder).summaries()]
    [(('a', 'b'), 'failed')]
    """

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest

    @classmethod
    def made(cls, folder: str | Path, manifest: Manifest) -> Store:
        """The store in a folder, made if the folder has none.

        Raises if another recipe made it.
        """
        path = Path(folder) / MANIFEST
        if "://" in str(folder):
            raise InputError(
                f"A store is a folder, but {folder} is an address. Mount it, or make "
                "the store here and copy it."
            )
        if not path.exists():
            document = {
                "format": FORMAT,
                "schema_version": SCHEMA_VERSION,
                "semisure_version": __version__,
                **asdict(manifest),
            }
            write_json(path, document)
        store = cls.at(folder)
        if store.manifest.key != manifest.key:
            raise InputError(
                f"{folder} holds pairs of other settings: "
                f"{_difference(store.manifest.recipe, manifest.recipe)}. Choose "
                "another store."
            )
        return store

    @classmethod
    def at(cls, folder: str | Path) -> Store:
        """The store in a folder, which must have one."""
        path = Path(folder) / MANIFEST
        if not path.exists():
            raise FileError(
                f"{folder} is no store: it has no {MANIFEST}. Make one with "
                "`semisure match-pairs`."
            )
        return cls(Path(folder), _read_manifest(path))

    # ---- images ----------------------------------------------------------------------

    def images(self) -> dict[str, ImageRecord]:
        """The images by name; of one that was changed, the newest."""
        newest: dict[str, ImageRecord] = {}
        for table in self._tables(IMAGES):
            for image in shards.images_in(table):
                older = newest.get(image.name)
                if older is None or older.modified_ns < image.modified_ns:
                    newest[image.name] = image
        return dict(sorted(newest.items()))

    def write_images(self, images: Iterable[ImageRecord]) -> None:
        """Add a table of images."""
        in_order = sorted(images, key=lambda image: image.name)
        name = sha256_of(json.dumps([asdict(image) for image in in_order]))[:32]
        shards.write_images(self.folder / IMAGES / f"{name}.parquet", in_order)

    # ---- pairs -----------------------------------------------------------------------

    def write(self, records: Sequence[PairRecord]) -> None:
        """Write these pairs as one shard, whole."""
        rests_on = [
            [name, digest]
            for r in records
            for name, digest in ((r.image0, r.digest0), (r.image1, r.digest1))
        ]
        name = sha256_of(json.dumps([self.manifest.key, rests_on]))[:32]
        shards.write_pairs(self.folder / SHARDS / f"{name}.parquet", records)

    def shards(self) -> list[Path]:
        """The files of pairs."""
        return self._tables(SHARDS)

    def total_bytes(self) -> int:
        """The size of all shards."""
        return sum(shard.stat().st_size for shard in self.shards())

    def summaries(self) -> list[PairSummary]:
        """All pairs without their matches, each once; those that failed come last."""
        return [entry.pair for entry in self._latest().values()]

    def records(self) -> Iterator[PairRecord]:
        """The pairs that have matches, each once, some in memory at a time."""
        latest = self._latest()
        for shard in self.shards():
            for row, record in enumerate(shards.records_in(shard)):
                entry = latest.get(record.names)
                if record.matches is not None and entry and entry[:2] == (shard, row):
                    yield record

    def record(self, image0: str, image1: str) -> PairRecord | None:
        """One pair by its names in their order; None if the store lacks it.

        The first call reads the names of all pairs, once.
        """
        entry = self._entries.get((image0, image1))
        return None if entry is None else shards.record_in(entry.shard, entry.row)

    @cached_property
    def _entries(self) -> dict[Names, _StoredPair]:
        return self._latest()

    def _latest(self) -> dict[Names, _StoredPair]:
        """Each pair whose images have not changed since.

        Where one shard has its matches and another one its failure, the matches count.
        """
        now = {name: image.digest for name, image in self.images().items()}
        matched: dict[Names, _StoredPair] = {}
        failed: dict[Names, _StoredPair] = {}
        for shard in self.shards():
            for row, pair in enumerate(shards.summaries_in(shard)):
                ends = (pair.image0, pair.digest0), (pair.image1, pair.digest1)
                if all(digest in ("", now.get(name, digest)) for name, digest in ends):
                    entries = failed if pair.state == "failed" else matched
                    entries.setdefault(pair.names, _StoredPair(shard, row, pair))
        return {**matched, **{k: v for k, v in failed.items() if k not in matched}}

    def _tables(self, folder: str) -> list[Path]:
        """The whole files in a folder; a dot begins the name of one that is not."""
        return sorted((self.folder / folder).glob("[!.]*.parquet"))


def _read_manifest(path: Path) -> Manifest:
    try:
        document = json.loads(require_file(path).read_text(encoding="utf-8"))
        if document["format"] != FORMAT or document["schema_version"] > SCHEMA_VERSION:
            raise ValueError("it is no store of this version of semisure")
        return Manifest(recipe=dict(document["recipe"]), images=document["images"])
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise FileError(f"{path} cannot be read: {in_short(error)}.") from None


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
