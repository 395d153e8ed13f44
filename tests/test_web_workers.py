"""Jobs run in processes: one that hangs, dies or is no longer wanted ends alone.

Workers are stopped and killed by real signals; nothing here waits for a race.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from processes import command_line, wait_until
from web_client import (
    ADDRESS,
    SMALL,
    ended,
    finish,
    page_of,
    picture,
    post,
    serving,
    workers_of,
)

if sys.platform == "win32":
    pytest.skip("there are no signals to stop a process", allow_module_level=True)

from fastapi.testclient import TestClient

from semisure.web.app import make_app
from semisure.web.jobs import BUG, Queue
from semisure.web.orders import Limits, Order, shipped_calibrations

FILES = picture(), picture(9)
PAIR = Order(files=dict(zip(("image0", "image1"), FILES, strict=True)))


def workers() -> list[int]:
    """Process ids of the page's workers; benches may have some of their own."""
    named = [p for p in multiprocessing.active_children() if "page worker" in p.name]
    return [p.pid for p in named if p.pid is not None]


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(make_app(), base_url=ADDRESS) as client:
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
    (pid,) = workers()  # the server starts no other for the next job
    os.kill(pid, signal.SIGSTOP)
    name = post(client, *files).json()["id"]
    wait_until(lambda: client.get(f"/api/jobs/{name}").json()["state"] == "running")
    return pid, name


def test_a_job_over_its_limit_is_stopped_and_says_so() -> None:
    limits = Limits(seconds=60)
    padded = picture() + bytes(3_000_000), picture(9)  # more than a pipe holds

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
    wait_until(lambda: pid not in workers())  # a signal takes its time
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


def test_only_so_many_jobs_may_wait(client: TestClient) -> None:
    held(client)
    *accepted, refused = [post(client, *FILES) for _ in range(Limits().waiting + 1)]
    assert {answer.status_code for answer in accepted} == {202}
    assert refused.status_code == 503
    assert "Try again" in refused.json()["detail"]


@contextmanager
def opened() -> Iterator[Queue]:
    line = Queue(SMALL, shipped_calibrations())
    line.open()
    yield line
    line.close()
    assert workers() == []


@pytest.fixture
def queue() -> Iterator[Queue]:
    with opened() as line:
        yield line


def test_the_queue_forgets_images_at_once_and_the_oldest_results(queue: Queue) -> None:
    jobs = [queue.add(PAIR) for _ in range(4)]
    wait_until(lambda: jobs[-1].state == "done")
    assert not any(job.order.files for job in jobs)
    jobs.append(queue.add(PAIR))
    kept = [queue.get(job.id) is not None for job in jobs]
    assert kept == [False, False, False, True, True]
    assert len({job.id for job in jobs}) == 5


def test_a_bug_in_a_job_is_reported_without_its_insides(capfd) -> None:
    with opened() as queue:
        job = queue.add(Order(files=PAIR.files, calibration="none of these"))
        wait_until(lambda: job.state == "failed")
        assert job.message == BUG
        # It is logged before the failure is sent.
        assert "KeyError: 'none of these'" in capfd.readouterr().err


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_server_that_ends_leaves_no_worker_behind(how: signal.Signals) -> None:
    with serving(stderr=subprocess.PIPE) as (server, _):
        wait_until(lambda: workers_of(server.pid))
        mine = workers_of(server.pid)
        # A terminal's Ctrl-C goes to the whole group.
        kill = os.killpg if how == signal.SIGINT else os.kill
        kill(server.pid, how)
        _, stderr = server.communicate(timeout=60)
    if how == signal.SIGINT:
        assert (server.returncode, stderr) == (0, "")
    wait_until(lambda: not any(map(command_line, mine)))
