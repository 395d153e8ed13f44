"""Kills in the middle of a run, here and on a Ray: every pair is there, same bytes."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra store")

import engine_work as work
from processes import (
    A_SHARD,
    PAIRS,
    Cluster,
    command_line,
    descendants,
    finished,
    kill,
    shards,
    start,
    wait_until,
    write_photos,
)
from semisure.engine import Each, EngineSettings, Lost, in_batches, open_engine
from semisure.errors import InputError, SemisureError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]
HERE = "[engine]\nworkers = 2"


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def undisturbed(photos: Path, tmp_path_factory) -> dict[str, bytes]:
    """What one process of this machine writes."""
    store = tmp_path_factory.mktemp("store") / "s"
    told = finished(start(photos, store, "[engine]\nworkers = 1"))
    assert told["pairs"] == told["sound"] == PAIRS
    return shards(store)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    pytest.importorskip("ray", reason="needs the extra cluster")
    # Ray's sockets lie in its folder, and their paths must be short: pytest's own
    # folders are too deep where tests run in several processes.
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        made = Cluster(Path(folder))
        yield made
        while made.nodes:
            made.kill_last()


def on(cluster: Cluster) -> str:
    return f'[engine]\nkind = "ray"\naddress = "{cluster.address}"'


@pytest.fixture(params=["here", "ray"])
def engine(request) -> str:
    if request.param == "here":
        return HERE
    return on(request.getfixturevalue("cluster"))


def workers(run: subprocess.Popen[str], engine: str, request) -> list[int]:
    """The processes that match pairs now."""
    if engine != HERE:
        return request.getfixturevalue("cluster").workers()
    return [p for p in descendants(run.pid) if "spawn_main" in command_line(p)]


def test_a_killed_worker_costs_nothing_but_time(
    photos, undisturbed, engine: str, tmp_path, request
) -> None:
    run, busy = start(photos, tmp_path / "s", engine), []
    wait_until(lambda: len(shards(tmp_path / "s")) >= 2)
    wait_until(lambda: busy.extend(workers(run, engine, request)) or busy)
    kill(busy[0])
    told = finished(run)
    assert (told["sound"], told["failures"]) == (PAIRS, [])
    assert shards(tmp_path / "s") == undisturbed


def test_a_killed_driver_goes_on_where_it_was(
    photos, undisturbed, engine: str, tmp_path, request
) -> None:
    run = start(photos, tmp_path / "s", engine)
    wait_until(lambda: len(shards(tmp_path / "s")) >= 2)
    children = workers(run, engine, request)
    kill(run.pid)
    run.communicate()  # workers end with it
    if engine == HERE:
        wait_until(lambda: not any(map(command_line, children)))
    else:
        wait_until(lambda: not workers(run, engine, request))
    there = len(shards(tmp_path / "s"))
    assert there < len(undisturbed)
    told = finished(start(photos, tmp_path / "s", engine))
    # Whatever was in place is not done again; one of the shards has one pair.
    assert told["already_there"] in (A_SHARD * there, A_SHARD * there - 1)
    assert told["sound"] == PAIRS
    assert shards(tmp_path / "s") == undisturbed


def test_a_cluster_follows_the_rules_of_one_machine(cluster) -> None:
    with (
        pytest.raises(InputError, match="There is no Ray at"),
        open_engine(EngineSettings(kind="ray", address="127.0.0.1:9")),
    ):
        pass
    on_ray = EngineSettings(kind="ray", address=cluster.address)
    with open_engine(on_ray) as engine:
        got = dict(engine.map(Each(work.square_unless_13), in_batches(range(16), 8)))
        assert got.pop(13) == Lost("its process died (WorkerCrashedError)")
        assert got == {k: k * k for k in range(16) if k != 13}
        with pytest.raises(InputError, match=r"7 must not be asked\."):
            list(engine.map(Each(work.refused), [[7]]))
    with (
        open_engine(replace(on_ray, gpus_per_worker=0.5)) as engine,
        pytest.raises(SemisureError, match=r"nodes together have 2 CPU and 0 GPU\."),
    ):
        list(engine.map(Each(work.square), [[1]]))


def test_a_killed_node_leaves_its_work_to_the_others(
    cluster, photos, undisturbed, tmp_path
) -> None:
    run = start(photos, tmp_path / "s", on(cluster))
    wait_until(lambda: len(shards(tmp_path / "s")) >= 2 and len(cluster.workers()) == 2)
    cluster.kill_last()  # the head's one processor is busy
    told = finished(run)
    assert (told["sound"], told["failures"]) == (PAIRS, [])
    assert shards(tmp_path / "s") == undisturbed
