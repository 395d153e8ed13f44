"""A newcomer's path: a fresh clone, the README and nothing else, two own photos.

The commands are read from the README. The two that make an environment and fetch
packages from the network run as written where SEMISURE_TEST_NETWORK is set; elsewhere
the environment of these tests stands for the one they would make, with the clone's code
in it.
"""

from __future__ import annotations

import csv
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

ROOT = Path(__file__).parents[1]
HEADING = "## Two photos of your own"
NETWORK = bool(os.environ.get("SEMISURE_TEST_NETWORK"))


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("needs git, and a checkout to clone")
    made = tmp_path / "clone"
    asked = ["git", "clone", "--quiet", str(ROOT), str(made)]
    subprocess.run(asked, check=True, capture_output=True)
    return made


def commands(readme: str) -> list[list[str]]:
    """The first block under the heading."""
    _, heading, rest = readme.partition(f"{HEADING}\n")
    assert heading, f"the README has no {HEADING!r}"
    block = re.search(r"^```\n(.*?)^```", rest, re.DOTALL | re.MULTILINE)
    assert block
    return [shlex.split(line) for line in block[1].splitlines()]


def take_photos(folder: Path) -> np.ndarray:
    """Two views of a made-up wall, and the homography between them."""
    rng = np.random.default_rng(2)
    wall = cv2.resize(rng.integers(0, 256, (60, 80), np.uint8), (640, 480))
    truth = np.array([[1.04, 0.05, -12.0], [-0.03, 0.98, 9.0], [4e-5, -2e-5, 1.0]])
    moved = cv2.warpPerspective(wall, truth, (640, 480))
    for name, image in (("a.jpg", wall), ("b.jpg", moved)):
        (folder / name).write_bytes(cv2.imencode(".jpg", image)[1].tobytes())
    return truth


def stand_in(clone: Path) -> None:
    """What the README's first two commands would have made."""
    program = clone / ".venv" / "bin" / "semisure"
    program.parent.mkdir(parents=True)
    code = "import sys; from semisure.cli import main; sys.argv[0] = 'semisure'; main()"
    program.write_text(
        f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(clone / 'src'))} "
        f'exec {shlex.quote(sys.executable)} -c "{code}" "$@"\n'
    )
    program.chmod(0o755)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="its paths are POSIX")
def test_from_a_clone_to_a_refitted_homography_of_two_photos(clone: Path) -> None:
    steps = commands((clone / "README.md").read_text(encoding="utf-8"))
    assert len(steps) < 5
    assert [step[:3] for step in steps[:2]] == [
        ["python3", "-m", "venv"],
        [".venv/bin/pip", "install", "."],
    ]
    if not NETWORK:
        stand_in(clone)
        steps = steps[2:]
    truth = take_photos(clone)
    for step in steps:
        program = clone / step[0] if "/" in step[0] else step[0]
        done = subprocess.run(
            [str(program), *step[1:]],
            cwd=clone,
            capture_output=True,
            text=True,
            check=False,
            env={k: v for k, v in os.environ.items() if k != "PYTHONPATH"},
        )
        assert done.returncode == 0, done.stderr
    assert "Homography from" in done.stdout
    assert "<!doctype html>" in (clone / "page.html").read_text(encoding="utf-8")
    with (clone / "matches.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) > 500
    assert all(float(row["expected_abs_error"]) > 0 for row in rows)
    matrix = re.findall(r"[-+.e\d]+", done.stdout.partition("[[")[2])
    H = np.array(matrix, dtype=float).reshape(3, 3)
    corners = np.array([[0, 0, 1], [639, 0, 1], [0, 479, 1], [639, 479, 1.0]]).T
    mapped, true = H @ corners, truth @ corners
    off = np.linalg.norm(mapped[:2] / mapped[2] - true[:2] / true[2], axis=0)
    assert off.max() < 1  # px
