"""Outputs: refused before the work starts, never an input, the old file kept."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from semisure.cli import app
from semisure.errors import FileError, SemisureError
from semisure.io import atomic
from semisure.io.atomic import write_json

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


def run(line: str) -> str:
    """The sentence of a command that must fail with one."""
    done = CliRunner().invoke(app, line.split())
    assert isinstance(done.exception, SemisureError), (done.exception, done.output)
    return str(done.exception)


# Each command up to its output, and a good name for it. No input can be read, so
# a sentence about the output is from before the work.
COMMANDS = {
    "match a.png b.png -o": "x.json",
    "match a.png b.png --json -o": "x.png",
    "match a.png b.png --report": "x.html",
    "refit pair.npz -c theta.json -o": "x.json",
    "fit pair.npz -o": "x.json",
    "calibrate --photos photos -o": "x.json",
    "demo -o": "x.html",
}
FOLDERS = {
    "localize map --queries q --pairs p --images photos -o": "out",
    "bench homography --data data -o": "out",
}


@pytest.mark.parametrize("command", [*COMMANDS, *FOLDERS])
def test_what_cannot_be_written_is_refused_before_the_work(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    Path("photos/0.png").touch()
    Path("file").write_text("precious")
    name = {**COMMANDS, **FOLDERS}[command]
    assert "file is not a folder" in run(f"{command} file/{name}")
    assert Path("file").read_text() == "precious"
    if command in COMMANDS:
        assert "its name must end in ." in run(f"{command} out.txt")
        Path(name).mkdir()
        assert "cannot be written: it is a folder." in run(f"{command} {name}")
    if Path("/proc/self").exists():  # it only seems writable
        assert "cannot be written: " in run(f"{command} /proc/{name}")


def test_inputs_are_never_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("photos").mkdir()
    for name in (
        "a.png",
        "b.png",
        "pair.npz",
        "theta.json",
        "photos/0_reliability.png",
    ):
        Path(name).write_text("precious")
    Path("link.json").symlink_to("theta.json")
    refit = "refit pair.npz -c theta.json -o"
    for line, words in (
        ("match a.png b.png -o a.png", "a.png would be overwritten: it is read, too"),
        (f"{refit} pair.npz", "read, too"),
        (f"{refit} theta.json", "read, too"),
        (f"{refit} link.json", "read, too"),
        ("match a.png b.png -o x.csv -o x.csv", "it is written twice"),
        # The plot that `calibrate` writes beside its calibration.
        ("calibrate --photos photos -o photos/0.json", "0_reliability.png would be"),
    ):
        assert words in run(line)
    assert Path("theta.json").read_text() == "precious"


# ---- the writer ----------------------------------------------------------------------


def test_a_link_is_followed_and_stays_a_link(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link = tmp_path / "there" / "t.json", tmp_path / "link.json"
    target.write_text("old")
    link.symlink_to(target)
    write_json(link, {"new": 1})
    assert link.is_symlink()
    assert json.loads(target.read_text()) == {"new": 1}
    assert [path.name for path in target.parent.iterdir()] == ["t.json"]


@posix
def test_pipes_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="it is not a plain file"):
        write_json(tmp_path / "pipe", {})


FULL_DISK = """
import resource, sys
from pathlib import Path
from semisure.errors import FileError
from semisure.io.atomic import write_json
resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
try:
    write_json(sys.argv[1], list(range(10_000)))
except FileError as error:
    print(error)
"""


@posix
def test_on_a_full_disk_the_old_file_stays(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text("old")
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(tmp_path / "t.json")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("t.json cannot be written: File too large.\n")
    assert (tmp_path / "t.json").read_text() == "old"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_trial_of_an_output_leaves_nothing_behind(tmp_path: Path) -> None:
    atomic.check_output(tmp_path / "deep" / "a.json", (".json",))
    assert [*tmp_path.iterdir()] == []
