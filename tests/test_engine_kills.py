"""Kills in the middle of a run on this machine: every pair is there, the same bytes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="needs the extra store")

from many_pairs import A_SHARD, PAIRS, finished, shards, start, write_photos
from process_trees import command_line, descendants, kill, wait_until

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="needs /proc"),
]


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Path:
    return write_photos(tmp_path_factory.mktemp("photos"))


@pytest.fixture(scope="module")
def undisturbed(photos: Path, tmp_path_factory) -> dict[str, bytes]:
    store = tmp_path_factory.mktemp("store")
    told = finished(start(photos, store, "--workers", 1))
    assert told["pairs"] == told["sound"] == PAIRS
    return shards(store)


def workers_of(driver: int) -> list[int]:
    return [p for p in descendants(driver) if "spawn_main" in command_line(p)]


def test_a_killed_worker_costs_nothing_but_time(photos, undisturbed, tmp_path) -> None:
    run = start(photos, tmp_path, "--workers", 2)
    wait_until(lambda: len(shards(tmp_path)) >= 2)
    kill(workers_of(run.pid)[0])
    told = finished(run)
    assert (told["sound"], told["failures"]) == (PAIRS, [])
    assert shards(tmp_path) == undisturbed


def test_a_killed_driver_goes_on_where_it_was(photos, undisturbed, tmp_path) -> None:
    run = start(photos, tmp_path, "--workers", 2)
    wait_until(lambda: len(shards(tmp_path)) >= 2)
    children = workers_of(run.pid)
    kill(run.pid)
    run.communicate()
    wait_until(lambda: not any(map(command_line, children)))  # they end with it
    there = len(shards(tmp_path))
    assert there < len(undisturbed)
    told = finished(start(photos, tmp_path, "--workers", 2))
    # Whatever was in place is not done again; one of the shards has one pair.
    assert told["already_there"] in (A_SHARD * there, A_SHARD * there - 1)
    assert told["sound"] == PAIRS
    assert shards(tmp_path) == undisturbed
