"""Stores that are damaged or come from a stranger, and outputs that others need."""

from __future__ import annotations

import io
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs the extra store")

import pyarrow as pa
import pyarrow.parquet as pq
from semisure.matchers.peers import load_peer

from semisure.errors import FileError, FitError, InputError
from semisure.io import shards
from semisure.io.store import Manifest, Store
from semisure.mapping.aggregation import AggregationSettings
from semisure.mapping.export import FORMATS, ExportSettings, Format, export
from semisure.mapping.mapper import MappingSettings
from semisure.pairs.lists import image_names, unique_pairs
from semisure.pairs.settings import CameraSettings
from semisure.pairs.video import _note
from semisure.synthetic import SyntheticMatcher
from semisure.types.pair_records import ImageRecord, PairRecord

COUNT = 60
MANIFEST = (
    '{{"format": "semisure-store", "schema_version": 1, "images": "", "recipe": {}}}'
)
NUMBERS = pa.list_(pa.float64())
# What a stranger's shard may hold in place of what belongs there.
STRANGE = {
    "no name": ("image0", None, None),
    "a number as name": ("image0", 5, pa.int64()),
    "an empty name": ("image0", "", None),
    "a line break": ("image0", "a\nb", None),
    "a NUL": ("image0", "a\0b", None),
    "an escape": ("image0", "\x1b[2J", None),
    "no state": ("state", None, None),
    "no probability": ("probability", None, None),
    "a text as probability": ("probability", "x", pa.string()),
    "no count": ("match_count", None, None),
    "numbers as reasons": ("reasons", [1], pa.list_(pa.int64())),
    "no text in reasons": ("reasons", [None], None),
    "a pose that is a homography": ("kind", "essential", None),
    "a homography that is a pose": ("model", [1.0] * 12, None),
    "a vector as model": ("model", [1.0, 2.0, 3.0], None),
    "a model of NaN": ("model", [float("nan")] * 9, None),
    "a kind without a model": ("model", None, None),
    "one weight": ("weight", [1.0], None),
    "one expected error": ("expected_px", [1.0], None),
    "weights of NaN": ("weight", [float("nan")] * COUNT, None),
    "scales of NaN": ("fine_scale_x", [float("nan")] * COUNT, None),
    "coordinates of 1e24": ("x0", [1e24] * COUNT, NUMBERS),
    "no width": ("width0", None, None),
}


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store.made(tmp_path / "store", Manifest(recipe={}))
    store.write("s", [a_pair("a.png", "b.png")])
    return store


def a_pair(first: str, second: str) -> PairRecord:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=COUNT)
    return PairRecord(
        image0=first,
        image1=second,
        state="sound",
        kind="homography",
        model=np.eye(3),
        matches=matches,
        weight=np.ones(COUNT),
        expected_px=np.ones(COUNT),
        fine_scale=np.full((COUNT, 2), 0.5),
    )


def shard_of(store: Store) -> Path:
    return Path(store.name) / "shards" / "s.parquet"


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("what", STRANGE)
def test_a_strangers_shard_is_one_sentence(
    store: Store, tmp_path: Path, what: str, to: Format
) -> None:
    column, value, kind = STRANGE[what]
    table = pq.read_table(shard_of(store))
    at = table.schema.get_field_index(column)
    strange = pa.array([value], kind or table.schema.field(column).type)
    pq.write_table(table.set_column(at, column, strange), shard_of(store))
    with pytest.raises(FileError, match=r"s\.parquet is not a readable part") as told:
        export(store.name, to, tmp_path / "out")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("name", ["../../evil", "{}/evil", "~/evil", "..", "C:\\evil"])
def test_no_name_leads_out_of_the_output_folder(
    tmp_path: Path, name: str, to: Format
) -> None:
    if to != "csv":
        pytest.importorskip("h5py" if to == "hloc" else "pycolmap")
    store = Store.made(tmp_path / "in" / "store", Manifest(recipe={}))
    store.write("s", [a_pair(name.format(tmp_path), "b.png")])
    before = set(tmp_path.rglob("*"))
    made = export(store.name, to, tmp_path / "deep" / "out")
    after = {*tmp_path.rglob("*")} - before
    assert after == {*made.files, tmp_path / "deep", tmp_path / "deep" / "out"}


