"""Outputs: refused before the work starts, never an input, the old file kept."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from processes import write_photos
from semisure.cli import app
from semisure.errors import FileError, SemisureError
from semisure.io import atomic
from semisure.io.atomic import write_atomically, write_json
from semisure.io.files import save_calibration, save_matches
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
    (tmp_path / "photos").mkdir()
    write_photos(tmp_path / "photos")
    matches, residual = SyntheticMatcher().match(np.eye(3), count=100)
    save_matches(matches, tmp_path / "pair.npz", residual=residual)
    save_calibration(EXAMPLE_CALIBRATION, tmp_path / "theta.json")
    (tmp_path / "file").write_text("precious")
    return tmp_path


def commands(folder: Path) -> dict[str, list[object]]:
    """Each command up to its output."""
    photo = folder / "photos" / "0.png"
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
    told = run(*listed["match"], folder / "photos" / "0.png")
    assert "0.png would be overwritten: it is read, too" in told
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


def test_places_that_only_seem_writable_are_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "a").symlink_to(tmp_path / "b")
    (tmp_path / "b").symlink_to(tmp_path / "a")
    places = {tmp_path / "a": "", tmp_path / ("x" * 300): "File name too long"}
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
        places[tmp_path / "pipe"] = "it is not a plain file"
    if Path("/proc/self").exists():
        places[Path("/proc/x.json")] = ""
    for place, words in places.items():
        for write in (atomic.check_output, lambda path: write_json(path, {})):
            with pytest.raises(FileError, match=f"cannot be written: .*{words}"):
                write(place)
    write_json(tmp_path / ("x" * 250), {})


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


def test_a_trial_of_an_output_leaves_nothing_behind(tmp_path: Path) -> None:
    atomic.check_output(tmp_path / "deep" / "a.json", (".json",))
    assert [*tmp_path.iterdir()] == []
