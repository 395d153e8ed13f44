"""`semisure match --model`: what it finds, prints, writes, and refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

from semisure.cli import app
from semisure.errors import FileError
from semisure.io.files import save_calibration, save_matches
from semisure.io.images import focal_px, write_png
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from two_planes import K, posed, render

INTRINSICS = f"{K[0, 0]},{K[1, 1]},{K[0, 2]},{K[1, 2]}"


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def deep(tmp_path_factory) -> list[Path]:
    """Two views of a board before a wall."""
    folder = tmp_path_factory.mktemp("deep")
    poses = posed(0, 0, 0, 0, 0, 0), posed(0.01, -0.03, 0.02, 0.6, 0.05, 0.1)
    paths = [folder / "0.png", folder / "1.png"]
    for path, pose in zip(paths, poses, strict=True):
        write_png(path, render(pose)[0])
    return paths


def test_a_scene_in_depth_is_reported_and_drawn(
    deep: list[Path], tmp_path: Path
) -> None:
    files = [tmp_path / name for name in ("a.json", "a.npz", "a.csv")]
    page, picture = tmp_path / "page.html", tmp_path / "a.png"
    outputs = [part for file in (*files, picture) for part in ("-o", file)]
    done = run("match", *deep, *outputs, "--report", page)
    assert done.exit_code == 0, done.output
    assert "they show a scene in depth. Fundamental matrix from" in done.output
    document = json.loads(files[0].read_text())
    assert document["model"] == "fundamental"
    assert document["H_01"] is None
    assert document["expected_corner_error_px"] is None
    assert document["evidence"]["off_plane"] > document["evidence"]["expected_off"]
    assert len(document["within_90"]) == document["matches"]
    F = np.array(document["F_01"])
    with np.load(files[1]) as stored:
        np.testing.assert_array_equal(stored["F_01"], F)
        assert "H_01" not in stored.files
    row = next(csv.DictReader(files[2].read_text().splitlines()))
    assert 0 < float(row["median_abs_error"]) < float(row["within_90"])
    text = page.read_text()
    assert "Epipolar lines" in text
    assert "One image over the other" not in text
    assert "valid check only if the scene is a plane" not in text
    assert picture.stat().st_size > 10_000


def test_intrinsics_give_the_motion_in_degrees(deep: list[Path], tmp_path) -> None:
    (tmp_path / "K.txt").write_text("\n".join(" ".join(map(str, row)) for row in K))
    angles = []
    for given in (
        ["--intrinsics", tmp_path / "K.txt", "--intrinsics", INTRINSICS],
        ["--fov", 2 * np.degrees(np.arctan(160 / 300))],
    ):
        done = run("match", *deep, *given)
        assert done.exit_code == 0, done.output
        assert "Relative pose from" in done.output
        first, second = done.output.strip().splitlines()[-2:]
        assert first.startswith("rotation ")
        assert second.startswith("translation  along (0.9")
        assert first.count("±") == second.count("±") == 1
        angles.append(float(first.split()[1].split("°")[0]))
    truth = np.degrees(np.linalg.norm([0.01, -0.03, 0.02]))
    np.testing.assert_allclose(angles, truth, atol=0.5)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "essential"], "needs the intrinsics"),
        (["--fov", 60, "--intrinsics", INTRINSICS], "one of them, not two"),
        (["--intrinsics", "1,2,3"], "neither fx,fy,cx,cy nor a file"),
    ],
)
def test_wrong_intrinsics_get_a_sentence(deep, flags, words: str) -> None:
    done = run("match", *deep, *flags)
    assert done.exit_code in (1, 2)
    sentence = done.output if done.exit_code == 2 else str(done.exception)
    assert words in " ".join(sentence.split())


def test_refit_finds_out_too(tmp_path: Path) -> None:
    camera = np.array([[520.0, 0, 319.5], [0, 520, 239.5], [0, 0, 1]])
    motion = np.column_stack([np.eye(3), [1.0, 0.0, 0.0]])
    matches, _ = SyntheticMatcher().match_views(motion, camera, count=500)
    save_matches(matches, tmp_path / "pair.npz")
    save_calibration(EXAMPLE_CALIBRATION, tmp_path / "theta.json")
    order = "refit", tmp_path / "pair.npz", "-c", tmp_path / "theta.json", "--json"
    F = json.loads(run(*order).stdout)["F_01"]
    (tmp_path / "F.txt").write_text("\n".join(" ".join(map(str, row)) for row in F))
    again = run(*order, "--model", "fundamental", "--initial", tmp_path / "F.txt")
    assert json.loads(again.stdout)["estimator"] == "given"
    pose = run(*order, "--intrinsics", "520,520,319.5,239.5")
    np.testing.assert_allclose(json.loads(pose.stdout)["P_01"], motion, atol=0.05)


# ---- EXIF ----------------------------------------------------------------------------


def photo_with(tags: dict[int, object], path: Path) -> Path:
    """A JPEG whose EXIF directory holds these tags."""
    exif = Image.Exif()
    exif[0x8769] = tags
    Image.new("L", (36, 24)).save(path, exif=exif)
    return path


def test_exif_gives_the_focal_length(tmp_path: Path) -> None:
    path = photo_with({0xA405: 28}, tmp_path / "a.jpg")
    # Film equivalents are by the diagonal: 36 × 24 mm.
    assert focal_px(path, (3600, 2400)) == pytest.approx(2800)
    assert focal_px(path, (2400, 3600)) == pytest.approx(2800)
    # 5 mm at 8000 px per cm, which is 3, in an image reduced to a quarter.
    tags = {0x920A: 5.0, 0xA002: 4000, 0xA20E: 8000.0, 0xA210: 3}
    assert focal_px(photo_with(tags, path), (1000, 750)) == pytest.approx(1000)


def test_an_image_without_a_focal_length_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        focal_px(photo_with({}, tmp_path / "a.jpg"), (640, 480))
