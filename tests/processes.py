"""Runs of `semisure match-pairs` and a Ray, whose processes tests kill by their ids."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np

from semisure.io.images import write_png
from settings_file import config

# ---- trees of processes, so that a test ends only its own ----------------------------


def command_line(process: int) -> str:
    """Empty for one that has ended."""
    try:
        return Path(f"/proc/{process}/cmdline").read_text().replace("\0", " ")
    except OSError:
        return ""


def descendants(process: int) -> list[int]:
    """All processes that stem from one, which is not among them."""
    found = [process]
    for parent in found:
        for task in Path(f"/proc/{parent}/task").glob("*/children"):
            with suppress(OSError):
                found += map(int, task.read_text().split())
    return found[1:]


def kill(*processes: int) -> None:
    for process in processes:
        with suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)


def wait_until(true: Callable[[], object], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


# ---- pairs that take a moment --------------------------------------------------------

COUNT = 7
PAIRS = COUNT * (COUNT - 1) // 2  # 21, in 11 shards
A_SHARD = 2
MAIN = "import sys; sys.argv[0] = 'semisure'; from semisure.cli import main; main()"


def write_photos(folder: Path) -> Path:
    noise = np.random.default_rng(0).normal(size=(24, 44))
    wide = np.uint8(128 + 40 * np.clip(noise, -3, 3)).repeat(8, 0).repeat(8, 1)
    for k in range(COUNT):
        write_png(folder / f"{k}.png", wide[:, 12 * k : 12 * k + 256])
    return folder


def start(photos: Path, store: Path, settings: str) -> subprocess.Popen[str]:
    """`semisure match-pairs` on all pairs, in a process of its own."""
    few = config(store.parent, f"pairs_a_shard = {A_SHARD}\n{settings}")
    arguments = [photos, "--exhaustive", "-o", store, *few, "--json"]
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "match-pairs", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "RAY_AUTH_MODE": "disabled"},
    )


def finished(run: subprocess.Popen[str], seconds: float = 240.0) -> dict[str, object]:
    """What it printed, once it has ended well."""
    output, errors = run.communicate(timeout=seconds)
    assert run.returncode == 0, errors
    return json.loads(output)


def shards(store: Path) -> dict[str, bytes]:
    """The shards that are in place."""
    found = (store / "shards").glob("[!.]*.parquet")
    return {file.name: file.read_bytes() for file in found}


# ---- a Ray of the tests' own ---------------------------------------------------------

ENVIRONMENT = {
    **os.environ,
    "RAY_AUTH_MODE": "disabled",  # else a token of another Ray's refuses the node
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1",
    # Where workers find the functions of tests.
    "PYTHONPATH": os.pathsep.join([str(Path(__file__).parent), *sys.path]),
}


class Cluster:
    """A head and a node of one processor each."""

    def __init__(self, folder: Path) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.address, self.folder = f"127.0.0.1:{port}", folder
        self.nodes: list[subprocess.Popen[bytes]] = []
        head = ["--head", f"--port={port}", "--include-dashboard=false"]
        self.start(*head, f"--temp-dir={folder / 't'}")
        self.start(f"--address={self.address}")

    def start(self, *flags: str) -> None:
        # A port that answers is no sign that a node has joined: its log says so.
        log = self.folder / f"node_{len(self.nodes)}.log"
        ray = Path(sys.executable).with_name("ray")
        shared = ["--num-cpus=1", "--num-gpus=0", "--disable-usage-stats", "--block"]
        with log.open("wb") as out:
            node = subprocess.Popen(
                [ray, "start", *flags, *shared, "--object-store-memory=100000000"],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT,
            )
        self.nodes.append(node)
        started = "Ray runtime started"
        wait_until(lambda: started in log.read_text() or node.poll() is not None, 90)
        assert node.poll() is None, log.read_text()

    def kill_last(self) -> None:
        node = self.nodes.pop()
        kill(*descendants(node.pid), node.pid)
        node.wait()

    def workers(self) -> list[int]:
        """Processes that are running our function now."""
        found = [p for node in self.nodes for p in descendants(node.pid)]
        return [p for p in found if command_line(p).startswith("ray::run_batch")]
