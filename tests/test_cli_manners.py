"""The command line's manners: help that teaches, completion, bars, consistent flags."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from processes import MAIN, write_photos
from semisure.cli import app, options
from semisure.types.matches import COLUMN_NAMES
from settings_file import config

GROUP = typer.main.get_command(app)
NAMES = [
    "bench", "calibrate", "demo", "export", "fetch", "fit", "localize", "match",
    "match-pairs", "matchers", "reconstruct", "refit", "serve",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_help_is_short_and_teaches_with_examples_that_parse(name) -> None:
    command = GROUP.commands[name]
    done = CliRunner().invoke(app, [name, "--help"])
    assert done.exit_code == 0
    text = " ".join(done.stdout.split())
    assert f"Example: `semisure {name}" in text
    examples = re.findall(r"`(semisure [^`]+)`", command.epilog or "")
    for words in map(shlex.split, examples):
        assert words[:2] == ["semisure", name]
        command.make_context(name, words[2:])  # raises on a wrong flag
    table = done.stdout.partition("\nOptions:\n")[2].partition("\n\n")[0]
    shown = re.findall(r"^  (?:-\w, )?--\w", table, re.MULTILINE)
    options = [p for p in command.params if p.param_type_name == "option"]
    assert len(shown) == len(options) + 1  # --help
    assert len(shown) <= (16 if name in ("bench", "match-pairs") else 12)
    assert "<bool>" not in text  # a flag takes no value
    if name == "refit":
        columns = [name for names in COLUMN_NAMES.values() for name in names]
        for column in columns:
            assert column in text or column.startswith("residual")  # of `fit` alone


def test_the_first_help_has_an_example_and_the_exit_codes() -> None:
    assert {*GROUP.commands} == {*NAMES}
    text = " ".join(CliRunner().invoke(app, ["--help"]).stdout.split())
    assert "Example: `semisure match" in text
    assert "Exit codes: 0 done; 1 an error" in text
    assert "--install-completion" in text
    assert CliRunner().invoke(app, ["--version"]).stdout.startswith("semisure 0.")


def test_a_flag_means_the_same_everywhere() -> None:
    """One short form for each long name, one long name for each short form."""
    forms: dict[str, set[tuple[str, ...]]] = {}
    for command in GROUP.commands.values():
        for parameter in command.params:
            for name in parameter.opts:  # the long form by the short one and vice versa
                others = tuple(o for o in parameter.opts if o != name)
                forms.setdefault(name, set()).add(others)
    assert {name for name, others in forms.items() if len(others) > 1} == set()
    # What prints for people can print for machines, and can be quiet.
    for name in {*NAMES} - {"bench", "fetch", "localize", "matchers", "serve"}:
        flags = {o for p in GROUP.commands[name].params for o in p.opts}
        assert {"--json", "--quiet", "-q", "-o", "--output"} <= flags, name


def test_the_names_that_help_lists_are_those_of_the_code() -> None:
    from semisure.cli import fit, match_pairs, pair, sfm
    from semisure.estimators import ESTIMATOR_NAMES
    from semisure.law.fit_law import OPTIMISERS
    from semisure.mapping.export import Format
    from semisure.matchers import MATCHER_NAMES
    from semisure.pairs.models import MODELS
    from semisure.pairs.settings import GEOMETRIES
    from semisure.types import LAW_NAMES

    assert options.MATCHERS == MATCHER_NAMES
    assert options.ESTIMATORS == ESTIMATOR_NAMES
    for command, option, names in (
        (pair.match, "model", MODELS),
        (match_pairs.match_pairs, "model", GEOMETRIES),
        (sfm.export, "to", get_args(Format)),
        (fit.fit, "law", LAW_NAMES),
        (fit.fit, "optimiser", OPTIMISERS),
    ):
        hint = get_type_hints(command)[option]  # a Literal, or one or None
        choices = get_args(get_args(hint)[0]) or get_args(hint)
        assert choices == names


# ---- completion ----------------------------------------------------------------------


@pytest.fixture(scope="module")
def script() -> str:
    """What a user's bash evaluates once, when it starts."""
    environment = {**os.environ, "_SEMISURE_COMPLETE": "source_bash"}
    command = [sys.executable, "-c", MAIN]
    return subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment
    ).stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("semisure ma", ["match", "match-pairs", "matchers"]),
        ("semisure match --matcher xf", ["xfeat-star", "xfeat-star-raw"]),
        ("semisure match -c xfeat-star-f", ["xfeat-star-faithful"]),
    ],
)
def test_bash_completes_commands_and_values(line, offered, script, tmp_path) -> None:
    shim = tmp_path / "semisure"
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -c "{MAIN}" "$@"\n')
    shim.chmod(0o755)
    words = line.split()
    asked = (
        f"{script}\nCOMP_WORDS=({shlex.join(words)})\nCOMP_CWORD={len(words) - 1}\n"
        '_semisure_completion semisure\nprintf "%s\\n" "${COMPREPLY[@]}"'
    )
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", asked],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PATH": path},
    )
    assert sorted(done.stdout.split()) == sorted(offered)


# ---- bars ----------------------------------------------------------------------------


def on_a_terminal(*line: object) -> tuple[str, str]:
    """Standard output, and what a terminal on standard error shows."""
    import pty

    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "semisure", *map(str, line)],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    ) as running:
        os.close(theirs)
        shown = b""
        with contextlib.suppress(OSError):  # Linux says so that the other end is closed
            while part := os.read(ours, 4096):
                shown += part
        assert running.stdout is not None
        printed = running.stdout.read()
    os.close(ours)
    terminal = shown.decode(errors="replace")
    assert running.returncode == 0, terminal
    return printed, terminal


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_what_takes_long_shows_a_bar_that_can_be_silenced(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    write_photos(tmp_path / "photos")
    line = ["calibrate", "--photos", tmp_path / "photos", "-o", tmp_path / "c.json"]
    line += config(tmp_path, "pairs = 8")
    printed, terminal = on_a_terminal(*line)
    assert printed
    for words in ("Reading photos", "Matching views", "0:00:0", "Fitting"):
        assert words in terminal
    assert on_a_terminal(*line, "--quiet") == ("", "")
    printed, terminal = on_a_terminal(*line, "--json")
    assert printed.startswith("{")
    assert terminal == ""
