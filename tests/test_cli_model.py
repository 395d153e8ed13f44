"""`semisure match --model`: what it finds, prints, writes, and refuses."""

from __future__ import annotations

import csv
import json
import struct
from pathlib import Path

import cv2
import numpy as np
import pytest
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
        ["--intrinsics", INTRINSICS],
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


def test_what_was_asked_for_is_given(deep: list[Path]) -> None:
    document = json.loads(run("match", *deep, "--model", "homography", "--json").stdout)
    assert document["model"] == "homography"
    assert document["F_01"] is None
    assert document["found"] is None


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--model", "essential"], "needs the intrinsics"),
        (["--fov", 60, "--intrinsics", INTRINSICS], "one of them, not two"),
        (["--fov", 200], "between 0 and 180"),
        (["--intrinsics", "1,2,3"], "neither fx,fy,cx,cy nor a file"),
        (
            ["--intrinsics", "1,1,1,1"] + 2 * ["--intrinsics", "1,1,1,1"],
            "once or twice",
        ),
    ],
)
def test_wrong_intrinsics_get_a_sentence(deep, flags, words: str) -> None:
    done = run("match", *deep, *flags)
    assert done.exit_code in (1, 2)
    told = done.output if done.exit_code == 2 else str(done.exception)
    assert words in " ".join(told.replace("│", " ").split())


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


def jpeg_with(tags: dict[int, tuple[int, bytes]], order: str = "<") -> bytes:
    """A JPEG whose EXIF directory holds these tags, each of (type, value)."""
    head = (b"II" if order == "<" else b"MM") + struct.pack(order + "HL", 42, 8)
    pointer = struct.pack(order + "HHLL", 0x8769, 4, 1, 26)
    body = struct.pack(order + "H", 1) + pointer + struct.pack(order + "L", 0)
    entries, extra = b"", b""
    after = 26 + 2 + 12 * len(tags) + 4
    for tag, (kind, value) in tags.items():
        entry = struct.pack(order + "HHL", tag, kind, 1)
        if len(value) > 4:
            entry += struct.pack(order + "L", after + len(extra))
            extra += value
        else:
            entry += value.ljust(4, b"\0")
        entries += entry
    inner = struct.pack(order + "H", len(tags)) + entries + b"\0\0\0\0" + extra
    tiff = head + body + inner
    segment = b"Exif\0\0" + tiff
    app1 = b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment
    plain = cv2.imencode(".jpg", np.zeros((24, 36, 3), np.uint8))[1].tobytes()
    return plain[:2] + app1 + plain[2:]


@pytest.mark.parametrize("order", "<>")
def test_exif_tells_the_focal_length(order: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(jpeg_with({0xA405: (3, struct.pack(order + "H", 28))}, order))
    # Film equivalents are by the diagonal: 36 × 24 mm.
    assert focal_px(path, (3600, 2400)) == pytest.approx(2800)
    assert focal_px(path, (2400, 3600)) == pytest.approx(2800)
    tags = {
        0x920A: (5, struct.pack(order + "LL", 50, 10)),  # 5 mm
        0xA002: (4, struct.pack(order + "L", 4000)),
        0xA20E: (5, struct.pack(order + "LL", 8000, 1)),  # per cm
        0xA210: (3, struct.pack(order + "H", 3)),
    }
    path.write_bytes(jpeg_with(tags, order))
    # 5 mm at 800 px a mm, in an image reduced to a quarter.
    assert focal_px(path, (1000, 750)) == pytest.approx(1000)


@pytest.mark.parametrize(
    "data",
    [b"", jpeg_with({}), jpeg_with({})[:40]],
)
def test_images_without_a_focal_length_say_so(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(data)
    with pytest.raises(FileError):
        focal_px(path, (640, 480))
