"""Outputs: refused before the work starts, never an input, the old file kept."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from semisure.cli import app
from semisure.errors import FileError, SemisureError
from semisure.io import atomic
from semisure.io.atomic import write_atomically, write_json
from semisure.io.files import save_calibration, save_matches
from semisure.io.images import write_png
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


def run(*arguments: object) -> str:
    """The sentence of a command that must fail with one."""
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(done.exception, SemisureError), (done.exception, done.output)
    return str(done.exception)


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever reads an input or computes fails the test."""

    def work(*args: object, **kwargs: object) -> None:
        raise AssertionError("the work has started")

    places = (
        "semisure.io.images.read_image",
        "semisure.io.files.load_matches",
        "semisure.io.files.load_arrays",
        "semisure.calibrate.photos.self_calibrate",
        "semisure.demo.run",
        "semisure.io.hloc.read_queries",
        "semisure.bench.run.run_bench",
    )
    for place in places:  # all imported before any is replaced
        importlib.import_module(place.rpartition(".")[0])
    for place in places:
        monkeypatch.setattr(place, work)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    blobs = np.random.default_rng(0).integers(0, 256, (30, 40), np.uint8)
    (tmp_path / "photos").mkdir()
    for k in range(6):
        photo = np.roll(blobs, 7 * k).repeat(4, 0).repeat(4, 1)
        write_png(tmp_path / "photos" / f"{k}.png", photo)
    write_png(tmp_path / "a.png", blobs.repeat(4, 0).repeat(4, 1))
    matches, residual = SyntheticMatcher().match(np.eye(3), count=100)
    save_matches(matches, tmp_path / "pair.npz", residual=residual)
    save_calibration(EXAMPLE_CALIBRATION, tmp_path / "theta.json")
    (tmp_path / "file").write_text("precious")
    return tmp_path


def commands(folder: Path) -> dict[str, list[object]]:
    """Each command up to its output."""
    photo = folder / "a.png"
    return {
        "match": ["match", photo, photo, "-o"],
        "report": ["match", photo, photo, "--report"],
        "refit": ["refit", folder / "pair.npz", "-c", folder / "theta.json", "-o"],
        "fit": ["fit", folder / "pair.npz", "-o"],
        "calibrate": ["calibrate", "--photos", folder / "photos", "-o"],
        "demo": ["demo", "-o"],
        "localize": [
            "localize", folder, "--queries", folder / "q", "--pairs",
            folder / "p", "--images", folder, "-o",
        ],
        "bench": ["bench", "homography", "--data", folder, "-o"],
    }  # fmt: skip


FILES = ["match", "report", "refit", "fit", "calibrate", "demo"]
GOOD = {"report": "x.html", "demo": "x.html"}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("name", [*FILES, "localize", "bench"])
def test_what_cannot_be_written_is_refused_before_the_work(folder, name) -> None:
    command, good = commands(folder)[name], GOOD.get(name, "x.json")
    told = run(*command, folder / "file" / good)
    assert f"{folder / 'file'} is not a folder" in told
    assert (folder / "file").read_text() == "precious"
    if name in FILES:
        told = run(*command, folder / "out.txt")
        assert "cannot be written: its name must end in ." in told
        (folder / good).mkdir()
        assert "cannot be written: it is a folder." in run(*command, folder / good)


@pytest.mark.usefixtures("no_work")
def test_inputs_are_never_outputs(folder: Path) -> None:
    before = (folder / "theta.json").read_bytes()
    listed = commands(folder)
    told = run(*listed["match"], folder / "a.png")
    assert "a.png would be overwritten: it is read, too" in told
    assert "read, too" in run(*listed["refit"], folder / "pair.npz")
    assert "read, too" in run(*listed["refit"], folder / "theta.json")
    (folder / "link.json").symlink_to(folder / "theta.json")
    assert "read, too" in run(*listed["refit"], folder / "link.json")
    assert (folder / "theta.json").read_bytes() == before

    told = run(*listed["match"], folder / "x.csv", "-o", folder / "x.csv")
    assert "it is written twice" in told
    # The plot that `calibrate` writes beside its calibration.
    photo = folder / "photos" / "0_reliability.png"
    (folder / "photos" / "0.png").rename(photo)
    told = run(*listed["calibrate"], folder / "photos" / "0.json")
    assert f"{photo} would be overwritten" in told


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


def test_links_in_a_circle_and_pipes_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    with pytest.raises(FileError, match="cannot be written"):
        write_json(tmp_path / "a", {})
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        with pytest.raises(FileError, match="it is not a plain file"):
            write_json(tmp_path / "pipe", {})


def test_a_name_that_is_too_long_is_one_sentence(tmp_path: Path) -> None:
    write_json(tmp_path / ("x" * 250), {})
    for check in (atomic.check_output, lambda path: write_json(path, {})):
        with pytest.raises(FileError, match="cannot be written: File name too long"):
            check(tmp_path / ("x" * 300))


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


@posix
def test_permissions_are_the_users_and_the_mask_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The mask is the whole process's: a change would open other threads' files."""
    before = os.umask(0o027)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(os, "umask", lambda mask: pytest.fail("changed the mask"))
            write_atomically(tmp_path / "ours", b"x")
    finally:
        os.umask(before)
    assert (tmp_path / "ours").stat().st_mode & 0o777 == 0o640


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("flag", ["-o", "--report"])
def test_a_place_that_only_seems_writable_is_tried_before_the_work(
    flag: str, no_work: None, tmp_path: Path
) -> None:
    name = {"-o": "x.json", "--report": "x.html"}[flag]
    told = run("match", tmp_path / "a.png", tmp_path / "b.png", flag, f"/proc/{name}")
    assert told.startswith(f"/proc/{name} cannot be written: ")


def test_a_trial_of_an_output_leaves_nothing_behind(tmp_path: Path) -> None:
    atomic.check_output(tmp_path / "deep" / "a.json", (".json",))
    assert [*tmp_path.iterdir()] == []