def test_no_flipped_bit_of_a_footer_is_read_as_something_else(store: Store) -> None:
    content = shard_of(store).read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    rng = np.random.default_rng(0)
    for at in rng.integers(footer, len(content), 300):
        flipped = bytearray(content)
        flipped[at] ^= 1 << rng.integers(8)
        with pytest.raises(FileError, match="is not a readable part of a store"):
            list(shards.records_in(io.BytesIO(flipped), "s"))


def test_a_seal_hides_nothing_from_other_readers(store: Store) -> None:
    table = pq.read_table(shard_of(store))
    assert table["image0"].to_pylist() == ["a.png"]
    assert len(table["x0"][0]) == COUNT


def test_a_shard_that_others_wrote_is_read(store: Store) -> None:
    pq.write_table(pq.read_table(shard_of(store)), shard_of(store))  # without a seal
    assert [pair.names for pair in store.records()] == [("a.png", "b.png")]


def test_one_number_repeated_a_billion_times_is_refused(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pq.read_table(shard_of(store))
    same = pa.array([np.zeros(300_000, np.float32)], table.schema.field("x0").type)
    bomb = table.set_column(table.schema.get_field_index("x0"), "x0", same)
    pq.write_table(bomb, shard_of(store))
    assert shard_of(store).stat().st_size < 40_000
    monkeypatch.setattr(shards, "MAX_GROUP_BYTES", 1 << 20)
    with pytest.raises(FileError, match="1 MB would have to be read at once"):
        list(store.records())


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _hole(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


def _text(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text)


MANIFESTS = {
    "a pipe": _pipe,
    "8 GB": _hole,
    "deep": _text("[" * 100_000),
    "5,000 digits": _text(MANIFEST.format('{"a": ' + "9" * 5000 + "}")),
    "a list": _text("[]"),
    "a list as recipe": _text(MANIFEST.format("[1]")),
    "no recipe": _text(MANIFEST.format("null")),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_a_strange_manifest_is_one_sentence(tmp_path: Path, what: str) -> None:
    MANIFESTS[what](tmp_path / "manifest.json")
    with pytest.raises(FileError, match=r"manifest\.json cannot be read") as told:
        Store.at(tmp_path)
    assert "\n" not in str(told.value)


def test_strange_tables_of_images_are_one_sentence(store: Store) -> None:
    table = {"name": ["a\nb"], "width": [1], "height": [1], "sha256": ["0"]}
    table |= {"bytes": [1], "modified_ns": [1]}
    folder = Path(store.name) / "images"
    folder.mkdir()
    for bad in ({}, {"name": ["a"], "modified_ns": [None]}, {"name": [None]}):
        pq.write_table(pa.table({**table, **bad}), folder / "t.parquet")
        with pytest.raises(FileError, match="is not a readable part of a store"):
            store.images()


def test_a_file_that_is_renamed_meanwhile_does_not_empty_the_listing(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Renamed:
        name = ".s2.parquet.0f"

        def is_file(self) -> bool:
            return True

        def stat(self) -> os.stat_result:
            raise FileNotFoundError(2, "No such file or directory")

    scandir = os.scandir

    class Entries:
        def __init__(self, path: Path) -> None:
            with scandir(path) as entries:
                self.entries = [*entries, Renamed()]

        def __enter__(self) -> list[object]:
            return self.entries

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(os, "scandir", Entries)
    assert list(store.shards()) == ["s"]


def test_names_that_no_store_can_hold_are_refused_before_the_work(
    tmp_path: Path,
) -> None:
    for name in ("a\nb.png", "a\0.png", "", os.fsdecode(b"\xff.png")):
        with pytest.raises(InputError, match=r"Rename the image|must have a name"):
            unique_pairs([("b.png", name)])
    for name in ("Bild 1.png", "ü\u202f.png"):
        (tmp_path / name).touch()
    assert len(unique_pairs([tuple(image_names(tmp_path))])) == 1


def test_hlocs_lists_cannot_hold_blanks_nor_its_files_like_names(
    tmp_path: Path,
) -> None:
    pytest.importorskip("h5py")
    blank = Store.made(tmp_path / "1", Manifest(recipe={}))
    blank.write("s", [a_pair("photo 1.jpg", "b.jpg")])
    with pytest.raises(InputError, match="part names at blanks"):
        export(blank.name, "hloc", tmp_path / "out")
    alike = Store.made(tmp_path / "2", Manifest(recipe={}))
    alike.write("s", [a_pair("x/1.jpg", "b.jpg"), a_pair("x-1.jpg", "b.jpg")])
    with pytest.raises(InputError, match="hloc's files cannot hold"):
        export(alike.name, "hloc", tmp_path / "out")
    assert not [*(tmp_path / "out").glob("*")]


def test_an_export_never_overwrites_what_it_reads(store: Store, tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    first = export(store.name, "hloc", tmp_path / "hloc")
    features, matches, pairs = first.files
    before = [file.read_bytes() for file in first.files]
    again, listed = ExportSettings(reference=features), ExportSettings(pairs=pairs)
    with pytest.raises(FileError, match=r"features\.h5 would be overwritten"):
        export(store.name, "hloc", tmp_path / "hloc", again)
    with pytest.raises(FileError, match=r"matches\.h5 would be overwritten"):
        export(matches, "hloc", tmp_path / "hloc", listed)
    assert [file.read_bytes() for file in first.files] == before


def test_a_database_of_somebody_else_is_not_replaced(
    store: Store, tmp_path: Path
) -> None:
    pytest.importorskip("pycolmap")
    theirs = tmp_path / "database.db"
    with closing(sqlite3.connect(theirs)) as database:
        database.execute("CREATE TABLE keypoints (image_id INTEGER)")
        database.commit()
    before = theirs.read_bytes()
    with pytest.raises(FileError, match="semisure did not write it"):
        export(store.name, "colmap", tmp_path)
    assert theirs.read_bytes() == before
    theirs.unlink()
    first = export(store.name, "colmap", tmp_path)  # and ours is, as often as we like
    assert export(store.name, "colmap", tmp_path) == first


@pytest.mark.parametrize("folder", ["models", "model"])
def test_a_reconstruction_deletes_nothing_but_models(
    store: Store, tmp_path: Path, folder: str
) -> None:
    pytest.importorskip("pycolmap")
    pytest.importorskip("pyceres")
    from semisure.mapping.reconstruction import reconstruct

    mine = tmp_path / "project" / folder / "0" / "weights.pth"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    with pytest.raises(FileError, match="which no reconstruction wrote"):
        reconstruct(store.name, tmp_path / "project")
    assert mine.read_text() == "mine"
    shutil.rmtree(tmp_path / "project")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / folder).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FileError, match="is a file or a link"):
        reconstruct(store.name, tmp_path / "project")


def test_a_model_without_a_point_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pycolmap = pytest.importorskip("pycolmap")
    from semisure.mapping import mapper as mapping

    empty = {0: pycolmap.Reconstruction()}
    monkeypatch.setattr(mapping, "_incremental", lambda *_: empty)
    with pytest.raises(FitError, match="No model could be made"):
        mapping.map_database(tmp_path / "d.db", tmp_path, tmp_path / "models")


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: AggregationSettings(cell_px=1e-300), "cell_px must lie between"),
        (lambda: AggregationSettings(cell_px=float("nan")), "cell_px must lie between"),
        (lambda: AggregationSettings(max_keypoints=-1), "max_keypoints must be"),
        (lambda: MappingSettings(workers=-7), "workers must be at least 1"),
        (lambda: CameraSettings(values=(float("nan"), 1, 1, 1)), "The camera must be"),
        (lambda: CameraSettings(values=(-5, 1, 1, 1)), "positive focal lengths"),
        (lambda: load_peer("sift", max_side=-5), "max_side must be at least 1 px"),
    ],
)
def test_absurd_settings_are_refused_before_the_work(
    make: Callable[[], object], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        make()


def test_a_strange_note_beside_frames_is_no_note(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text("[" * 100_000)
    os.mkfifo(tmp_path / "pipe.json")
    assert _note(tmp_path / "deep.json") == _note(tmp_path / "pipe.json") == {}


def test_an_image_record_is_what_a_table_holds(store: Store) -> None:
    image = ImageRecord(
        name="ü 1.png", width=3, height=2, sha256="0" * 64, bytes=9, modified_ns=1
    )
    store.write_images([image])
    assert store.images() == {"ü 1.png": image}
