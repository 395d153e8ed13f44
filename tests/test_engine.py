"""Engines: every item has an answer, whoever dies, and the culprit is named."""

from __future__ import annotations

import itertools
import pickle
import sys
from pathlib import Path
from types import SimpleNamespace

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
from semisure.engine.pool import Attempts, ProcessPool
from semisure.engine.ray import RayEngine, check_same
from semisure.errors import InputError, SemisureError
from semisure.io.cache import installed

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")


@pytest.fixture(scope="module")
def engine():
    with open_engine(EngineSettings(workers=2)) as processes:
        yield processes


# ---- what is tried again -------------------------------------------------------------


@pytest.mark.parametrize("poison", [0, 31, 63])
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
    # Twice whole, once each as 32, 16, 8, 4, 2, and twice alone.
    assert deaths == 2 + 5 + 2


def test_batches_are_asked_for_when_they_are_needed_and_empty_ones_passed_over() -> (
    None
):
    asked = []
    left = Attempts((asked.append(k) or [k] * min(k, 1)) for k in range(1000))
    assert left.take().items == [1]
    assert asked == [0, 1]


# ---- processes of this machine -------------------------------------------------------


def test_answers_in_order_with_progress(engine) -> None:
    ticks = []
    answers = in_order(
        engine, work.square, [3, 1, 2], lambda *t: ticks.append(t), batch=2
    )
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


@posix
def test_a_loss_is_an_error_where_it_is_not_foreseen(engine) -> None:
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
    assert pool_module._gpu(0, 0.0) == {}


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


# ---- Ray's rules, without Ray --------------------------------------------------------


class FakeRay:
    """Runs a task when it is waited for; `fate` may raise in its stead, once each."""

    class exceptions:
        class RayError(Exception): ...

        class NodeDiedError(RayError): ...

        class WorkerCrashedError(RayError): ...

        class OutOfMemoryError(RayError): ...

        class LocalRayletDiedError(RayError): ...

        class ObjectLostError(RayError): ...

        class RayTaskError(RayError):
            def __init__(self, cause: Exception) -> None:
                super().__init__("a task failed")
                self.cause = cause

    cloudpickle = pickle

    def __init__(self, cpus: float = 2, **fate: Exception) -> None:
        self.cpus, self.fate = cpus, fate
        self.tasks: dict[str, tuple] = {}
        self.most_at_once, self.submitted, self.cancelled = 0, [], []

    def put(self, value):
        return value

    def remote(self, **options):
        self.options = options
        return lambda function: SimpleNamespace(
            remote=lambda *arguments: self._submit(function, arguments)
        )

    def _submit(self, function, arguments) -> str:
        name = f"task{len(self.submitted)}"
        self.submitted.append(list(arguments[1]))
        self.tasks[name] = function, arguments
        self.most_at_once = max(self.most_at_once, len(self.tasks))
        return name

    def wait(self, references, num_returns, timeout):
        return ([], references) if not self.cpus else (references[:1], references[1:])

    def get(self, reference):
        function, arguments = self.tasks.pop(reference)
        if reference in self.fate:
            raise self.fate[reference]
        return function(*arguments)

    def cancel(self, reference, force):
        self.cancelled.append(reference)

    def cluster_resources(self):
        return {"CPU": self.cpus} if self.cpus else {}


def on_fake_ray(ray: FakeRay, **settings) -> RayEngine:
    return RayEngine(ray, EngineSettings(kind="ray", **settings))


def test_two_batches_a_slot_wait_and_workers_stay() -> None:
    ray = FakeRay(cpus=2)
    got = dict(on_fake_ray(ray).map(Each(work.square), in_batches(range(40), 2)))
    assert got == {k: k * k for k in range(40)}
    assert ray.most_at_once == 4
    # Ray retries nothing by itself, and keeps a process with a GPU for the next task.
    assert (ray.options["max_retries"], ray.options["max_calls"]) == (0, 0)


def test_a_lost_node_is_no_fault_of_its_batches() -> None:
    errors = FakeRay.exceptions
    died = {f"task{k}": errors.NodeDiedError() for k in (0, 2, 3)}
    ray = FakeRay(cpus=1, **died)
    got = dict(on_fake_ray(ray, workers=1).map(Each(work.square), [[1, 2], [3, 4]]))
    assert got == {0: 1, 1: 4, 2: 9, 3: 16}
    assert ray.submitted.count([1, 2]) + ray.submitted.count([3, 4]) == 5  # never split


def test_a_batch_that_kills_two_workers_is_split() -> None:
    errors = FakeRay.exceptions
    ray = FakeRay(task0=errors.WorkerCrashedError(), task1=errors.OutOfMemoryError())
    got = dict(on_fake_ray(ray).map(Each(work.square), [[1, 2]]))
    assert got == {0: 1, 1: 4}
    assert ray.submitted == [[1, 2], [1, 2], [1], [2]]
    ray = FakeRay(task0=errors.WorkerCrashedError(), task1=errors.WorkerCrashedError())
    ((index, answer),) = on_fake_ray(ray).map(Each(work.square), [[1]])
    assert (index, answer) == (0, Lost("its process died (WorkerCrashedError)"))


def test_an_error_on_a_cluster_arrives_as_it_is_and_ends_the_rest() -> None:
    ray = FakeRay(task0=FakeRay.exceptions.RayTaskError(InputError("No such thing.")))
    with pytest.raises(InputError, match=r"No such thing\."):
        list(on_fake_ray(ray).map(Each(work.square), [[1], [2], [3]]))
    assert ray.cancelled == ["task1", "task2"]


def test_a_cluster_that_can_run_nothing_is_one_sentence() -> None:
    with pytest.raises(SemisureError, match="all nodes together have 0 CPU and 0 GPU"):
        list(on_fake_ray(FakeRay(cpus=0)).map(Each(work.square), [[1]]))


# ---- settings ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"kind": "slurm"}, "engine must be one of local, ray, but is 'slurm'"),
        ({"workers": -1}, "workers must be at least 0"),
        ({"gpus_per_worker": -0.5}, "gpus_per_worker must lie between 0 and 16"),
        ({"address": "auto"}, "An address is for the engine of kind ray"),
    ],
)
def test_wrong_settings_are_one_sentence(settings, words: str) -> None:
    with pytest.raises(InputError, match=words):
        EngineSettings(**settings)


def test_without_ray_the_pip_line_is_reported(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(SemisureError, match=r"pip install 'semisure\[cluster\]'"),
        open_engine(EngineSettings(kind="ray")),
    ):
        pass
