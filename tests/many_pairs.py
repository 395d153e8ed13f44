"""Images whose pairs take a moment, for tests that kill whoever matches them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from semisure.io.images import write_png
from settings_file import config

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


def start(
    photos: Path, store: Path, *flags: object, settings: str = ""
) -> subprocess.Popen[str]:
    """`semisure match-pairs` on all pairs, in a process of its own."""
    few = config(store.parent, f"pairs_a_shard = {A_SHARD}\n{settings}")
    arguments = [photos, "--exhaustive", "-o", store, *few]
    return subprocess.Popen(
        [sys.executable, "-c", MAIN, "match-pairs"]
        + [str(word) for word in (*arguments, "--json", *flags)],
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
