"""`semisure calibrate` on scenes and maps: a made-up room, as photos, video and map."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import pytest
from typer.testing import CliRunner

from semisure.calibrate.from_maps import MapSource, map_scene
from semisure.calibrate.from_scenes import calibrate_scenes, parted
from semisure.calibrate.image_pairs import find_pairs
from semisure.calibrate.map_truth import covisible, residual_beside, visible
from semisure.calibrate.scene_matching import SceneSettings
from semisure.cli import app
from semisure.errors import FileError, InputError
from semisure.geometry import pose as se3
from semisure.io.files import load_calibration
from semisure.io.images import write_png
from semisure.matchers import load_matcher
from semisure.synthetic import SyntheticMatcher
from semisure.types import FloatArray
from test_bench_relative import PAIRS, write_list
from two_planes import BOARD, BOARD_M, CAMERA, SIZE, WALL_M, K, posed, render

# A camera that moves along an arc before a board and a wall.
ARC = [
    posed(0.01 * k, 0.03 * k, 0.01 * k, -0.35 * k, 0.1 * k, 0.05 * k) for k in range(5)
]


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five photos of the room, and one of something else."""
    folder = tmp_path_factory.mktemp("room")
    for k, pose in enumerate(ARC):
        write_png(folder / f"{k}.png", render(pose)[0])
    noise = np.random.default_rng(0).normal(size=SIZE[::-1])
    other = 128 + 60 * cv2.GaussianBlur(noise, (0, 0), 3.0) / 0.1
    write_png(folder / "other.png", np.clip(other, 0, 255).astype(np.uint8))
    return folder


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A walk of 24 frames along the arc."""
    path = tmp_path_factory.mktemp("video") / "walk.avi"
    writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*"MJPG"), 10, SIZE)
    for k in range(24):
        step = 4 * k / 24
        grey, _ = render(posed(0, 0.02 * step, 0, -0.35 * step, 0.12 * step, 0))
        writer.write(cv2.cvtColor(grey, cv2.COLOR_GRAY2BGR))
    writer.release()
    return path


def run(*arguments: object) -> str:
    done = CliRunner().invoke(app, ["calibrate", *map(str, arguments)])
    assert done.exit_code == 0, done.output
    return " ".join(done.stdout.split())


# -- which pairs


@pytest.mark.slow
def test_a_folder_gives_the_pairs_that_overlap(room: Path) -> None:
    ticks: list[tuple[int, int]] = []
    scene = find_pairs(room, 40, tick=lambda *tick: ticks.append(tick))
    assert ticks[-1] == (15, 15)  # all pairs of six images
    assert ("0.png", "1.png") in scene.pairs
    assert not any("other.png" in pair for pair in scene.pairs)
    few = find_pairs(room, 3, 160)
    assert len(few.pairs) == 3
    assert few.pairs[0] == scene.pairs[0]  # from the easiest on
    assert few.read("0.png").shape == (120, 160, 3)


def test_a_video_gives_frames_some_steps_apart(video: Path) -> None:
    scene = find_pairs(video, 6, 160)
    frames = [[int(name.split()[1]) for name in pair] for pair in scene.pairs]
    assert {b - a for a, b in frames} == {4, 8, 16}  # 32 are more than there are
    assert len(frames) == 6
    assert scene.read("frame 0").shape == (120, 160, 3)
    assert scene.size_of("frame 0") == SIZE
    assert len(scene.made_of()) == len(scene.images) + 6


def test_a_list_gives_its_pairs(tmp_path: Path) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("# mine\na.png b.png\n\nsub/c.png, a.png\n")
    scene = find_pairs(path, 9)
    assert scene.pairs == [("a.png", "b.png"), ("sub/c.png", "a.png")]
    assert scene.images["sub/c.png"] == tmp_path / "sub" / "c.png"
    path.write_text("a.png b.png c.png\n")
    with pytest.raises(FileError, match=r"Line 1 of .* two image names, but has 3"):
        find_pairs(path, 9)
    path.write_text("# nothing\n")
    with pytest.raises(FileError, match="names no pair"):
        find_pairs(path, 9)


def test_what_is_no_scene_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="There is no scene"):
        find_pairs(tmp_path / "none", 9)
    (tmp_path / "notes.doc").write_text("words")
    with pytest.raises(FileError, match="is no scene: give a folder"):
        find_pairs(tmp_path / "notes.doc", 9)
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    with pytest.raises(FileError, match="more than 4 frames, but OpenCV reads 0"):
        find_pairs(tmp_path / "broken.mp4", 9)
    write_png(tmp_path / "a.png", np.zeros((80, 80, 3), np.uint8))
    (tmp_path / "b.png").write_bytes(b"")
    with pytest.raises(FileError, match="No two of the 1 images"):
        find_pairs(tmp_path, 9)


def test_a_part_of_every_scene_is_held_out() -> None:
    kept, held = parted({"a": "wxyz", "b": "pq", "c": "s"}, 0.25)
    assert kept == {"a": ["w", "x", "y"], "b": ["p"], "c": ["s"]}
    assert held == ["z", "q"]


# -- end to end


@pytest.mark.slow
def test_a_folder_is_calibrated_on_without_truth(room: Path, tmp_path: Path) -> None:
    output, page = tmp_path / "theta.json", tmp_path / "page.html"
    text = run("--scene", room, "-o", output, "--report", page)
    assert "Across epipolar lines" in text
    assert "errors along the lines cannot be judged" in text
    law = load_calibration(output)
    assert law.pairs is not None
    made = law.provenance
    assert made["method"] == "scenes without truth, by errors across epipolar lines"
    assert made["errors_along_lines_from"].startswith("daisy")
    assert sum(made["scenes"].values()) >= 3
    assert law.resolution == SIZE
    words = page.read_text()
    assert "--scene" in words
    assert "Across epipolar lines" in words
    assert (tmp_path / "theta_reliability.png").is_file()
    assert not (tmp_path / "theta.json.parts").exists()


@pytest.mark.slow
def test_a_video_with_a_camera_and_photos(
    video: Path, room: Path, tmp_path: Path
) -> None:
    """The horizontal field of view is 2 atan(160 / 300) = 56.1°."""
    output = tmp_path / "theta.json"
    text = run(
        *("--scene", video, "--fov", 56.1, "--scene-pairs", 6),
        *("--photos", room, "--pairs", 12, "--location", "-o", output),
    )
    assert "Across epipolar lines" in text
    law = load_calibration(output)
    assert law.location is not None  # the photos tell it
    assert law.provenance["photos"] == 6


@pytest.mark.slow
def test_an_interrupted_run_matches_nothing_twice(room: Path, tmp_path: Path) -> None:
    calls: list[int] = []
    daisy = load_matcher("daisy")

    def failing(image0, image1):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return daisy(image0, image1)

    failing.fingerprint = "daisy"
    near = listed(room, tmp_path, [(0, 1), (1, 2), (2, 3), (3, 4), (0, 2)])
    settings = SceneSettings(max_side=320)
    with pytest.raises(KeyboardInterrupt):
        calibrate_scenes(failing, [near], settings=settings, cache=tmp_path)
    calibrate_scenes(failing, [near], settings=settings, cache=tmp_path)
    assert len(calls) == 5 + 1
    other = SceneSettings(max_side=200)
    calibrate_scenes(failing, [near], settings=other, cache=tmp_path)
    assert len(calls) == 6 + 5


def listed(room: Path, folder: Path, pairs: list[tuple[object, object]]) -> Path:
    """A list of pairs of the room's photos."""
    path = folder / "pairs.txt"
    path.write_text("".join(f"{room}/{a}.png {room}/{b}.png\n" for a, b in pairs))
    return path


