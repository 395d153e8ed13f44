"""The store of pairs: what goes in comes out, once, named by what made it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs the extra store")

from ball_scene import image_record
from semisure.errors import FileError, InputError
from semisure.io.files import calibration_document, load_calibration
from semisure.io.shards import PAIRS_A_GROUP
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
    return replace(image_record(name), sha256=sha256, modified_ns=modified_ns)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.made(tmp_path / "store", MANIFEST)


def test_a_pair_comes_back_with_all_its_cues(store: Store) -> None:
    record = a_record(cameras=(np.eye(3), 2 * np.eye(3)), reasons=("one", "two"))
    store.write([record])
    (back,) = Store.at(store.folder).records()
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
    for name in ("source", "target", "confidence", "fine_std", "coarse_std", "side"):
        exact = getattr(record.matches, name).astype(np.float32)
        assert np.array_equal(getattr(back.matches, name), exact), name
    assert back.weight == pytest.approx(record.weight, abs=1e-7)
    assert back.fine_scale.tolist() == record.fine_scale.tolist()


def test_what_a_pair_lacks_stays_missing(store: Store) -> None:
    matches = a_record().matches
    cell = np.tile([[4.0, 0.0, 20.0], [0.0, 4.0, 28.0]], (50, 1, 1))
    tiny = np.full(50, 1e-60)  # float32 has no such confidence
    cells = a_record(
        1, matches=replace(matches, cell=cell, confidence=tiny), weight=None
    )
    nothing = np.zeros(0)
    empty = a_record(
        2, matches=matches.take(slice(0)), weight=nothing, expected_px=nothing,
        fine_scale=np.zeros((0, 2)),
    )  # fmt: skip
    failed = PairRecord(image0="a", image1="b", state="failed", reasons=("no a",))
    store.write([failed, a_record(), cells, empty])
    plain, back, without = store.records()
    assert plain.matches.cell is None
    assert np.array_equal(back.matches.cell, cell)
    assert back.weight is None
    assert (back.matches.confidence > 0).all()
    assert len(without.matches) == 0
    assert [pair.state for pair in store.summaries()] == [*["sound"] * 3, "failed"]
    assert store.record("a", "b").reasons == ("no a",)
    assert store.record("b", "a") is None


def test_a_success_counts_more_than_an_earlier_failure(store: Store) -> None:
    failed = PairRecord(image0="0.jpg", image1="b/ü.jpg", state="failed")
    others = [a_record(seed) for seed in (1, 2)]
    store.write([failed])
    for other in others:  # the same pair in two shards comes once
        store.write([a_record(), other])
    store.write([failed, *others])
    assert store.record("0.jpg", "b/ü.jpg").state == "sound"
    assert len(list(store.records())) == 3
    assert [pair.state for pair in store.summaries()] == ["sound"] * 3


def test_any_pair_of_a_long_shard_is_found(store: Store) -> None:
    count = 2 * PAIRS_A_GROUP + 3
    store.write([a_record(seed=k, count=8) for k in range(count)])
    for k in (0, PAIRS_A_GROUP - 1, PAIRS_A_GROUP, count - 1):
        source = SyntheticMatcher().match(np.eye(3), count=8, seed=k)[0].source
        back = store.record(f"{k}.jpg", "b/ü.jpg").matches.source
        assert np.array_equal(back, source.astype(np.float32))


def test_tables_of_images_add_up_and_the_newest_counts(store: Store) -> None:
    store.write_images([an_image("a", "1" * 64, modified_ns=2), an_image("b")])
    store.write_images([an_image("a", "2" * 64, modified_ns=3), an_image("c")])
    store.write_images([an_image("a", "1" * 64, modified_ns=2)])
    images = store.images()
    assert list(images) == ["a", "b", "c"]
    assert (images["a"].digest, images["b"].size) == ("2" * 16, (640, 480))


def test_pairs_of_an_image_that_changed_are_passed_over(store: Store) -> None:
    for digit in "12":
        store.write([a_record(digest0=digit * 16, reasons=(digit,))])
    store.write_images([an_image("0.jpg", "2" * 64)])
    assert [r.reasons for r in store.records()] == [("2",)]
    assert [r.reasons for r in store.summaries()] == [("2",)]
    assert store.record("0.jpg", "b/ü.jpg").reasons == ("2",)


def test_a_shard_is_named_by_recipe_names_and_contents(store: Store, tmp_path) -> None:
    other = Store.made(tmp_path / "other", Manifest(recipe={"matcher": "another"}))
    pair = PairRecord(image0="a", image1="b", state="failed", digest0="1", digest1="2")
    contents = [
        [pair], [pair, pair], [replace(pair, digest1="3")],
        [replace(pair, image0="b", image1="a")],
    ]  # fmt: skip
    for records in [*contents, *contents]:
        store.write(records)
    other.write([pair])
    names = {shard.name for shard in [*store.shards(), *other.shards()]}
    assert len(store.shards()) == 4
    assert len(names) == 5
    before = [shard.read_bytes() for shard in store.shards()]
    store.write([pair])
    assert [shard.read_bytes() for shard in store.shards()] == before


def test_another_recipe_is_refused_with_what_differs(store: Store) -> None:
    recipe = {**MANIFEST.recipe, "threshold_px": 1.0}
    with pytest.raises(InputError, match=r"threshold_px was 3.0 and is 1.0\. Choose"):
        Store.made(store.folder, Manifest(recipe=recipe))
    assert Store.made(store.folder, MANIFEST).manifest.key == MANIFEST.key
    with pytest.raises(InputError, match="A store is a folder"):
        Store.made("s3://bucket/store", MANIFEST)


def test_the_calibration_is_in_the_manifest(tmp_path: Path) -> None:
    daisy = load_calibration("daisy")
    recipe = {"calibration": calibration_document(daisy)}
    Store.made(tmp_path, Manifest(recipe=recipe, images="photos"))
    manifest = Store.at(tmp_path).manifest
    assert manifest.calibration == daisy
    assert manifest.images == "photos"
    assert MANIFEST.calibration is None


# ---- damage --------------------------------------------------------------------------


def test_a_damaged_shard_is_one_sentence(store: Store) -> None:
    store.write([a_record(count=400)])
    (file,) = store.shards()
    sound = file.read_bytes()
    half = len(sound) // 2
    changed = bytes([sound[half] ^ 0xFF])
    for damaged in (sound[:half], sound[:half] + changed + sound[half + 1 :], b"hello"):
        file.write_bytes(damaged)
        with pytest.raises(FileError, match="Delete it and run the command again"):
            list(store.records())


def test_half_written_files_are_no_part_of_a_store(store: Store) -> None:
    store.write([a_record()])
    store.write_images([an_image("a")])
    for folder in ("shards", "images"):  # as a process that was killed leaves them
        (store.folder / folder / ".t.parquet.4f3a").write_bytes(b"PAR1")
    (shard,) = store.shards()
    assert store.total_bytes() == shard.stat().st_size
    assert list(store.images()) == ["a"]


@pytest.mark.parametrize("text", ["[" * 100_000, '{"format": "other"}', "[1]"])
def test_a_strange_manifest_is_one_sentence(tmp_path: Path, text: str) -> None:
    with pytest.raises(FileError, match=r"is no store: it has no manifest\.json"):
        Store.at(tmp_path)
    (tmp_path / "manifest.json").write_text(text)
    with pytest.raises(FileError, match=r"manifest\.json cannot be read") as told:
        Store.at(tmp_path)
    assert "\n" not in str(told.value)
