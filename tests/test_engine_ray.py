"""A real Ray of a head and a node: whoever is killed, every pair is there."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra store")
pytest.importorskip("ray", reason="needs the extra cluster")

from many_pairs import A_SHARD, PAIRS, finished, shards, start, write_photos
from process_trees import kill, wait_until
from ray_cluster import Cluster
from semisure.engine import EngineSettings, open_engine
from semisure.errors import InputError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]


@pytest.fixture(scope="module")
def cluster():
    # Ray's sockets lie in its folder, and their paths must be short: pytest's own
    # folders are too deep where tests run in several processes.
    with tempfile.TemporaryDirectory(prefix="r", ignore_cleanup_errors=True) as folder:
        made = Cluster(Path(folder) / "t")
        try:
            made.add_node()
            yield made
        finally:
            made.end()


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def by_processes(photos: Path, tmp_path_factory) -> dict[str, bytes]:
    """What processes of this machine write."""
    store = tmp_path_factory.mktemp("store")
    assert finished(start(photos, store, "--workers", 1))["sound"] == PAIRS
    return shards(store)


def on(cluster: Cluster, more: str = "") -> str:
    return f'[engine]\nkind = "ray"\naddress = "{cluster.address}"\n{more}'


def test_a_killed_worker_costs_nothing_but_time(
    cluster, photos, by_processes, tmp_path
) -> None:
    run = start(photos, tmp_path, settings=on(cluster))
    busy: list[int] = []
    wait_until(lambda: len(shards(tmp_path)) >= 2)
    wait_until(lambda: busy.extend(cluster.workers()) or busy)
    kill(busy[0])
    told = finished(run)
    assert (told["sound"], told["failures"]) == (PAIRS, [])
    assert shards(tmp_path) == by_processes


def test_a_killed_driver_goes_on_where_it_was(
    cluster, photos, by_processes, tmp_path
) -> None:
    run = start(photos, tmp_path, settings=on(cluster))
    wait_until(lambda: len(shards(tmp_path)) >= 2)
    kill(run.pid)
    run.communicate()
    wait_until(lambda: not cluster.workers())
    there = len(shards(tmp_path))
    assert there < len(by_processes)
    told = finished(start(photos, tmp_path, settings=on(cluster)))
    assert told["already_there"] in (A_SHARD * there, A_SHARD * there - 1)
    assert told["sound"] == PAIRS
    assert shards(tmp_path) == by_processes


@pytest.mark.parametrize("address", ["127.0.0.1:9", "junk", "[::1]:99999", "ray://:1"])
def test_where_nobody_answers_there_is_no_ray(address: str) -> None:
    with (
        pytest.raises(InputError, match="There is no Ray at"),
        open_engine(EngineSettings(kind="ray", address=address)),
    ):
        pass


def test_what_no_node_has_is_one_sentence_within_a_minute(
    cluster, photos, tmp_path
) -> None:
    began = time.monotonic()
    run = start(photos, tmp_path, settings=on(cluster, "gpus_per_worker = 0.5"))
    _, errors = run.communicate(timeout=120)
    assert run.returncode == 1
    assert (
        "a worker needs 1 CPU and 0.5 GPU, and all nodes together have 2 CPU and 0 GPU."
        in errors
    )
    assert time.monotonic() - began < 100  # 60 on a machine with nothing else to do


def test_a_killed_node_leaves_its_work_to_the_others(
    cluster, photos, by_processes, tmp_path
) -> None:
    run = start(photos, tmp_path, settings=on(cluster))
    wait_until(lambda: len(shards(tmp_path)) >= 2 and len(cluster.workers()) == 2)
    cluster.kill(cluster.nodes.pop())  # the head's one processor is busy
    told = finished(run)
    assert (told["sound"], told["failures"]) == (PAIRS, [])
    assert shards(tmp_path) == by_processes
