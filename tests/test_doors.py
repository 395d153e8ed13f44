"""What a stranger meets first: the import, the names, the README."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import semisure
from semisure.metrics import corner_error
from test_newcomer import take_photos

ROOT = Path(__file__).parents[1]


def test_import_is_light() -> None:
    heavy = ("numpy", "scipy", "cv2", "matplotlib", "torch", "typer", "rich")
    code = f"import sys, semisure; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_all_is_sorted_and_importable() -> None:
    assert semisure.__all__ == sorted(semisure.__all__)
    for name in semisure.__all__:
        assert getattr(semisure, name) is not None


def test_every_public_name_has_an_example_that_runs() -> None:
    """The examples are doctests, which pytest runs with the modules."""
    names = [name for name in semisure.__all__ if not name.startswith("__")]
    public = {name: getattr(semisure, name).__doc__ or "" for name in names}
    without = [name for name, text in public.items() if ">>> " not in text]
    assert without == [], f"no example in the docstring of {', '.join(without)}"


def readme_blocks() -> list[str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


@pytest.mark.parametrize("block", readme_blocks())
def test_readme_blocks_run(block: str, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    truth, names = take_photos(tmp_path), {"__name__": "readme"}
    exec(compile(block, "README.md", "exec"), names)  # noqa: S102
    if block == readme_blocks()[0]:  # three lines that match a.jpg and b.jpg
        assert len([line for line in block.splitlines() if line.strip()]) == 3
        found = names["result"].refit.model
        assert corner_error(found, truth, (640, 480)) < 1  # px


def test_no_module_is_longer_than_500_lines() -> None:
    for path in (ROOT / "src").rglob("*.py"):
        assert len(path.read_text(encoding="utf-8").splitlines()) <= 500, path
