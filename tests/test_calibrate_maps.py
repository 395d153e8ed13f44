"""`semisure calibrate` on maps: a made-up room as a COLMAP model and with depth."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from map_files import write_map
from semisure.calibrate.map_truth import MapView, covisible, residual_beside, visible
from semisure.calibrate.maps import open_map
from semisure.cli import app
from semisure.errors import FileError, InputError
from semisure.geometry import pose as se3
from semisure.io.colmap import MapImage, MapModel, RawCamera, read_model
from semisure.io.files import load_calibration
from semisure.io.images import write_png
from semisure.synthetic import SyntheticMatcher
from semisure.types import FloatArray
from settings_file import config
from test_bench_relative import PAIRS, write_list
from two_planes import BOARD, BOARD_M, CAMERA, SIZE, WALL_M, posed, render

# A camera that moves along an arc before a board and a wall.
ARC = [
    posed(0.01 * k, 0.03 * k, 0.01 * k, -0.35 * k, 0.1 * k, 0.05 * k) for k in range(5)
]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five photos of the room."""
    folder = tmp_path_factory.mktemp("room")
    for k, pose in enumerate(ARC):
        write_png(folder / f"{k}.png", render(pose)[0])
    return folder


def points_of_the_room() -> FloatArray:
    """A grid on the wall, and one on the board."""
    grids = []
    for depth, (low, high) in ((WALL_M, ((-5, -4), (7, 4))), (BOARD_M, BOARD)):
        x, y = np.meshgrid(
            np.linspace(low[0], high[0], 60), np.linspace(low[1], high[1], 50)
        )
        grids.append(np.column_stack([x.ravel(), y.ravel(), np.full(x.size, depth)]))
    return np.concatenate(grids)


def write_model(folder: Path, poses: Sequence[FloatArray]) -> None:
    """The room as COLMAP's files; each image observes what is not hidden in it."""
    pytest.importorskip("pycolmap", reason="needs the extra pose")
    world, images = points_of_the_room(), {}
    for k, pose in enumerate(poses):
        pixels = se3.project(pose, CAMERA, world)
        near = np.rint(pixels).astype(int)
        inside = ((near >= 0) & (near < SIZE)).all(axis=1)
        depth = render(pose)[1][near[:, 1].clip(0, 239), near[:, 0].clip(0, 319)]
        seen = inside & (np.abs(depth - se3.to_camera(pose, world)[:, 2]) < 0.5)
        name, ids = f"{k}.png", np.flatnonzero(seen)
        images[name] = MapImage(name, 1, pose, pixels[ids], ids)
    camera = RawCamera(CAMERA.model, *SIZE, CAMERA.params)
    count = len(world)
    errors = np.full(count, 0.1)
    write_map(MapModel({1: camera}, images, np.arange(count), world, errors), folder)


def test_residuals_beside_points_are_the_planted_ones() -> None:
    """A known shift, anchors off the points by up to a px: r is what was planted."""
    matches, planted = SyntheticMatcher().match(np.eye(3), count=500)
    turned = matches.swapped()  # refined in image 0
    rng = np.random.default_rng(0)
    anchors = turned.target + rng.uniform(-1, 1, turned.target.shape)
    residual = residual_beside(turned, anchors, anchors)
    # Image 0 sees what image 1 sees: a local map other than the identity costs little.
    assert np.median(np.abs(residual - planted)) < 0.35
    far = residual_beside(turned, anchors + 50.0, anchors + 50.0)
    assert np.isnan(far).mean() > 0.5
    none = residual_beside(turned, anchors[:0], anchors[:0])
    assert np.isnan(none).all()


def test_points_behind_the_board_are_not_visible(tmp_path: Path) -> None:
    write_model(tmp_path / "sparse", ARC[:2])
    model = read_model(tmp_path / "sparse")
    view = MapView.of(model, "0.png", SIZE)
    # The camera is at the origin: the wall at twice the board's depth is behind it.
    behind = np.array([[0.0, 0.0, WALL_M], [-0.9, 0.5, WALL_M]])
    beside = np.array([[2.0, 0.5, WALL_M], [0.0, 0.0, BOARD_M]])
    assert visible(np.concatenate([behind, beside]), view).tolist() == beside.tolist()
    assert covisible(model) == [("0.png", "1.png")]


@pytest.mark.slow
def test_maps_of_both_kinds_and_photos_make_one_law(room: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "sparse", ARC)
    boards = write_list(tmp_path / "boards", PAIRS)
    output = tmp_path / "theta.json"
    flags = ["--map", boards, "--map", tmp_path / "sparse"]
    flags += ["--images", room, "--photos", room]
    flags += config(tmp_path, "pairs = 10\nmax_side = 240")
    done = CliRunner().invoke(app, ["calibrate", *map(str, flags), "-o", str(output)])
    assert done.exit_code == 0, done.output
    assert "held-out matches" in done.stdout
    law = load_calibration(output)
    made = law.provenance
    assert made["method"] == "maps with truth"
    assert {*made["maps"]} == {str(boards), str(tmp_path / "sparse")}
    assert made["maps"][str(boards)] == "posed images with depth"
    assert made["photos"] == 5
    assert law.resolution == (240, 180)
    assert law.pairs is not None
    assert not (tmp_path / "theta.json.parts").exists()


def test_maps_that_tell_nothing_are_told(room: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError, match="is no map: expected a COLMAP model"):
        open_map(room, None, 4)
    write_model(tmp_path / "sparse", ARC[:2])
    with pytest.raises(InputError, match="give the folder of its images by --images"):
        open_map(tmp_path / "sparse", None, 4)
    with pytest.raises(FileError, match=r"holds none of the image pairs .* 0\.png"):
        open_map(tmp_path / "sparse", tmp_path, 4)
    flat = write_list(tmp_path / "flat", PAIRS, depth=False)
    with pytest.raises(FileError, match="without depth, give its images by --photos"):
        open_map(flat, None, 4)
