"""Engines: every item has an answer, whoever dies, and the culprit is named."""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

import pytest

import engine_work as work
from semisure.engine import (
    Each,
    EngineSettings,
    Lost,
    in_batches,
    in_order,
    open_engine,
)
from semisure.engine import pool as pool_module
from semisure.engine.attempts import Attempts
from semisure.engine.pool import ProcessPool
from semisure.engine.ray import check_same
from semisure.errors import InputError, SemisureError
from semisure.io.cache import installed

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineSettings(workers=2)) as processes:
        yield processes


# ---- what is tried again -------------------------------------------------------------


@pytest.mark.parametrize("poison", [0, 31])
def test_a_poison_item_is_found_and_all_others_done_once(poison: int) -> None:
    left = Attempts(in_batches(range(64), 64))
    deaths, done, lost = 0, [], []
    while (attempt := left.take()) is not None:
        if poison in attempt.items:
            deaths += 1
            lost += left.died(attempt, "killed")
        else:
            done += attempt.items
    assert lost == [(poison, Lost("killed"))]
    assert sorted(done) == [k for k in range(64) if k != poison]
    assert deaths == 2 * 7  # twice each as 64, 32, 16, 8, 4, 2 and 1


# ---- processes of this machine -------------------------------------------------------


def test_answers_in_order_with_progress(engine) -> None:
    ticks = []
    answers = in_order(engine, work.square, [3, 1, 2], lambda *t: ticks.append(t))
    assert answers == [9, 1, 4]
    assert ticks == [(1, 3), (2, 3), (3, 3)]
    assert in_order(engine, work.square, []) == []


@posix
def test_the_item_that_kills_every_worker_is_named(engine) -> None:
    got = dict(engine.map(Each(work.square_unless_13), in_batches(range(16), 8)))
    assert got.pop(13) == Lost(
        "its process was ended by SIGKILL, perhaps for want of memory"
    )
    assert got == {k: k * k for k in range(16) if k != 13}
    with pytest.raises(SemisureError, match="Item 1 of 1 ended every process"):
        in_order(engine, work.square_unless_13, [13])
    lost = in_order(engine, work.square_unless_13, [13], lost=lambda item, _: -item)
    assert lost == [-13]


def test_a_death_costs_one_batch(engine, tmp_path: Path) -> None:
    function = work.DiesOnce(str(tmp_path), deadly=13)
    got = dict(engine.map(function, in_batches(range(32), 8)))
    assert got == {k: k * k for k in range(32)}
    calls = sorted(file.name.split("_")[1] for file in tmp_path.glob("calls_*"))
    assert calls == ["0", "16", "24", "8", "8"]  # that of 13 twice, the others once


def test_an_error_of_the_function_arrives_as_it_is(engine) -> None:
    with pytest.raises(InputError, match=r"7 must not be asked\.") as told:
        list(engine.map(Each(work.refused), [[7]]))
    assert "in refused" in str(told.value.__cause__)  # where it was raised
    with pytest.raises(SemisureError, match="Unpicklable: 3 and 2"):
        list(engine.map(Each(work.broken), [[3]]))
    assert in_order(engine, work.square, [2]) == [4]  # the engine still works


def test_who_stops_asking_ends_what_is_under_way(engine) -> None:
    naps = engine.map(Each(work.long_nap), [[1], [2]])
    assert list(itertools.islice(naps, 0)) == []
    naps.close()
    assert in_order(engine, work.square, [5]) == [25]


def test_workers_are_kept_and_have_one_thread(engine) -> None:
    first = set(in_order(engine, work.process, range(8)))
    assert set(in_order(engine, work.process, range(8))) == first
    assert len(first) == 2
    assert in_order(engine, work.threads, [0]) == [("1", 1)]


def test_gpus_are_spread_over_workers(monkeypatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    places = [pool_module._gpu(k, 0.5)["CUDA_VISIBLE_DEVICES"] for k in range(4)]
    assert places == ["0", "0", "1", "1"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    places = [pool_module._gpu(k, 1.0)["CUDA_VISIBLE_DEVICES"] for k in range(3)]
    assert places == ["3", "5", "3"]


@pytest.mark.slow
def test_processes_that_cannot_start_are_one_sentence(monkeypatch) -> None:
    monkeypatch.setattr(pool_module, "_work", work.dies_at_start)
    engine = ProcessPool(1)
    with pytest.raises(SemisureError, match=r"end before they begin: .* exit code 3\."):
        list(engine.map(Each(work.square), [[1]]))
    engine.close()


def test_a_worker_with_other_libraries_is_refused() -> None:
    with pytest.raises(InputError, match=r"has numpy 2.* but the driver has 1\.0"):
        check_same({**installed(), "numpy": "1.0"}, "The node x")
    with pytest.raises(InputError, match="has torchx not installed, but the driver"):
        check_same({**installed(), "torchx": "2"}, "The node x")


# ---- settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "slurm"}, "engine must be one of local, ray, but is 'slurm'"),
        ({"workers": -1}, "workers must be at least 0"),
        ({"address": "auto"}, "An address is for the engine of kind ray"),
        ({"kind": "ray"}, r"pip install 'semisure\[cluster\]'"),
    ],
)
def test_wrong_settings_are_one_sentence(settings, words: str, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(SemisureError, match=words),
        open_engine(EngineSettings(**settings)),
    ):
        pass
