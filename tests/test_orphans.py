"""Worker processes of a bench end with the process that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs signals")

# Prints the workers' process ids, then keeps them busy.
PARENT = """
import os, time
from semisure.bench.parallel import workers
if __name__ == "__main__":
    with workers(2) as pool:
        futures = [pool.pool.submit(os.getpid) for _ in range(20)]
        print(*{future.result() for future in futures}, flush=True)
        busy = [pool.pool.submit(time.sleep, 600) for _ in range(8)]
        busy[0].result()
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
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, text=True
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
