"""A Ray of the tests' own: a head and a node on this machine, ended by process id."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

from process_trees import descendants, kill_tree, wait_until

ENVIRONMENT = {
    **os.environ,
    "RAY_AUTH_MODE": "disabled",  # else a token of another Ray's refuses the node
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "1",
}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Cluster:
    """A head of one processor; nodes can be added and killed."""

    def __init__(self, folder: Path) -> None:
        self.port, self.folder = _free_port(), folder
        self.nodes: list[subprocess.Popen[bytes]] = []
        head = ["--head", f"--port={self.port}", "--include-dashboard=false"]
        self.nodes.append(self._start(*head, f"--temp-dir={folder}"))

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def add_node(self) -> subprocess.Popen[bytes]:
        node = self._start(f"--address={self.address}")
        self.nodes.append(node)
        return node

    def _start(self, *flags: str) -> subprocess.Popen[bytes]:
        # A port that answers is no sign that a node has joined: its log says so.
        log = self.folder.parent / f"node_{len(self.nodes)}.log"
        ray = Path(sys.executable).with_name("ray")
        shared = ["--num-cpus=1", "--num-gpus=0", "--disable-usage-stats", "--block"]
        with log.open("wb") as out:
            node = subprocess.Popen(
                [ray, "start", *flags, *shared, "--object-store-memory=100000000"],
                stdout=out,
                stderr=subprocess.STDOUT,
                env=ENVIRONMENT,
            )
        started = "Ray runtime started"
        wait_until(lambda: started in log.read_text() or node.poll() is not None, 90)
        assert node.poll() is None, log.read_text()
        return node

    def kill(self, node: subprocess.Popen[bytes]) -> None:
        kill_tree(node.pid)
        node.wait()

    def end(self) -> None:
        for node in reversed(self.nodes):
            self.kill(node)

    def workers(self) -> list[int]:
        """Processes that are running our function now."""
        from process_trees import command_line

        found = [p for node in self.nodes for p in descendants(node.pid)]
        return [p for p in found if command_line(p).startswith("ray::run_batch")]
