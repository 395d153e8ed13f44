"""Processes killed while they write: whole files, no orphans, the same result."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

from fuzz.hostile import chosen, require

WRITER = """
import sys
from pathlib import Path
import numpy as np
from semisure.io.atomic import write_json
from semisure.io.files import save_matches
from semisure.synthetic import SyntheticMatcher
folder = Path(sys.argv[1])
matches, _ = SyntheticMatcher().match(np.eye(3), count=3000)
print("ready", flush=True)
for k in range(10**6):
    write_json(folder / "a.json", {"k": k, "rows": [k] * 5000})
    save_matches(matches, folder / "a.npz", residual=np.full((3000, 2), float(k)))
"""
STORE = """
import sys
from pathlib import Path
import numpy as np
from semisure.io.store import Manifest, Store
from semisure.synthetic import SyntheticMatcher
from semisure.types.pair_records import PairRecord
matches, _ = SyntheticMatcher().match(np.eye(3), count=3000)
store = Store.made(Path(sys.argv[1]) / "store", Manifest(recipe={}))
print("ready", flush=True)
for k in range(10**6):
    some = matches.take(np.arange(1000 + k % 2000))
    names = {"image0": f"{k % 7}", "image1": "b"}
    store.write(f"{k % 7}", [PairRecord(**names, state="matched", matches=some)])
"""
POOL = """
import os, sys, time
from semisure.engine import EngineSettings, in_order, open_engine
def process(_):
    return os.getpid()
if __name__ == "__main__":
    with open_engine(EngineSettings(workers=2)) as engine:
        ids = set(in_order(engine, process, range(6)))
        print("ready", *ids, flush=True)
        in_order(engine, time.sleep, [600] * 4)
"""


def attack(rng: np.random.Generator, folder: Path) -> str:
    """One process, killed at a random moment."""
    if sys.platform == "win32":
        return "not here"
    return chosen(rng, (_writer, _writer, _store, _store, _pool))(rng, folder)


def _writer(rng: np.random.Generator, folder: Path) -> str:
    process = _started(WRITER, folder)
    time.sleep(float(rng.uniform(0, 0.4)))
    _kill(process, signal.SIGKILL)
    from semisure.io.files import load_arrays

    if (folder / "a.json").exists():
        rows = json.loads((folder / "a.json").read_text())
        require(set(rows["rows"]) == {rows["k"]}, "half a file")
    if (folder / "a.npz").exists():
        residual = load_arrays(folder / "a.npz")["residual"]
        require((residual == residual[0, 0]).all(), "half a file")
    return "whole"


def _store(rng: np.random.Generator, folder: Path) -> str:
    process = _started(STORE, folder)
    time.sleep(float(rng.uniform(0, 0.4)))
    _kill(process, signal.SIGKILL)
    from semisure.io.store import Store

    records = list(Store.at(folder / "store").records())
    there = sorted(int(record.image0) for record in records)
    require(there == list(range(len(there))), "a pair is gone")
    for record in records:
        matches = record.matches
        require(matches is not None and len(matches) >= 1000, "half a pair")
    return "whole"


def _pool(rng: np.random.Generator, folder: Path) -> str:
    process = _started(POOL, folder)
    number = chosen(rng, (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP))
    if signal.getsignal(number) == signal.SIG_IGN:  # under nohup children ignore it too
        number = signal.SIGKILL
    children = [int(word) for word in process.first_words[1:]]  # type: ignore[attr-defined]
    _kill(process, number)
    end = time.monotonic() + 10
    while (left := [c for c in children if _alive(c)]) and time.monotonic() < end:
        time.sleep(0.05)
    for child in left:
        os.kill(child, signal.SIGKILL)
    require(not left, "workers outlive their parent")
    return "ended"


def _started(script: str, folder: Path) -> subprocess.Popen[str]:
    (folder / "script.py").write_text(script)
    process = subprocess.Popen(
        [sys.executable, str(folder / "script.py"), str(folder)],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    process.first_words = process.stdout.readline().split()  # type: ignore[attr-defined]
    return process


def _kill(process: subprocess.Popen[str], number: signal.Signals) -> None:
    process.send_signal(number)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def _alive(process: int) -> bool:
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"
