"""Many pairs into one store: all there, none twice, the same bytes whoever works."""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("pyarrow", reason="needs the extra store")

from semisure.cli import app
from semisure.cli.progress import progress_lines
from semisure.engine import EngineSettings, Lost
from semisure.errors import FileError, InputError, SemisureError
from semisure.io.images import write_png
from semisure.io.store import Store
from semisure.pairs.estimation import refit_matches
from semisure.pairs.lists import (
    image_names,
    read_pairs,
    sequential_pairs,
    unique_pairs,
)
from semisure.pairs.run import match_pairs
from semisure.pairs.settings import PairSettings

HERE = EngineSettings(workers=0)
PAIRS = [("a.png", "b.png"), ("a.png", "c.png"), ("b.png", "c.png"), ("a.png", "x.png")]


def blobs(seed: int) -> np.ndarray:
    noise = np.random.default_rng(seed).normal(size=(20, 26))
    return np.uint8(128 + 40 * np.clip(noise, -3, 3)).repeat(8, 0).repeat(8, 1)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """a and b show the same, 11 px apart; c and d are c and d."""
    folder = tmp_path / "photos"
    write_png(folder / "a.png", blobs(0))
    write_png(folder / "b.png", np.roll(blobs(0), 11, axis=1))
    write_png(folder / "c.png", blobs(1))
    write_png(folder / "d.png", blobs(2))
    return folder


def files_of(store: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in (store / "shards").iterdir()}


def command(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["match-pairs", *map(str, arguments)])
    return done.exit_code, done.stdout, f"{done.output}{done.exception}"


class Counting:
    """Counts the pairs that it works on; gives up those that are `lost`."""

    def __init__(self, *lost: int, stop_after: int = 10**9) -> None:
        self.lost, self.stop_after = lost, stop_after
        self.pairs: list[tuple[str, str]] = []

    def map(self, function, batches) -> Iterator[tuple[int, object]]:
        start = 0
        for items in batches:
            if len(self.pairs) >= self.stop_after:
                raise KeyboardInterrupt
            good = [i for k, i in enumerate(items, start) if k not in self.lost]
            self.pairs += [item.names for item in items]
            answers = iter(function(good) if good else ())
            for k in range(start, start + len(items)):
                yield k, Lost("killed") if k in self.lost else next(answers)
            start += len(items)


@pytest.fixture
def run(photos: Path, tmp_path: Path):
    """A run on the photos into the store of that name, in this process."""

    def run(pairs=PAIRS, store="s", settings=None, *, engine=HERE, **more):
        store = tmp_path / store
        return match_pairs(photos, pairs, store, settings, engine=engine, **more)

    return run


def test_each_pair_is_sound_unrelated_or_failed_with_a_reason(
    run, photos, tmp_path
) -> None:
    outcome = run(store="store")
    assert outcome.states == {"sound": 1, "unrelated": 2, "failed": 1}
    assert outcome.failed == {"There is no image x.png.": [("a.png", "x.png")]}
    store = Store.at(tmp_path / "store")
    record = store.record("a.png", "b.png")
    assert record.kind == "homography"
    # Rolled by 11 px to the right, within half a pixel at the corners.
    assert record.model[:2, 2] == pytest.approx([11, 0], abs=0.5)
    assert record.weight.shape == record.expected_px.shape == (len(record.matches),)
    assert record.fine_scale.shape == (len(record.matches), 2)
    assert store.record("a.png", "x.png").matches is None
    assert store.images()["a.png"].size == (208, 160)
    assert store.manifest.images == str(photos)
    assert store.manifest.calibration.matcher == "daisy"
    # What is stored gives the same model again.
    result = refit_matches(record.matches, store.manifest.calibration)
    assert np.array_equal(result.refit.model, record.model)
    assert np.array_equal(result.refit.weight.astype(np.float32), record.weight)


def test_interrupted_runs_and_parts_give_the_bytes_of_the_whole(run, tmp_path) -> None:
    whole, part, parts = (tmp_path / name for name in ("whole", "part", "parts"))
    run(PAIRS, whole, pairs_a_shard=1)
    with pytest.raises(KeyboardInterrupt):
        run(PAIRS, part, engine=Counting(stop_after=2), pairs_a_shard=1)
    assert len(files_of(part)) == 2
    engine = Counting()
    outcome = run(PAIRS, part, engine=engine, pairs_a_shard=1)
    assert engine.pairs == PAIRS[2:]
    assert (outcome.total, outcome.earlier) == (4, 2)
    for k in (2, 1, 3):
        outcome = run(PAIRS, parts, pairs_a_shard=1, shard=f"{k}/3")
        assert outcome.total == (2 if k == 1 else 1)
    assert files_of(part) == files_of(parts) == files_of(whole)


def test_a_pair_that_kills_is_kept_with_the_reason(run, tmp_path) -> None:
    outcome = run(PAIRS[:3], engine=Counting(1))
    assert list(outcome.failed) == ["It ended every process that had it: killed."]
    store = Store.at(tmp_path / "s")
    assert store.record("a.png", "c.png").state == "failed"
    assert len(list(store.records())) == 2
    engine = Counting()
    run(PAIRS[:3], engine=engine)
    assert engine.pairs == []
    again = run(PAIRS[:3], engine=engine, retry_failed=True)
    assert engine.pairs == [("a.png", "c.png")]
    assert again.failed == {}
    assert len(list(Store.at(tmp_path / "s").records())) == 3


