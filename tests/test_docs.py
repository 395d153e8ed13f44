"""The documentation: every block of Python runs, every command exists."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from semisure.matchers import describe_matchers

DOCS = Path(__file__).parents[1] / "docs"
ALONE = {"howto.md"}  # pages whose blocks stand by themselves
OPTIONAL = ("poselib", "pycolmap", "h5py", "torch", "kornia")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    return [code for kind, code in fenced if kind == language]


def chapters() -> list[tuple[str, list[str]]]:
    """Blocks that share their names, in order."""
    found = []
    for page in sorted(DOCS.glob("*.md")):
        code = blocks(page, "python")
        found += [(page.name, [b]) for b in code] if page.name in ALONE else []
        found += [(page.name, code)] if code and page.name not in ALONE else []
    return found


@pytest.mark.parametrize(("name", "code"), chapters())
def test_blocks_run(name: str, code: list[str], tmp_path: Path, monkeypatch) -> None:
    for package in OPTIONAL:
        if any(re.search(rf"^(import|from) {package}\b", b, re.M) for b in code):
            pytest.importorskip(package)
    if any('load_matcher("xfeat-star")' in block for block in code):
        status = {row.name: row.status for row in describe_matchers()}["xfeat-star"]
        if not status.startswith("ready"):
            pytest.skip(f"the weights of XFeat*: {status}")
    if any("from_store" in block for block in code):
        make_map(tmp_path)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs"}
    for block in code:
        exec(compile(block, name, "exec"), names)  # noqa: S102
    for result in names.get("results", []):  # of the map
        assert result.pose is not None, result.reason


def make_map(folder: Path) -> None:
    """The files that hloc's users have, of a world that is made up."""
    pytest.importorskip("h5py", reason="needs the extra store")
    from semisure.maps import hloc
    from test_localize import CAMERA, NAMES, QUERY, World, write_text_model

    world = World(noise=1.0)
    (folder / "sfm").mkdir()
    write_text_model(world.model(), folder / "sfm")
    for name in NAMES:
        stored = world.match(QUERY, name)
        hloc.write_matches(folder / "matches.h5", QUERY, name, stored)
    camera = " ".join(map(str, (CAMERA.model, *CAMERA.size, *CAMERA.params)))
    (folder / "queries_with_intrinsics.txt").write_text(f"{QUERY} {camera}\n")
    pairs = "".join(f"{QUERY} {name}\n" for name in NAMES)
    (folder / "pairs-query-netvlad50.txt").write_text(pairs)


def test_each_library_has_a_block_of_python() -> None:
    code = blocks(DOCS / "howto.md", "python")
    for words in ("cv2", "poselib", "pycolmap", "semisure.maps import hloc", "kornia"):
        assert any(words in block for block in code), words


def test_the_readmes_figures_are_the_measured_ones() -> None:
    measured = (DOCS / "measured.md").read_text(encoding="utf-8")
    readme = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    areas = re.findall(r"\d+\.\d(?: / \d+\.\d){3}", readme)
    assert len(areas) == 18
    assert [a for a in areas if a not in measured] == []


def test_the_limits_are_told() -> None:
    text = (DOCS / "limits.md").read_text(encoding="utf-8")
    assert text.startswith("# When not to use it")
    nav = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    for page in DOCS.glob("*.md"):
        assert f"- {page.name}" in nav, page.name


def test_there_are_blocks_to_run() -> None:
    assert {name for name, _ in chapters()} >= {"tutorial.md", "howto.md", "method.md"}


def test_commands_and_their_options_exist() -> None:
    import typer

    from semisure.cli import app

    known = typer.main.get_command(app)
    for page in (*DOCS.glob("*.md"), DOCS.parent / "README.md"):
        for block in blocks(page, ""):
            for line in block.replace("\\\n", " ").splitlines():
                line = line.removeprefix(".venv/bin/")
                if not line.startswith("semisure "):
                    continue
                words = line.split()[1:]
                if words == ["--help"]:
                    continue
                command = known.commands[words[0]]
                options = {o for p in command.params for o in p.opts}
                assert {w for w in words if w.startswith("-")} <= options, line


def test_the_reference_has_every_public_name() -> None:
    import semisure

    text = (DOCS / "reference.md").read_text(encoding="utf-8")
    paths = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    listed = {id(pkgutil.resolve_name(path)) for path in paths}
    whole = {"semisure.mixture", "semisure.errors"}
    for name in semisure.__all__:
        public = getattr(semisure, name)
        if not name.startswith("__"):
            assert id(public) in listed or public.__module__ in whole, name
