"""A store in the formats of other tools: hloc's HDF5, COLMAP's database, CSV tables.

hloc's ``features.h5`` has a group for each image: ``keypoints`` (k, 2), pixel centres
at integers, with their ``score``. Their attribute ``uncertainty``, which scales the
thresholds of hloc's verification, is a pixel of the image as it was matched, as for
hloc's own features. ``matches.h5`` has a group for each pair: ``matches0``, the
keypoint of image 1 for each keypoint of image 0, or −1, and ``matching_scores0``.
Files appear whole, or not at all.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np

from semisure.errors import FileError, InputError, in_short
from semisure.geometry.camera import Camera
from semisure.io.atomic import appearing_whole, check_new, write_atomically
from semisure.io.colmap import read_model
from semisure.io.store import Store
from semisure.mapping.database import write_database
from semisure.mapping.keypoints import KeypointMatches, Keypoints, keypoint_matches
from semisure.types import Array, Calibration, Labels, PerMatch, Points, Tick, silent
from semisure.types.checks import require_file
from semisure.types.pair_records import PairRecord, PairSummary

Format = Literal["hloc", "colmap", "csv"]
DATABASE = "database.db"
FILES: dict[Format, tuple[str, ...]] = {
    "hloc": ("features.h5", "matches.h5", "pairs.txt"),
    "colmap": (DATABASE,),
    "csv": ("pairs.csv", "matches.csv"),
}
PAIR_COLUMNS = (
    *("image0", "image1", "state", "matches", "probability", "kind"),
    *(f"m{row}{column}" for row in range(3) for column in range(4)),
    "reasons",
)
MATCH_COLUMNS = (
    *("image0", "image1", "x0", "y0", "x1", "y1", "confidence"),
    *("weight", "expected_px"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportedFiles:
    """The files of an export, and what they hold."""

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

    reference: Path | None = None  # hloc's features or a model, whose keypoints stay
    cameras: Mapping[str, Camera] | None = None
    images: Path | None = None  # folder, for EXIF; by default the store's
    shared_camera: bool = False
    calibration: Calibration | None = None  # by default the store's own
    max_keypoints: int | None = None  # of an image, the most voted

    def __post_init__(self) -> None:
        if self.max_keypoints is not None and self.max_keypoints < 1:
            raise InputError(
                f"max_keypoints must be at least 1, but is {self.max_keypoints}."
            )


def export(
    address: str | Path,
    to: Format,
    output: str | Path,
    settings: ExportSettings | None = None,
    tick: Tick = silent,
) -> ExportedFiles:
    """Write the store at `address` into the folder `output`; no file is replaced.

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
    >>> store.write([pair])
    >>> result = export(store.folder, "hloc", folder)
    >>> [file.name for file in result.files], result.images, result.pairs
    (['features.h5', 'matches.h5', 'pairs.txt'], 2, 1)
    """
    settings, store = settings or ExportSettings(), Store.at(address)
    files = tuple(Path(output) / name for name in FILES[to])
    for file in files:
        check_new(file)
    if to == "csv":
        return _write_csv(store, files, tick)
    matches, unrelated = keypoints_of(store, settings, tick), 0
    if to == "hloc":
        unrelated = _write_hloc(store, files, matches)
    else:
        to_colmap(store, files[0], matches, settings)
    return ExportedFiles(
        files=files,
        images=len(matches.sizes),
        pairs=len(matches.pairs),
        unrelated=unrelated,
        keypoints=sum(map(len, matches.keypoints.values())),
    )


def keypoints_of(
    store: Store, settings: ExportSettings, tick: Tick = silent
) -> KeypointMatches:
    """Keypoints of a store's images and the matches between them."""
    reference: Mapping[str, Points] = {}
    if settings.reference is not None and settings.reference.is_dir():
        images = read_model(settings.reference).images
        reference = {name: image.points for name, image in images.items()}
    elif settings.reference is not None:
        reference = read_features(settings.reference)
    return keypoint_matches(
        store.records(),
        settings.calibration or store.manifest.calibration,
        max_keypoints=settings.max_keypoints,
        reference=reference,
        tick=tick,
        total=sum(summary.state != "failed" for summary in store.summaries()),
    )


def image_folder(store: Store, settings: ExportSettings) -> Path:
    """Where the images of a store are."""
    return settings.images or Path(store.manifest.images or ".")


def to_colmap(
    store: Store, path: Path, matches: KeypointMatches, settings: ExportSettings
) -> None:
    """Write a database of COLMAP's."""
    write_database(
        path,
        matches,
        image_folder(store, settings),
        settings.cameras,
        shared_camera=settings.shared_camera,
    )


# ---- hloc ----------------------------------------------------------------------------


def _write_hloc(store: Store, files: tuple[Path, ...], matches: KeypointMatches) -> int:
    """Write hloc's files; the number of pairs without a match in them."""
    feature_file, match_file, list_file = files
    pairs = {p.pair.names: (p.matches, p.score) for p in matches.pairs}
    none = np.zeros((0, 2), np.int64), np.zeros(0)
    summaries = [pair for pair in store.summaries() if pair.state != "failed"]
    written = pairs | {p.names: none for p in summaries if p.names not in pairs}
    # hloc looks for every image of a folder, those without a match too.
    names = sorted({*store.images(), *chain.from_iterable(written)})
    for name in names:
        if name.split() != [name]:
            raise InputError(
                f"hloc's lists split names at blanks, but an image is called {name!r}. "
                "Rename it and match again, or export to colmap or csv."
            )
    with _new_hdf5(match_file) as new_group:
        for (name0, name1), pair in written.items():
            key = "/".join(name.replace("/", "-") for name in (name0, name1))
            group = new_group(key, f"{name0} with {name1}")
            matches0, scores0 = by_first(*pair)
            # An entry for each keypoint, most of them −1: compression leaves a tenth.
            packed = (
                {"compression": "gzip", "compression_opts": 1} if len(matches0) else {}
            )
            group.create_dataset("matches0", data=matches0, **packed)
            group.create_dataset("matching_scores0", data=scores0, **packed)
    empty = Keypoints(np.zeros((0, 2)), np.zeros(0))
    write_features(feature_file, {n: matches.keypoints.get(n, empty) for n in names})
    lines = [f"{name0} {name1}\n" for name0, name1 in written]
    write_atomically(list_file, "".join(lines).encode())
    return len(written) - len(pairs)


