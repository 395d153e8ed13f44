"""What a stranger meets first: the import, the names, the README."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

import semisure
from semisure.cli import app
from semisure.metrics import corner_error

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_all_is_sorted_and_importable() -> None:
    assert semisure.__all__ == sorted(semisure.__all__)
    for name in semisure.__all__:
        assert getattr(semisure, name) is not None


def take_photos(folder: Path) -> np.ndarray:
    """Two views of a made-up wall, and the homography between them."""
    rng = np.random.default_rng(2)
    wall = cv2.resize(rng.integers(0, 256, (60, 80), np.uint8), (640, 480))
    truth = np.array([[1.04, 0.05, -12.0], [-0.03, 0.98, 9.0], [4e-5, -2e-5, 1.0]])
    moved = cv2.warpPerspective(wall, truth, (640, 480))
    for name, image in (("a.jpg", wall), ("b.jpg", moved)):
        (folder / name).write_bytes(cv2.imencode(".jpg", image)[1].tobytes())
    return truth


def test_the_first_commands_of_the_readme_match_two_photos(
    tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    take_photos(tmp_path)
    below = README.partition("## Two photos of your own\n")[2]
    made, installed, command = below.split("```\n")[1].splitlines()
    assert made == "python3 -m venv .venv"
    assert installed == ".venv/bin/pip install ."
    done = CliRunner().invoke(app, command.removeprefix(".venv/bin/semisure ").split())
    assert done.exit_code == 0, done.output
    assert "Homography from" in done.stdout
    assert "<!doctype html>" in Path("page.html").read_text(encoding="utf-8")
    rows = list(csv.DictReader(Path("matches.csv").read_text().splitlines()))
    assert len(rows) > 500
    assert all(float(row["expected_abs_error"]) > 0 for row in rows)


@pytest.mark.parametrize("block", BLOCKS)
def test_readme_blocks_run(block: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    truth, names = take_photos(tmp_path), {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102
    if block == BLOCKS[0]:  # three lines that match a.jpg and b.jpg
        assert len([line for line in block.splitlines() if line.strip()]) == 3
        assert corner_error(names["result"].model, truth, (640, 480)) < 1  # px


def test_no_module_is_longer_than_500_lines() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, path
