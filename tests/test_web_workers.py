"""Jobs run in processes: one that hangs, dies or is no longer wanted ends alone.

Workers are stopped and killed by real signals; nothing here waits for a race.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from web_client import (
    ADDRESS,
    ENDED,
    SMALL,
    finish,
    page_of,
    picture,
    post,
    serving,
    status,
    workers_of,
)

if sys.platform == "win32":
    pytest.skip("there are no signals to stop a process", allow_module_level=True)

from fastapi.testclient import TestClient

from semisure.web.app import make_app
from semisure.web.jobs import BUG, FullError, Queue
from semisure.web.orders import Limits, Order, shipped_calibrations

ONE = Limits(workers=1, waiting=2, kept=3, seconds=60)
FILES = picture(), picture(9)
PAIR = Order(files=dict(zip(("image0", "image1"), FILES, strict=True)))


def workers() -> list[int]:
    """Process ids of the page's workers; benches may have some of their own."""
    named = [p for p in multiprocessing.active_children() if "page worker" in p.name]
    return [p.pid for p in named if p.pid is not None]


def until(true: Callable[[], Any], seconds: float = 60) -> Any:
    deadline = time.monotonic() + seconds
    while not (value := true()):
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)
    return value


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(make_app(limits=ONE), base_url=ADDRESS) as client:
        yield client
    assert workers() == []


def held(
    client: TestClient,
    files: tuple[bytes, bytes] = FILES,
    before: Callable[[], None] = lambda: None,
) -> tuple[int, str]:
    """The worker's process, stopped with a job in hand, and the job's name.

    Its first job, which is slow, is done by then; `before` runs between the two.
    """
    assert finish(client, post(client, *FILES))["state"] == "done"
    before()
    (pid,) = workers()
    os.kill(pid, signal.SIGSTOP)
    name = post(client, *files).json()["id"]
    until(lambda: client.get(f"/api/jobs/{name}").json()["state"] == "running")
    return pid, name


def ended(client: TestClient, name: str) -> dict[str, Any]:
    def poll() -> dict[str, Any] | None:
        job = client.get(f"/api/jobs/{name}").json()
        return job if job["state"] in ENDED else None

    return until(poll)


def test_jobs_run_outside_the_server_and_tell_how_far_they_are(
    client: TestClient,
) -> None:
    pid, name = held(client)
    assert pid != os.getpid()
    job = client.get(f"/api/jobs/{name}").json()
    assert job["seconds"] >= 0
    os.kill(pid, signal.SIGCONT)
    job = ended(client, name)
    assert (job["stage"], job["step"], job["steps"]) == ("Drawing", 4, 6)
    assert workers() == [pid]  # processes are not paid for each time


@pytest.mark.parametrize("more", [0, 3_000_000])  # the pipe does not hold the second
def test_a_job_over_its_limit_is_stopped_and_says_so(more: int) -> None:
    limits = Limits(workers=1, seconds=60)
    padded = picture() + bytes(more), picture(9)

    def set_limit(seconds: float) -> None:
        object.__setattr__(limits, "seconds", seconds)

    with TestClient(make_app(limits=limits), base_url=ADDRESS) as client:
        pid, name = held(client, padded, before=lambda: set_limit(0.5))
        job = ended(client, name)
        assert job["state"] == "failed"
        assert "stopped after 0.5 s" in job["message"]
        assert "--time-limit" in job["message"]
        set_limit(60)
        assert finish(client, post(client, *FILES))["state"] == "done"
        assert workers() != [pid]


def test_a_crash_ends_its_job_alone_and_the_next_one_works(client: TestClient) -> None:
    pid, name = held(client)
    os.kill(pid, signal.SIGSEGV)
    os.kill(pid, signal.SIGCONT)
    job = ended(client, name)
    assert job["state"] == "failed"
    assert "process crashed" in job["message"]
    assert finish(client, post(client, *FILES))["state"] == "done"
    (pid,) = workers()
    os.kill(pid, signal.SIGKILL)  # between two jobs
    until(lambda: pid not in workers())  # a signal takes its time
    assert finish(client, post(client, *FILES))["state"] == "done"


