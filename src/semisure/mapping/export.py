"""A store in the files of others: hloc's HDF5, COLMAP's database, CSV tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from semisure.geometry.camera import Camera
from semisure.io.atomic import check_not_inputs, write_atomically
from semisure.io.colmap import read_model
from semisure.mapping.aggregation import (
    Aggregated,
    AggregationSettings,
    Aggregator,
    KeypointPair,
)
from semisure.mapping.cameras import cameras_of
from semisure.mapping.database import check_ours, write_database
from semisure.mapping.hloc_files import (
    check_hloc_names,
    read_features,
    write_features,
    write_keypoint_matches,
)
from semisure.mapping.keypoints import Keypoints
from semisure.mapping.pair_sources import PairSource, source_of
from semisure.mapping.tables import write_matches, write_pairs
from semisure.types import Calibration, Points, Tick, silent
from semisure.types.pair_records import PairRecord

Format = Literal["hloc", "colmap", "csv"]
FORMATS: tuple[Format, ...] = get_args(Format)
DATABASE, FEATURES, MATCHES, PAIRS = "database.db", "features.h5", "matches.h5", "pairs"
FILES: dict[Format, tuple[str, ...]] = {
    "hloc": (FEATURES, MATCHES, f"{PAIRS}.txt"),
    "colmap": (DATABASE,),
    "csv": (f"{PAIRS}.csv", "matches.csv"),
}
_NO_MATCHES = np.zeros((0, 2), np.int64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written."""

    files: tuple[Path, ...]
    images: int
    pairs: int  # with matches
    unrelated: int = 0  # pairs written without matches
    keypoints: int = 0

    def summary(self) -> str:
        """One sentence for people."""
        size = sum(file.stat().st_size for file in self.files) / 1e6
        keypoints = f", {self.keypoints:,} keypoints" if self.keypoints else ""
        unrelated = f" and {self.unrelated:,} without matches" if self.unrelated else ""
        return (
            f"{self.images:,} images{keypoints}, {self.pairs:,} pairs{unrelated}: "
            f"{', '.join(str(file) for file in self.files)} ({size:,.1f} MB)."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportSettings:
    """How a store is turned into keypoints and cameras."""

    aggregation: AggregationSettings = field(default_factory=AggregationSettings)
    reference: Path | None = None  # whose keypoints stay: hloc's features, or a model
    cameras: Mapping[str, Camera] | None = None
    images: Path | None = None  # folder, for EXIF; by default the store's
    shared_camera: bool = False
    pairs: Path | None = None  # of a file of matches in place of a store
    calibration: Calibration | None = None  # by default the store's own


def export(
    address: str | Path,
    to: Format,
    output: str | Path,
    settings: ExportSettings | None = None,
    tick: Tick = silent,
) -> Exported:
    """Write the store at `address` into the folder `output`.

    `address` may also be a file of matches that `semisure localize` wrote.

    ========  ==================================================================
    hloc      ``features.h5``, ``matches.h5`` and ``pairs.txt``
    colmap    ``database.db`` with cameras, keypoints, matches, geometries
    csv       ``pairs.csv``, a row a pair, and ``matches.csv``, a row a match
    ========  ==================================================================

    Examples
    --------
    >>> import tempfile
    >>> from semisure.io.store import Manifest, Store
    >>> from semisure.synthetic import SyntheticMatcher
    >>> folder = Path(tempfile.mkdtemp())
    >>> store = Store.made(folder / "store", Manifest(recipe={}))
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=200)
    >>> pair = PairRecord(image0="a", image1="b", state="matched", matches=matches)
    >>> store.write("first", [pair])
    >>> made = export(store.name, "hloc", folder)
    >>> [file.name for file in made.files], made.images, made.pairs
    (['features.h5', 'matches.h5', 'pairs.txt'], 2, 1)
    """
    settings, output = settings or ExportSettings(), Path(output)
    store = source_of(address, settings.pairs, settings.calibration)
    read = address, settings.pairs, settings.reference
    inputs = [Path(path) for path in read if path is not None and Path(path).is_file()]
    check_not_inputs([output / name for name in FILES[to]], inputs)
    if to == "csv":
        return _to_csv(store, output, tick)
    if to == "colmap":
        check_ours(output / DATABASE)
    aggregated = aggregate_store(store, settings, tick)
    if to == "hloc":
        return _to_hloc(store, output, aggregated)
    return to_colmap(store, output / DATABASE, aggregated, settings)


def aggregate_store(
    store: PairSource, settings: ExportSettings, tick: Tick = silent
) -> Aggregated:
    """Keypoints of a store's images and the matches between them."""
    return Aggregator(
        store.records,
        settings.calibration or store.manifest.calibration,
        settings.aggregation,
        _reference(settings.reference),
        tick,
        sum(summary.state != "failed" for summary in store.summaries()),
    )()


def _reference(path: Path | None) -> dict[str, Points]:
    """Keypoints by image: of hloc's features, or of a COLMAP model."""
    if path is None:
        return {}
    if path.is_dir():
        return {name: image.points for name, image in read_model(path).images.items()}
    return read_features(path)


def _to_hloc(store: PairSource, output: Path, aggregated: Aggregated) -> Exported:
    check_hloc_names(name for pair in store.summaries() for name in pair.names)
    features, matches, pairs = (output / name for name in FILES["hloc"])
    written: set[tuple[str, str]] = set()
    empty = (
        KeypointPair(*pair.names, _NO_MATCHES, np.zeros(0))
        for pair in store.summaries()
        if pair.state != "failed" and pair.names not in written
    )
    names = write_keypoint_matches(
        matches, chain(_noted(aggregated.pairs, written), empty)
    )
    # hloc looks for every image of a folder, those without a match too.
    named = {*store.images(), *chain.from_iterable(names)}
    none = {name: Keypoints.fixed(np.zeros((0, 2))) for name in sorted(named)}
    write_features(features, none | aggregated.keypoints)
    lines = [f"{a} {b}\n" for a, b in names]
    write_atomically(pairs, lambda file: file.write("".join(lines).encode()))
    return Exported(
        files=(features, matches, pairs),
        images=len(aggregated.keypoints),
        pairs=len(written),
        unrelated=len(names) - len(written),
        keypoints=_count(aggregated),
    )


def _noted(
    pairs: Iterable[KeypointPair], written: set[tuple[str, str]]
) -> Iterator[KeypointPair]:
    for pair in pairs:
        written.add((pair.image0, pair.image1))
        yield pair


def to_colmap(
    store: PairSource, path: Path, aggregated: Aggregated, settings: ExportSettings
) -> Exported:
    """Write a database of COLMAP's."""
    folder = settings.images or Path(store.manifest.images or ".")
    cameras = cameras_of(aggregated.sizes, settings.cameras, folder)
    count = write_database(
        path,
        cameras,
        aggregated.keypoints,
        aggregated.pairs,
        shared_camera=settings.shared_camera,
    )
    return Exported(
        files=(path,), images=len(cameras), pairs=count, keypoints=_count(aggregated)
    )


def _count(aggregated: Aggregated) -> int:
    return sum(len(found) for found in aggregated.keypoints.values())


def _to_csv(store: PairSource, output: Path, tick: Tick) -> Exported:
    pairs, matches = (output / name for name in FILES["csv"])
    listed = [pair.names for pair in store.summaries()]
    write_pairs(pairs, store.summaries())

    def ticking() -> Iterator[PairRecord]:
        for done, record in enumerate(store.records(), start=1):
            yield record
            tick(done, max(len(listed), done))

    write_matches(matches, ticking())
    return Exported(
        files=(pairs, matches),
        images=len({name for names in listed for name in names}),
        pairs=len(listed),
    )
