"""The documentation: every block of Python runs, every command exists."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import draw_rooms
import pytest
import typer

import semisure
from semisure.bench import BENCHES
from semisure.cli import app
from semisure.estimators import ESTIMATOR_NAMES
from semisure.estimators.pose import POSE_ESTIMATOR_NAMES
from semisure.estimators.relative import RELATIVE_ESTIMATORS
from semisure.matchers import MATCHER_NAMES, describe_matchers
from semisure.types import LAW_NAMES

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
ALONE = {"howto.md"}  # pages whose blocks stand by themselves
ELSEWHERE = {"own_network.md"}  # run by a test of its own, with a network played
OPTIONAL = ("poselib", "pycolmap", "h5py", "torch", "kornia")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [code for kind, code in fenced if kind == language]


def chapters() -> list[tuple[str, list[str]]]:
    """Blocks that share their names, in order."""
    pages = []
    for page in sorted(DOCS.glob("*.md")):
        code = [] if page.name in ELSEWHERE else blocks(page, "python")
        pages += [(page.name, [b]) for b in code] if page.name in ALONE else []
        pages += [(page.name, code)] if code and page.name not in ALONE else []
    return pages


@pytest.mark.parametrize(("name", "code"), chapters())
def test_blocks_run(name: str, code: list[str], tmp_path: Path, monkeypatch) -> None:
    for package in OPTIONAL:
        if any(re.search(rf"^(import|from) {package}\b", b, re.M) for b in code):
            pytest.importorskip(package)
    if any("sample_folder" in block for block in code):
        pytest.importorskip("skimage", reason="scikit-image carries the photos")
    if any('load_matcher("xfeat-star")' in block for block in code):
        status = {row.name: row.status for row in describe_matchers()}["xfeat-star"]
        if not status.startswith("ready"):
            pytest.skip(f"the weights of XFeat*: {status}")
    if any("semisure.io.store" in block for block in code):
        pytest.importorskip("pyarrow", reason="needs the extra store")
    if any("FromStore" in block for block in code):
        make_map(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs"}
    for block in code:
        exec(compile(block, name, "exec"), names)  # noqa: S102
    for result in names.get("results", []):  # of the map
        assert result.pose is not None, result.reason


def make_map(folder: Path) -> None:
    """The files that hloc's users have, of a world that is made up."""
    pytest.importorskip("pyarrow", reason="needs the extra store")
    from map_files import write_map
    from test_localize import CAMERA, NAMES, QUERY, World, make_store

    world = World(noise=1.0)
    write_map(world.model(), folder / "sfm")
    make_store(folder / "matches", world)
    camera = " ".join(map(str, (CAMERA.model, *CAMERA.size, *CAMERA.params)))
    (folder / "queries_with_intrinsics.txt").write_text(f"{QUERY} {camera}\n")
    pairs = "".join(f"{QUERY} {name}\n" for name in NAMES)
    (folder / "pairs-query-netvlad50.txt").write_text(pairs)


def test_the_readmes_figures_are_the_measured_ones() -> None:
    measured = (DOCS / "measured.md").read_text(encoding="utf-8")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    areas = re.findall(r"\d+\.\d(?:/\d+\.\d){2,3}", readme)
    assert len(areas) > 12
    assert [a for a in areas if a not in measured] == []


def test_the_summary_of_what_was_measured_has_its_numbers_from_the_tables() -> None:
    text = (DOCS / "measured.md").read_text(encoding="utf-8")
    summary, _, below = text.partition("\n## In short")[2].partition("\n## ")
    rows = "\n".join(line for line in below.splitlines() if line.startswith("|"))
    printed = set(re.findall(r"\d+(?:\.\d+)?", rows))
    claimed = re.findall(r"\d+\.\d+", summary)
    regions = {"50", "90"}  # %
    claimed += [n for n in re.findall(r"(\d+) %", summary) if n not in regions]
    assert len(claimed) > 30
    assert [number for number in claimed if number not in printed] == []


def test_every_page_is_in_the_navigation() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert f"- {page.name}" in nav, page.name


# ---- what the docs repeat of the code ------------------------------------------------


