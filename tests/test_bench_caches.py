"""What a kept row or match rests on: the code that computes it, and no other."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from semisure import matchers
from semisure.bench import BENCHES, corner_errors, row_cache
from semisure.bench.matching import jobs
from semisure.bench.options import Options
from semisure.bench.row_cache import Call, code_of, remembered
from semisure.bench.studies import blur, tail
from semisure.io import sources
from semisure.types import Pair

PACKAGE = sources.PACKAGE


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of our sources that the caches look at, to be edited."""
    copy = tmp_path / PACKAGE.name
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("data", "*.pyc"))
    monkeypatch.setattr(sources, "PACKAGE", copy)
    forget()
    yield copy
    monkeypatch.undo()
    forget()


def forget() -> None:
    """Code does not change while a process runs, so that digests are kept."""
    sources.sources_of.cache_clear()
    row_cache._code.cache_clear()


def edit(path: Path) -> None:
    path.write_text(path.read_text(encoding="utf-8") + "\n# edited\n", encoding="utf-8")
    forget()


CALLS: list[float] = []


def doubled(number: float) -> dict[str, float]:
    CALLS.append(number)
    return {"doubled": 2 * number}


doubled.__module__ = corner_errors.__name__  # a row as those of Table 1


@pytest.mark.parametrize(
    ("file", "kept"),
    [
        ("web/app.py", True),
        ("report/html.py", True),
        ("cli/bench.py", True),
        ("matchers/loftr.py", True),
        ("bench/figures.py", True),
        ("bench/studies/homography.py", True),  # prints the rows
        ("refit/homography.py", False),
        ("mixture.py", False),
        ("estimators/homography/opencv.py", False),
        ("bench/corner_errors.py", False),
        ("bench/exported.py", False),
        ("datasets/posed.py", False),
    ],
)
def test_rows_outlive_edits_of_what_does_not_compute_them(
    package: Path, tmp_path: Path, file: str, kept: bool
) -> None:
    CALLS.clear()
    call = Call(doubled, 1.5, tmp_path / "rows")
    assert remembered(call) == remembered(call) == {"doubled": 3.0}
    edit(package / file)
    assert remembered(call) == {"doubled": 3.0}
    assert len(CALLS) == (1 if kept else 2)


@pytest.mark.parametrize("module", [corner_errors, blur, tail])
def test_no_row_rests_on_pages_figures_or_commands(module) -> None:
    files = {path.relative_to(PACKAGE) for path in code_of(module.__name__)}
    assert Path(module.__file__).relative_to(PACKAGE) in files
    assert not {path.parts[0] for path in files} & {"report", "web", "cli", "matchers"}
    assert Path("bench/figures.py") not in files
    assert Path("bench/page.py") not in files


def test_the_rooms_that_compute_are_there() -> None:
    for name in row_cache.ROOMS:
        assert all(path.is_file() for path in sources.room(name))


@pytest.mark.parametrize(
    ("file", "kept"),
    [
        ("matchers/loftr.py", True),
        ("bench/match_cache.py", True),
        ("matchers/daisy.py", False),
        ("types/matches.py", False),
    ],
)
def test_matches_outlive_edits_of_other_matchers(
    package: Path, file: str, kept: bool
) -> None:
    before = matchers.fingerprint("daisy")
    edit(package / file)
    assert (matchers.fingerprint("daisy") == before) == kept


@pytest.mark.parametrize(
    ("file", "kept"), [("io/images.py", False), ("io/files.py", True)]
)
def test_matches_rest_on_how_images_are_read(
    package: Path, file: str, kept: bool
) -> None:
    """The embedded matcher does not import the reader, but is given what it read."""
    asked = Options(data=[Path("data")])
    pair = Pair(name="a", image0=Path("a.png"), image1=Path("b.png"))
    (before,) = jobs(asked, "daisy", [(pair, None)])
    edit(package / file)
    (after,) = jobs(asked, "daisy", [(pair, None)])
    assert (before.fingerprint == after.fingerprint) == kept


def test_rows_rest_on_the_version_of_every_library_of_estimators() -> None:
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    extras = re.findall(r"^(?:ransac|pose) = \[(.*)\]", text, re.MULTILINE)
    libraries = set(re.findall(r'"([a-z]+)', " ".join(extras)))
    assert {"poselib", "pycolmap"} <= libraries
    assert libraries <= set(row_cache._PACKAGES)


def test_the_table_of_benches_in_the_docs_is_that_of_the_code() -> None:
    page = Path(__file__).parents[1] / "docs" / "evaluation.md"
    text = page.read_text(encoding="utf-8")
    head = "| bench | paper | what | needs |\n|---|---|---|---|\n"
    lines = [
        f"| `{entry.name}` | {entry.paper} | {entry.what} | {entry.needs} |\n"
        for entry in BENCHES.values()
    ]
    assert head + "".join(lines) in text
