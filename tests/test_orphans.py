"""Worker processes end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")

# Prints the workers' process ids, then keeps them busy.
PARENT = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from engine_work import process
from semisure.engine import EngineSettings, in_order, open_engine
if __name__ == "__main__":
    with open_engine(EngineSettings(workers=2)) as engine:
        print(*set(in_order(engine, process, range(20))), flush=True)
        in_order(engine, time.sleep, [600] * 8)
"""


def alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True
    ).stdout
    return not status.strip().startswith("Z")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_workers_end_with_a_parent_that_was_killed(name: str, tmp_path) -> None:
    if signal.getsignal(getattr(signal, name)) == signal.SIG_IGN:
        pytest.skip(f"{name} is ignored here, as under nohup, and so by children")
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen(
        [sys.executable, str(script), str(Path(__file__).parent)],
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        children = [int(word) for word in parent.stdout.readline().split()]
        assert children
        parent.send_signal(getattr(signal, name))
        parent.wait()
        # Whoever still holds the pipe keeps this waiting.
        deadline = time.monotonic() + 10
        while any(map(alive, children)) and time.monotonic() < deadline:
            time.sleep(0.05)
        left = [child for child in children if alive(child)]
        for child in left:
            os.kill(child, signal.SIGKILL)
    assert left == []