def column(page: Path, head: str) -> list[str]:
    """Names in backticks in the first column of the table whose first head is given."""
    text = page.read_text(encoding="utf-8")
    table = re.search(rf"^\| {head} \|.*\n\|[-| ]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    assert table, f"{page.name} has no table of {head}"
    cells = [row.split("|")[1] for row in table[1].splitlines()]
    return [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]


def test_the_tables_of_the_docs_are_complete() -> None:
    assert sorted(column(DOCS / "matchers.md", "name")) == sorted(MATCHER_NAMES)
    assert sorted(column(DOCS / "evaluation.md", "bench")) == sorted(BENCHES)
    text = (DOCS / "evaluation.md").read_text(encoding="utf-8")
    for name, entry in BENCHES.items():
        assert f"| `{name}` | {entry.paper} | {entry.what} |" in text, name


@pytest.mark.parametrize(
    ("module", "names"),
    [
        ("matchers", MATCHER_NAMES),
        ("law.error_laws", LAW_NAMES),
        ("estimators.homography", ESTIMATOR_NAMES),
        ("estimators.pose", POSE_ESTIMATOR_NAMES),
        ("estimators.relative", RELATIVE_ESTIMATORS),
    ],
)
def test_the_tables_of_the_code_are_complete(module: str, names: list[str]) -> None:
    table = importlib.import_module(f"semisure.{module}").__doc__ or ""
    assert {*re.findall(r"^``([^`]+)``", table, re.MULTILINE)} == {*names}


def test_the_extras_of_the_docs_exist() -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    table = text.partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = {*re.findall(r"^(\w+) = \[", table, re.MULTILINE)}
    assert {*column(DOCS / "index.md", "extra")} <= extras
    for page in (*DOCS.glob("*.md"), *ROOT.glob("*.md")):
        words = page.read_text(encoding="utf-8")
        for asked in re.findall(r"'(?:semisure|\.)\[([\w,]+)\]'", words):
            assert {*asked.split(",")} <= extras, f"{page.name}: {asked}"


# ---- the contributor's path ----------------------------------------------------------


def test_every_room_of_the_import_contract_is_on_the_map_and_in_the_table() -> None:
    rooms = [room for layer in draw_rooms.layers() for room in layer]
    package = Path(semisure.__file__).parent
    files = {path.stem for path in package.glob("*.py")}
    files |= {path.parent.name for path in package.glob("*/__init__.py")}
    assert {name for name in files if not name.startswith("_")} == {*rooms}
    svg = (DOCS / "rooms.svg").read_text(encoding="utf-8")
    for room in rooms:
        assert f">{room}</text>" in svg, room
    assert sorted(column(DOCS / "architecture.md", "room")) == sorted(rooms)
    assert svg == draw_rooms.draw(), "run: python scripts/draw_rooms.py"
    assert [len(walk) > 5 for walk in draw_rooms.walks()] == [True, True, True]


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_the_files_that_a_page_names_exist(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    places = (ROOT, Path(semisure.__file__).parent)
    paths = re.findall(r"`([\w./]+(?:\.(?:py|md|txt|json|toml|ipynb)|/))`", text)
    assert len(paths) > 10
    for path in {*paths} - {"site/", "__init__.py"}:
        assert any((place / path).exists() for place in places), path


def test_the_targets_that_contributing_names_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    made = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"`make ([\w-]+)", text):
        assert re.search(rf"^{target}:", made, re.MULTILINE), target


def test_commands_and_their_options_exist() -> None:
    group = typer.main.get_command(app)
    for page in (*DOCS.glob("*.md"), ROOT / "README.md"):
        lines = "".join(blocks(page, "")).replace("\\\n", " ").splitlines()
        for line in lines:
            program, *words = line.removeprefix(".venv/bin/").split() or [""]
            if program != "semisure" or words == ["--help"]:
                continue
            options = {o for p in group.commands[words[0]].params for o in p.opts}
            assert {w for w in words if w.startswith("-")} <= options, line


def test_the_reference_has_every_public_name_and_an_example_of_each() -> None:
    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    paths = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    entries = [pkgutil.resolve_name(path) for path in paths]
    for entry in entries:
        if callable(entry):  # modules are described, not called
            assert ">>> " in (entry.__doc__ or ""), entry
    listed = {*map(id, entries)}
    whole = {"semisure.law.mixture", "semisure.errors"}
    for name in semisure.__all__:
        public = getattr(semisure, name)
        if not name.startswith("__"):
            assert id(public) in listed or public.__module__ in whole, name
            assert ">>> " in (public.__doc__ or ""), name
