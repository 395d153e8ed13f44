"""The documentation: every block of Python runs, every command exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
ALONE = {"howto.md"}  # pages whose blocks stand by themselves
OPTIONAL = ("poselib", "pycolmap")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


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
        if any(f"import {package}\n" in block for block in code):
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    names = {"__name__": "docs"}
    for block in code:
        exec(compile(block, name, "exec"), names)  # noqa: S102


def test_there_are_blocks_to_run() -> None:
    assert {name for name, _ in chapters()} >= {"tutorial.md", "howto.md", "method.md"}


def test_commands_and_their_options_exist() -> None:
    import typer

    from semisure.cli import app

    known = typer.main.get_command(app)
    for page in DOCS.glob("*.md"):
        for block in blocks(page, ""):
            for line in block.replace("\\\n", " ").splitlines():
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
    listed = re.findall(r"^::: (\S+)$", text, re.MULTILINE)
    whole = {"semisure.mixture", "semisure.errors"}
    for name in semisure.__all__:
        found = getattr(semisure, name)
        home = getattr(found, "__module__", "")
        if name.startswith("__"):
            continue
        assert f"{home}.{name}" in listed or home in whole, name