def write_features(path: Path, keypoints: Mapping[str, Keypoints]) -> None:
    """Write the keypoints of images by name as a file of hloc's features.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "features.h5"
    >>> keypoints = Keypoints(np.array([[3.0, 4.5]]), np.ones(1))
    >>> write_features(path, {"db/a.jpg": keypoints})
    >>> read_features(path)["db/a.jpg"].tolist()
    [[3.0, 4.5]]
    """
    with _new_hdf5(path) as new_group:
        for name, image in keypoints.items():
            group = new_group(name, name)
            points = image.points.astype(np.float32)
            stored = group.create_dataset("keypoints", data=points)
            stored.attrs["uncertainty"] = image.pixel
            group.create_dataset("score", data=image.votes.astype(np.float32))


def read_features(path: Path) -> dict[str, Points]:
    """The keypoints (k, 2) px of all images of a file of hloc's features."""
    import h5py

    require_file(path)
    keypoints: dict[str, Points] = {}

    def visit(name: str, entry: Any) -> None:
        if name.endswith("/keypoints"):
            points = np.asarray(entry[()], np.float64)
            keypoints[name.removesuffix("/keypoints")] = points.reshape(-1, 2)

    try:
        with h5py.File(path, "r") as file:
            file.visititems(visit)
        if not keypoints:
            raise ValueError("no image has keypoints")
    except Exception as error:  # noqa: BLE001, whatever a damaged file leads to
        raise FileError(
            f"{path} holds no features of hloc's: {in_short(error)}."
        ) from None
    return keypoints


@contextmanager
def _new_hdf5(path: Path) -> Iterator[Callable[[str, str], Any]]:
    """A function that makes a group in a new file, by its key and its content."""
    import h5py

    with appearing_whole(path) as part, h5py.File(part, "w") as file:

        def new_group(key: str, what: str) -> Any:
            try:
                return file.create_group(key)
            except ValueError as error:  # a/b and a-b, say, have one name in hloc
                raise InputError(
                    f"hloc's files cannot hold {what}: {in_short(error)}. Rename the "
                    "images and match again, or export to colmap or csv."
                ) from None

        yield new_group


def by_first(matches: Labels, score: PerMatch) -> tuple[Array, Array]:
    """hloc's arrays: for each keypoint of image 0 its match, or −1, and the score.

    >>> matches0, scores0 = by_first(np.array([[0, 7], [2, 5]]), np.array([0.5, 0.25]))
    >>> matches0.tolist(), scores0.tolist()
    ([7, -1, 5], [0.5, 0.0, 0.25])
    """
    count = int(matches[:, 0].max()) + 1 if len(matches) else 0
    matches0 = np.full(count, -1, np.int32)
    scores0 = np.zeros(count, np.float16)
    matches0[matches[:, 0]] = matches[:, 1]
    scores0[matches[:, 0]] = score
    return matches0, scores0


# ---- tables --------------------------------------------------------------------------


def _write_csv(store: Store, files: tuple[Path, ...], tick: Tick) -> ExportedFiles:
    summaries = list(store.summaries())

    def match_rows() -> Iterator[list[Any]]:
        for done, record in enumerate(store.records(), start=1):
            yield from _match_rows(record)
            tick(done, max(len(summaries), done))

    _write_table(files[0], PAIR_COLUMNS, (_pair_row(pair) for pair in summaries))
    _write_table(files[1], MATCH_COLUMNS, match_rows())
    return ExportedFiles(
        files=files,
        images=len({name for pair in summaries for name in pair.names}),
        pairs=len(summaries),
    )


def _write_table(path: Path, head: tuple[str, ...], rows: Iterable[list[Any]]) -> None:
    with appearing_whole(path) as part, part.open("w", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(head)
        table.writerows(rows)


def _pair_row(pair: PairSummary) -> list[Any]:
    model = [""] * 12  # 3 × 3 or 3 × 4
    if pair.model is not None:
        for (row, column), value in np.ndenumerate(pair.model):
            model[4 * row + column] = f"{value:.17g}"
    chance = f"{pair.probability:.6g}"
    verdict = [pair.state, pair.match_count, chance, pair.kind or ""]
    return [*pair.names, *verdict, *model, " ".join(pair.reasons)]


def _match_rows(pair: PairRecord) -> Iterator[list[Any]]:
    assert pair.matches is not None
    raw, unknown = pair.matches, np.full(len(pair.matches), np.nan)
    weight = unknown if pair.weight is None else pair.weight
    expected = unknown if pair.expected_px is None else pair.expected_px
    columns = raw.source, raw.target, raw.confidence, weight, expected
    for row in np.column_stack(columns).tolist():
        cells = ("" if np.isnan(value) else f"{value:.6g}" for value in row)
        yield [*pair.names, *cells]