def test_intrinsics_are_those_of_the_files(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At half the size f is 150, and the centre (159.5 + 0.5) / 2 − 0.5 = 79.5."""
    given = []

    def watching(matches, calibration, cameras):
        given.append(cameras)
        return "not looked at"

    monkeypatch.setattr("semisure.calibrate.scene_matching.find_pair", watching)
    for camera in ({"intrinsics": (300.0, 300.0, 159.5, 119.5)}, {"fov_deg": 56.1449}):
        settings = SceneSettings(max_side=160, **camera)
        scene = listed(room, tmp_path, [(0, 1)])
        with pytest.raises(InputError, match="not looked at"):
            calibrate_scenes(load_matcher("daisy"), [scene], settings=settings)
    half = np.array([[150.0, 0, 79.5], [0, 150, 59.5], [0, 0, 1]])
    for cameras in given:
        assert np.allclose(cameras, half, atol=1e-3)


def test_pairs_that_show_nothing_in_common_end_in_one_sentence(
    room: Path, tmp_path: Path
) -> None:
    scene = listed(room, tmp_path, [(k, "other") for k in range(3)])
    with pytest.raises(
        InputError, match=r"at least two pairs .* but 0 of 3 can. First: 3 of 3 pairs"
    ):
        calibrate_scenes(load_matcher("daisy"), [scene])


def test_a_location_needs_photos(room: Path) -> None:
    done = CliRunner().invoke(
        app, ["calibrate", "--scene", str(room), "--location", "-o", "t.json"]
    )
    assert isinstance(done.exception, InputError)
    assert "scenes alone cannot tell it; give --photos too" in str(done.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give --photos, --scene or --map"),
        (["--scene", "x", "--fov", "60", "--intrinsics", "1,1,1,1"], "exclude each"),
    ],
)
def test_flags_that_make_no_sense_are_told(arguments: list[str], words: str) -> None:
    done = CliRunner().invoke(app, ["calibrate", *arguments, "-o", "t.json"])
    assert done.exit_code == 2
    assert words in " ".join(done.output.replace("│", " ").split())


def test_settings_must_be_sensible() -> None:
    with pytest.raises(InputError, match="pairs must be at least 2"):
        SceneSettings(pairs=1)
    with pytest.raises(InputError, match="held_out must lie in"):
        SceneSettings(held_out=0.0)


# -- maps


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
    """The room as COLMAP's text files; each image observes what is not hidden in it."""
    folder.mkdir()
    width, height = SIZE
    fx, fy, cx, cy = K[0, 0], K[1, 1], K[0, 2] + 0.5, K[1, 2] + 0.5
    (folder / "cameras.txt").write_text(
        f"1 PINHOLE {width} {height} {fx} {fy} {cx} {cy}\n"
    )
    world, lines = points_of_the_room(), []
    for k, pose in enumerate(poses):
        pixels = se3.project(pose, CAMERA, world)
        near = np.rint(pixels).astype(int)
        inside = ((near >= 0) & (near < SIZE)).all(axis=1)
        depth = render(pose)[1][near[:, 1].clip(0, 239), near[:, 0].clip(0, 319)]
        seen = inside & (np.abs(depth - se3.to_camera(pose, world)[:, 2]) < 0.5)
        numbers = " ".join(str(v) for v in se3.seven_numbers(pose))
        lines.append(f"{k + 1} {numbers} 1 {k}.png")
        places = [
            f"{x + 0.5} {y + 0.5} {i}"
            for i, (x, y) in zip(np.flatnonzero(seen), pixels[seen], strict=True)
        ]
        lines.append(" ".join(places))
    (folder / "images.txt").write_text("\n".join(lines) + "\n")
    rows = [f"{i} {x} {y} {z} 0 0 0 0.1 1 0" for i, (x, y, z) in enumerate(world)]
    (folder / "points3D.txt").write_text("\n".join(rows) + "\n")


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
    from semisure.calibrate.map_truth import view_of
    from semisure.io.colmap import read_model

    write_model(tmp_path / "sparse", ARC[:2])
    model = read_model(tmp_path / "sparse")
    view = view_of(model, "0.png", SIZE)
    # The camera is at the origin: the wall at twice the board's depth is behind it.
    behind = np.array([[0.0, 0.0, WALL_M], [-0.9, 0.5, WALL_M]])
    beside = np.array([[2.0, 0.5, WALL_M], [0.0, 0.0, BOARD_M]])
    assert visible(np.concatenate([behind, beside]), view).tolist() == beside.tolist()
    assert covisible(model) == [("0.png", "1.png")]


@pytest.mark.slow
def test_a_colmap_model_tells_the_truth(room: Path, tmp_path: Path) -> None:
    write_model(tmp_path / "sparse", ARC)
    source = MapSource(folder=tmp_path / "sparse", images=room)
    scene = map_scene(source, load_matcher("daisy"), limit=4, max_side=320)
    assert scene.method.startswith("matches beside points of a COLMAP model")
    known = [pair.known() for pair in scene.pairs]
    errors = np.concatenate([np.abs(r).ravel() for _, r in known])
    assert len(scene.pairs) == 4
    assert np.median(errors) < 0.6  # the images are exact, daisy nearly so
    output = tmp_path / "theta.json"
    text = run("--map", source.folder, "--images", room, "-o", output)
    assert "held-out matches" in text
    law = load_calibration(output)
    assert law.provenance["method"] == "maps with truth"
    assert "COLMAP" in law.provenance["maps"]["sparse"]
    assert law.pairs is not None


@pytest.mark.slow
def test_posed_images_with_depth_tell_the_truth_beside_scenes(
    room: Path, tmp_path: Path
) -> None:
    boards = write_list(tmp_path / "boards", PAIRS)
    text = run("--map", boards, "-o", tmp_path / "map.json", "--max-side", 240)
    assert "held-out matches" in text
    law = load_calibration(tmp_path / "map.json")
    assert law.provenance["maps"] == {"boards": "posed images with depth"}
    assert law.resolution == (240, 180)
    twice = "--map", boards, "--map", boards  # as two of the same name would be
    run(*twice, "--scene", room, "-o", tmp_path / "both.json")
    both = load_calibration(tmp_path / "both.json").provenance
    assert {*both["maps"]} == {"boards", "boards (2)"}
    assert both["scenes"]


def test_maps_that_tell_nothing_are_told(room: Path, tmp_path: Path) -> None:
    daisy = load_matcher("daisy")
    limits = {"limit": 4, "max_side": 320}
    with pytest.raises(FileError, match="is no map: expected a COLMAP model"):
        map_scene(MapSource(folder=room), daisy, **limits)
    write_model(tmp_path / "sparse", ARC[:2])
    with pytest.raises(InputError, match="give the folder of its images by --images"):
        map_scene(MapSource(folder=tmp_path / "sparse"), daisy, **limits)
    with pytest.raises(FileError, match=r"holds none of the image pairs .* 0\.png"):
        map_scene(
            MapSource(folder=tmp_path / "sparse", images=tmp_path), daisy, **limits
        )
    flat = write_list(tmp_path / "flat", PAIRS, depth=False)
    with pytest.raises(FileError, match="without depth, give its images by --scene"):
        map_scene(MapSource(folder=flat), daisy, **limits)
