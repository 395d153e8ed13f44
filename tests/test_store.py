"""The store of pairs: what goes in comes out, once, named by what made it."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs the extra store")

import pyarrow as pa
import pyarrow.parquet as pq

from semisure.errors import FileError, InputError
from semisure.io.files import calibration_document, load_calibration
from semisure.io.shards import PAIRS_A_GROUP, parquet_of
from semisure.io.store import Manifest, Store
from semisure.synthetic import SyntheticMatcher
from semisure.types.pair_records import ImageRecord, PairRecord

MANIFEST = Manifest(recipe={"matcher": {"name": "mine"}, "threshold_px": 3.0})


def a_record(seed: int = 0, count: int = 50, **more) -> PairRecord:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=count, seed=seed)
    known = {
        "image0": f"{seed}.jpg",
        "image1": "b/ü.jpg",
        "state": "sound",
        "probability": 0.97,
        "model_failure": 1e-30,
        "kind": "homography",
        "model": np.array([[1, 1e-17, 3], [0, 1, 4], [1e-9, 0, 1]]),
        "matches": matches,
        "weight": np.linspace(0, 1, count),
        "expected_px": np.linspace(1, 2, count),
        "fine_scale": np.full((count, 2), 0.5),
    }
    return PairRecord(**known | more)


def an_image(name: str, sha256: str = "0" * 64, modified_ns: int = 1) -> ImageRecord:
    return ImageRecord(
        name=name,
        width=640,
        height=480,
        sha256=sha256,
        bytes=9,
        modified_ns=modified_ns,
    )


@pytest.fixture(params=["folder", "memory"])
def store(request, tmp_path: Path) -> Store:
    if request.param == "memory":
        pytest.importorskip("fsspec", reason="needs the extra store")
        return Store.made(f"memory://{tmp_path.name}", MANIFEST)
    return Store.made(tmp_path, MANIFEST)


def test_a_pair_comes_back_with_all_its_cues(store: Store) -> None:
    record = a_record(cameras=(np.eye(3), 2 * np.eye(3)), reasons=("one", "two"))
    store.write("s", [record])
    (back,) = Store.at(store.name).records()
    assert back.names == ("0.jpg", "b/ü.jpg")
    assert (back.state, back.kind, back.reasons) == (
        "sound",
        "homography",
        ("one", "two"),
    )
    assert np.array_equal(back.model, record.model)  # float64, bit for bit
    assert np.array_equal(back.cameras[1], 2 * np.eye(3))
    assert back.match_count == len(back.matches) == 50
    assert back.matches.target_size == record.matches.target_size
    for name in ("source", "target", "confidence", "fine_std", "coarse_std"):
        exact = getattr(record.matches, name)
        assert np.array_equal(getattr(back.matches, name), exact.astype(np.float32)), (
            name
        )
    assert np.array_equal(back.matches.side, record.matches.side)
    assert back.weight == pytest.approx(record.weight, abs=1e-7)
    assert back.fine_scale.tolist() == record.fine_scale.tolist()


def test_cells_come_back_and_none_stays_none(store: Store) -> None:
    plain = a_record(seed=1)
    cell = np.tile([[4.0, 0.0, 20.0], [0.0, 4.0, 28.0]], (50, 1, 1))
    with_cells = a_record(
        seed=2, matches=replace(plain.matches, cell=cell), weight=None
    )
    store.write("s", [plain, with_cells])
    records = list(store.records())
    assert records[0].matches.cell is None
    assert np.array_equal(records[1].matches.cell, cell)
    assert records[1].weight is None


def test_a_pair_without_matches_and_a_pair_that_failed(store: Store) -> None:
    empty = a_record(
        matches=a_record().matches.take(slice(0)),
        weight=np.zeros(0),
        expected_px=np.zeros(0),
        fine_scale=np.zeros((0, 2)),
    )
    failed = PairRecord(image0="a", image1="b", state="failed", reasons=("no a",))
    store.write("s", [empty, failed])
    (back,) = store.records()
    assert len(back.matches) == 0
    assert [p.state for p in store.summaries()] == ["sound", "failed"]
    assert store.record("a", "b").reasons == ("no a",)
    assert store.record("b", "a") is None


def test_a_success_counts_more_than_an_earlier_failure(store: Store) -> None:
    failed = PairRecord(image0="0.jpg", image1="b/ü.jpg", state="failed")
    store.write("z", [failed])
    for shard in "ab":  # the same pair in two shards comes once
        store.write(shard, [a_record()])
    assert store.record("0.jpg", "b/ü.jpg").state == "sound"
    assert len(list(store.records())) == 1
    assert [pair.state for pair in store.summaries()] == ["sound"]


def test_any_pair_of_a_long_shard_is_found(store: Store) -> None:
    count = 2 * PAIRS_A_GROUP + 3
    store.write("s", [a_record(seed=k, count=8) for k in range(count)])
    for k in (0, PAIRS_A_GROUP - 1, PAIRS_A_GROUP, count - 1):
        source = SyntheticMatcher().match(np.eye(3), count=8, seed=k)[0].source
        back = store.record(f"{k}.jpg", "b/ü.jpg").matches.source
        assert np.array_equal(back, source.astype(np.float32))


def test_the_same_pairs_give_the_same_bytes() -> None:
    assert parquet_of([a_record()]) == parquet_of([a_record()])


def test_a_confidence_that_float32_lacks_is_not_lost(store: Store) -> None:
    matches = replace(a_record().matches, confidence=np.full(50, 1e-60))
    store.write("s", [a_record(matches=matches)])
    (back,) = store.records()
    assert (back.matches.confidence > 0).all()


def test_tables_of_images_add_up_and_the_newest_counts(store: Store) -> None:
    store.write_images([an_image("a", "1" * 64, modified_ns=2), an_image("b")])
    store.write_images([an_image("a", "2" * 64, modified_ns=3), an_image("c")])
    store.write_images([an_image("a", "1" * 64, modified_ns=2)])
    images = store.images()
    assert list(images) == ["a", "b", "c"]
    assert (images["a"].digest, images["b"].size) == ("2" * 16, (640, 480))


def test_pairs_of_an_image_that_changed_are_passed_over(store: Store) -> None:
    old, new = (a_record(digest0=digit * 16, reasons=(digit,)) for digit in "12")
    store.write("one", [old])
    store.write("two", [new])
    store.write_images([an_image("0.jpg", "2" * 64)])
    assert [r.reasons for r in store.records()] == [("2",)]
    assert [r.reasons for r in store.summaries()] == [("2",)]
    assert store.record("0.jpg", "b/ü.jpg").reasons == ("2",)


def test_a_shard_is_named_by_recipe_names_and_contents(store: Store, tmp_path) -> None:
    images = {"a": "1", "b": "2"}
    name = store.shard_of([("a", "b")], images)
    assert name == store.shard_of([("a", "b")], images)
    changed = {**images, "b": "3"}
    other = Store.made(tmp_path / "other", Manifest(recipe={"matcher": "another"}))
    names = {
        name,
        store.shard_of([("b", "a")], images),
        store.shard_of([("a", "b")], changed),
        store.shard_of([("a", "b"), ("a", "b")], images),
        other.shard_of([("a", "b")], images),
    }
    assert len(names) == 5


def test_another_recipe_is_refused_with_what_differs(store: Store) -> None:
    recipe = {**MANIFEST.recipe, "threshold_px": 1.0}
    with pytest.raises(InputError, match=r"threshold_px was 3.0 and is 1.0\. Choose"):
        Store.made(store.name, Manifest(recipe=recipe))
    assert Store.made(store.name, MANIFEST).manifest.key == MANIFEST.key


def test_the_calibration_is_in_the_manifest(tmp_path: Path) -> None:
    daisy = load_calibration("daisy")
    recipe = {"calibration": calibration_document(daisy)}
    Store.made(tmp_path, Manifest(recipe=recipe, images="photos"))
    manifest = Store.at(tmp_path).manifest
    assert manifest.calibration == daisy
    assert manifest.images == "photos"
    assert MANIFEST.calibration is None


def test_what_is_no_store_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"is no store: it has no manifest\.json"):
        Store.at(tmp_path)


@pytest.mark.parametrize("damage", ["truncated", "a byte changed", "no Parquet"])
def test_a_damaged_shard_is_one_sentence(tmp_path: Path, damage: str) -> None:
    store = Store.made(tmp_path, MANIFEST)
    store.write("s", [a_record(count=400)])
    file = tmp_path / "shards" / "s.parquet"
    content = bytearray(file.read_bytes())
    if damage == "truncated":
        content = content[: len(content) // 2]
    elif damage == "no Parquet":
        content = bytearray(b"hello")
    else:
        content[len(content) // 2] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(FileError, match="Delete it and run the command again"):
        list(store.records())


def test_half_written_files_are_no_part_of_a_store(tmp_path: Path) -> None:
    store = Store.made(tmp_path, MANIFEST)
    store.write("s", [a_record()])
    store.write_images([an_image("a")])
    for folder in ("shards", "images"):  # as a process that was killed leaves them
        (tmp_path / folder / ".t.parquet.4f3a").write_bytes(b"PAR1")
    assert store.shards() == ["s"]
    assert store.total_bytes() == (tmp_path / "shards" / "s.parquet").stat().st_size
    assert list(store.images()) == ["a"]


# ---- what strangers put there --------------------------------------------------------


@pytest.fixture
def strange(tmp_path: Path) -> Store:
    store = Store.made(tmp_path / "store", MANIFEST)
    store.write("s", [a_record()])
    return store


STRANGE = {
    "a number as name": ("image0", 5, pa.int64()),
    "a line break": ("image0", "a\nb", pa.string()),
    "an unknown state": ("state", "splendid", pa.string()),
    "no count": ("match_count", None, pa.int32()),
    "a pose that is a homography": ("kind", "essential", pa.string()),
    "a vector as model": ("model", [1.0, 2.0, 3.0], pa.list_(pa.float64())),
    "a model of NaN": ("model", [float("nan")] * 9, pa.list_(pa.float64())),
    "a kind without a model": ("model", None, pa.list_(pa.float64())),
    "one weight": ("weight", [1.0], pa.list_(pa.float32())),
    "coordinates of 1e24": ("x0", [1e24] * 50, pa.list_(pa.float32())),
    "no width": ("width0", None, pa.int32()),
}


@pytest.mark.parametrize("what", STRANGE)
def test_a_strangers_shard_is_one_sentence(strange: Store, what: str) -> None:
    column, value, kind = STRANGE[what]
    file = Path(strange.name) / "shards" / "s.parquet"
    table = pq.read_table(file)
    at = table.schema.get_field_index(column)
    field = pa.field(column, kind, nullable=table.schema.field(at).nullable)
    if value is None:
        field = field.with_nullable(True)
    pq.write_table(table.set_column(at, field, pa.array([value], kind)), file)
    with pytest.raises(FileError, match=r"s\.parquet is not a readable part") as told:
        list(strange.records())
    assert "\n" not in str(told.value)


def test_other_readers_find_names_and_lists_and_what_they_write_is_read(
    strange: Store,
) -> None:
    file = Path(strange.name) / "shards" / "s.parquet"
    table = pq.read_table(file)
    assert table["image0"].to_pylist() == ["0.jpg"]
    assert len(table["x0"][0]) == 50
    pq.write_table(table, file)
    assert [pair.names for pair in strange.records()] == [("0.jpg", "b/ü.jpg")]


MANIFEST_TEXT = (
    '{{"format": "semisure-store", "schema_version": 1, "images": "", "recipe": {}}}'
)


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
    "another format": _text('{"format": "other"}'),
    "a list as recipe": _text(MANIFEST_TEXT.format("[1]")),
}


@pytest.mark.parametrize("what", MANIFESTS)
def test_a_strange_manifest_is_one_sentence(tmp_path: Path, what: str) -> None:
    MANIFESTS[what](tmp_path / "manifest.json")
    with pytest.raises(FileError, match=r"manifest\.json cannot be read") as told:
        Store.at(tmp_path)
    assert "\n" not in str(told.value)


def test_strange_tables_of_images_are_one_sentence(strange: Store) -> None:
    table = {"name": ["a\nb"], "width": [1], "height": [1], "sha256": ["0"]}
    table |= {"bytes": [1], "modified_ns": [1]}
    folder = Path(strange.name) / "images"
    folder.mkdir()
    for bad in ({}, {"name": ["a"], "modified_ns": [None]}, {"name": [None]}):
        pq.write_table(pa.table({**table, **bad}), folder / "t.parquet")
        with pytest.raises(FileError, match="is not a readable part of a store"):
            strange.images()