def test_only_a_changed_image_is_read_and_its_pairs_matched_again(
    run, photos, tmp_path, monkeypatch
) -> None:
    from semisure.pairs import run as module

    read, image_bytes = [], module.image_bytes
    monkeypatch.setattr(
        module, "image_bytes", lambda path: read.append(path.name) or image_bytes(path)
    )
    for _ in range(2):
        run(PAIRS[:2], pairs_a_shard=1)
    assert sorted(read) == ["a.png", "b.png", "c.png"]
    write_png(photos / "b.png", np.roll(blobs(0), 5, axis=0))
    engine = Counting()
    run(PAIRS[:2], engine=engine, pairs_a_shard=1)
    assert engine.pairs == [("a.png", "b.png")]
    assert read[3:] == ["b.png"]
    store = Store.at(tmp_path / "s")
    assert store.record("a.png", "b.png").model[:2, 2] == pytest.approx([0, 5], abs=0.5)
    assert len(list(store.records())) == 2


def test_matches_alone_poses_by_intrinsics_and_lines_without(run, tmp_path) -> None:
    run(PAIRS[:1], "none", PairSettings(model="none"))
    (record,) = Store.at(tmp_path / "none").records()
    assert (record.state, record.kind, record.weight) == ("matched", None, None)
    assert len(record.matches) > 20
    run(PAIRS[:1], "fov", PairSettings(model="essential", fov=60.0))
    (record,) = Store.at(tmp_path / "fov").records()
    assert record.kind == "essential"
    assert record.model.shape == (3, 4)
    # Half the width over the tangent of half the angle: 104 / tan 30° = 180.1 px.
    assert record.cameras[0][0, 0] == pytest.approx(180.1, abs=0.1)
    run(PAIRS[:1], "exif", PairSettings(model="essential", focal_from_exif=True))
    (record,) = Store.at(tmp_path / "exif").records()
    assert (record.kind, record.cameras) == ("fundamental", None)
    with pytest.raises(InputError, match="needs intrinsics"):
        PairSettings(model="essential")
    with pytest.raises(InputError, match="intrinsics must"):
        PairSettings(intrinsics=(float("nan"), 1, 1, 1))


def test_an_internal_error_loses_one_pair(run, monkeypatch) -> None:
    from semisure.pairs import batch

    honest = batch.refit_matches
    calls = iter(range(2))

    def broken(*matches, **more):
        if next(calls):
            raise np.linalg.LinAlgError("SVD did not converge")
        return honest(*matches, **more)

    monkeypatch.setattr(batch, "refit_matches", broken)
    outcome = run(PAIRS[:2])
    assert outcome.states == {"sound": 1, "failed": 1}
    assert "LinAlgError: SVD did not converge" in next(iter(outcome.failed))


def test_without_pyarrow_the_pip_line_is_reported(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    monkeypatch.delitem(sys.modules, "semisure.io.shards")
    with pytest.raises(SemisureError, match=r"pip install 'semisure\[store\]'"):
        importlib.import_module("semisure.io.shards")


# ---- lists, wrong flags --------------------------------------------------------------


def test_wrong_lists_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one is a with itself"):
        unique_pairs([("a", "a")])
    with pytest.raises(InputError, match="at least 1, but are 0"):
        sequential_pairs("abc", 0)
    write_png(tmp_path / "a.png", blobs(0))
    with pytest.raises(FileError, match="at least two images to pair, but has 1"):
        image_names(tmp_path)
    for text, words in (
        ("a b\na b c\n", "Line 2 of .* has 3"),
        ("#\n", "names no pair"),
    ):
        (tmp_path / "pairs.txt").write_text(text)
        with pytest.raises(FileError, match=words):
            read_pairs(tmp_path / "pairs.txt")


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "give one of --pairs"),
        (["--exhaustive", "--model", "essential"], "needs intrinsics"),
        (["--exhaustive", "--shard", "5/4"], "K from 1 to N"),
        (["--exhaustive", "--similar", "1"], "--similar"),
    ],
)
def test_wrong_flags_are_one_sentence(photos, tmp_path, flags, words: str) -> None:
    told = command(photos, "-o", tmp_path / "s", *flags)[2]
    assert words in " ".join(told.replace("│", " ").split())


# ---- the command ---------------------------------------------------------------------


def test_the_command_prints_what_failed_and_why(photos, tmp_path) -> None:
    (tmp_path / "pairs.txt").write_text("a.png b.png\na.png x.png\nx.png b.png\n")
    asked = (photos, "--pairs", tmp_path / "pairs.txt", "-o", tmp_path / "s")
    code, text, _ = command(*asked, "--workers", 0)
    assert code == 3
    assert text.startswith("3 pairs: 2 failed, 1 sound. 3 matched now in ")
    assert "2 × There is no image x.png. First: a.png x.png" in text
    code, text, _ = command(*asked, "--workers", 0, "--json")
    document = json.loads(text)
    assert document["pairs"] == document["already_there"] == 3
    assert document["sound"] == 1
    assert document["failures"][0]["pairs"] == 2


def test_a_log_gets_a_line_of_json_a_minute(capsys, monkeypatch) -> None:
    from semisure.cli import progress

    clock = iter([0.0, 30.0, 61.0, 90.0, 130.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    tick = progress_lines("Matching")
    for done in (10, 61, 80, 100):
        tick(done, 122)
    first, second = map(json.loads, capsys.readouterr().err.splitlines())
    assert (first["stage"], first["done"], first["total"]) == ("Matching", 61, 122)
    assert (first["per_second"], first["seconds_left"]) == (1.0, 61)
    assert second["done"] == 100
