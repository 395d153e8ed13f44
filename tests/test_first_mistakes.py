"""Mistakes of a first hour get a sentence that says what to do instead."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from first_mistakes import write_other_weights
from semisure.cli import app
from semisure.errors import SemisureError

SETUP = """\
import cv2
import numpy as np
import semisure
from semisure.synthetic import EXAMPLE_CALIBRATION as law, SyntheticMatcher

H = np.eye(3)
matches, _ = SyntheticMatcher().match(np.eye(3), count=50)
names = "confidence", "fine_std", "coarse_std"
cues = {name: getattr(matches, name) for name in names}
sizes = {"source_size": (640, 480), "target_size": (640, 480)}
image = np.zeros((64, 64), np.uint8)
points = matches.source[:, None]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """Two photos, one that cannot be decoded, and settings with other weights."""
    folder = tmp_path_factory.mktemp("first")
    blobs = np.random.default_rng(0).integers(0, 255, (12, 16), np.uint8)
    photo = blobs.repeat(12, 0).repeat(12, 1)
    for name in ("a.png", "b.png"):
        (folder / name).write_bytes(cv2.imencode(".png", photo)[1].tobytes())
    brands = b"ftypheic\0\0\0\0mif1heic"
    (folder / "c.heic").write_bytes(b"\0\0\0\x18" + brands + bytes(64))
    write_other_weights(folder / "other.pt")
    settings = 'weights = "other.pt"\ncalibrate = false\n'
    (folder / "other.toml").write_text(settings)
    return folder


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ('match(cv2.imread("nowhere.jpg"), "b.png")', "cv2.imread returns that"),
        ('match("a.jpg", "b.png")', "Did you mean a.png?"),
        ('match("a.png", "b.png", matcher="xfeat")', "Did you mean xfeat-star"),
        ("match(np.zeros((3, 48, 64)), 'b.png')", "image0.transpose(1, 2, 0)"),
        ('match_pair(image, image, "daisy", law)', "load_matcher(name)"),
        ("load_matcher(matches)", "but is Matches(50 matches"),
        ("expected_abs_error(matches)", "semisure.error_law(matches, calibration)"),
        ("residual(matches, H)", "matches cannot be of type ndarray"),
        ("estimate_homography('pair.npz')", "semisure.load_matches(path)"),
        ('refit_homography(matches, "daisy", H)', "load_calibration('daisy')"),
        ("refit_homography(matches, law, None)", "found no model"),
        (
            "refit_homography(matches, law, cv2.findHomography(points, points))",
            "return the model and a mask",
        ),
        ("expected_corner_error(None)", "refit.covariance, which is None"),
        ("fit((matches, matches.source))", "fit([(matches, residual)])"),
        ("load_calibration(None)", "a path cannot be None"),
        ("save_matches('pair.npz', matches)", "matches cannot be of type str"),
        ("read_image(image)", "Arrays are images already"),
        (
            "Matches(source=points, target=points, **cues, **sizes)",
            "Pass source.reshape(-1, 2)",
        ),
    ],
)
def test_a_mistake_in_python_gets_a_sentence_that_helps(
    typed: str, words: str, folder: Path, monkeypatch
) -> None:
    monkeypatch.chdir(folder)
    with pytest.raises(SemisureError) as refusal:
        exec(f"{SETUP}semisure.{typed}", {})  # noqa: S102
    assert words in str(refusal.value)
    assert len(str(refusal.value)) < 300
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("match a.png b.png -e magsac", "Did you mean magsac++?"),
        ("match a.png b.png -o matches.txt", "its name must end in"),
        ("match a.png b.png -o .", "it is a folder"),
        ("match c.heic b.png", "Convert it"),
        (
            "match a.png b.png --matcher xfeat-star --config other.toml",
            "has no calibration yet",
        ),
    ],
)
def test_a_mistake_on_the_command_line_gets_a_sentence_that_helps(
    command: str, words: str, folder: Path, monkeypatch
) -> None:
    monkeypatch.chdir(folder)
    if "other.toml" in command and not Path("other.pt").exists():
        pytest.skip("needs torch and the weights of XFeat")
    done = CliRunner().invoke(app, command.split(), env={"COLUMNS": "300"})
    assert done.exit_code in (1, 2)
    sentence = done.output if done.exit_code == 2 else str(done.exception)
    assert words in " ".join(sentence.split())


def test_lists_are_arrays() -> None:
    names: dict[str, object] = {}
    exec(  # noqa: S102
        f"{SETUP}"
        "first = semisure.residual(H.tolist(), matches)\n"
        "second = semisure.residual(H, matches)\n"
        "error = semisure.expected_corner_error(np.eye(8).tolist())\n",
        names,
    )
    assert (names["first"] == names["second"]).all()
    assert abs(names["error"] - 1.2533141) < 1e-6  # √(π/2)