def test_cancel_ends_a_job_that_runs_and_one_that_waits(client: TestClient) -> None:
    _, name = held(client)
    waits = post(client, *FILES).json()["id"]
    for each in (waits, name):
        assert client.delete(f"/api/jobs/{each}").status_code == 204
        job = ended(client, each)
        assert (job["state"], job["message"]) == ("cancelled", "Cancelled.")
        assert client.get(f"/api/jobs/{each}/page.json").status_code == 409
    done = finish(client, post(client, *FILES))
    assert client.delete(f"/api/jobs/{done['id']}").status_code == 204
    assert page_of(client, done)["related"]
    assert client.delete("/api/jobs/none").status_code == 404
    foreign = {"origin": "http://evil.example"}
    answer = client.delete(f"/api/jobs/{done['id']}", headers=foreign)
    assert answer.status_code == 403


def test_two_users_at_once_get_their_own_results() -> None:
    with TestClient(make_app(), base_url=ADDRESS) as client:
        answers = [post(client, picture(), picture(shift)) for shift in (5, 11)]
        pages = [page_of(client, finish(client, answer)) for answer in answers]
    assert [round(page["H_01"][0][2]) for page in pages] == [5, 11]


@pytest.fixture
def queue() -> Iterator[Callable[[Limits], Queue]]:
    opened = []

    def make(limits: Limits) -> Queue:
        new = Queue(limits, shipped_calibrations())
        new.open()
        opened.append(new)
        until(lambda: len(workers()) == limits.workers)
        return new

    yield make
    for line in opened:
        line.close()
    assert workers() == []


def test_the_queue_refuses_more_than_it_holds_and_forgets_the_oldest(queue) -> None:
    line = queue(SMALL)
    (pid,) = workers()
    os.kill(pid, signal.SIGSTOP)
    jobs = [line.add(PAIR) for _ in range(2)]
    with pytest.raises(FullError, match="2 jobs are running"):
        line.add(PAIR)
    os.kill(pid, signal.SIGCONT)
    for _ in range(3):
        until(lambda: jobs[-1].state == "done")
        assert not jobs[-1].order.files  # the images are forgotten at once
        jobs.append(line.add(PAIR))
    kept = [line.get(job.id) is not None for job in jobs]
    assert kept == [False, False, False, True, True]
    assert len({job.id for job in jobs}) == 5


def test_a_bug_in_a_job_is_reported_without_its_insides(queue, capfd) -> None:
    line = queue(SMALL)
    job = line.add(Order(files=PAIR.files, calibration="none of these"))
    until(lambda: job.state == "failed")
    assert job.message == BUG
    until(lambda: "KeyError: 'none of these'" in capfd.readouterr().err)


def test_networks_share_one_worker_and_hold_nobody_else_up(queue) -> None:
    line = queue(Limits(workers=2, seconds=60))
    for pid in workers():
        os.kill(pid, signal.SIGSTOP)
    network = Order(files=PAIR.files, matcher="xfeat-star", calibration="xfeat-star")
    jobs = [line.add(network), line.add(network), line.add(PAIR)]
    expected = ["running", "waiting", "running"]
    until(lambda: [job.state for job in jobs] == expected)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_server_that_ends_leaves_no_worker_behind(how: signal.Signals) -> None:
    with serving(stderr=subprocess.PIPE) as (server, _):
        mine = until(lambda: len(pids := workers_of(server.pid)) == 2 and pids)
        # A terminal's Ctrl-C goes to the whole group.
        kill = os.killpg if how == signal.SIGINT else os.kill
        kill(server.pid, how)
        _, stderr = server.communicate(timeout=60)
    if how == signal.SIGINT:
        assert (server.returncode, stderr) == (0, "")
    until(lambda: not any(runs(pid) for pid in mine))


def runs(pid: int) -> bool:
    row = status(pid)
    return bool(row) and row[0] not in "ZX"
