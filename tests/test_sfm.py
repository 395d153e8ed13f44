"""From a store to keypoints, hloc's and COLMAP's files, and a model."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

pytest.importorskip("pyarrow")

from ball_scene import CAMERAS, SIZE, K, carried, made_store, records, relative
from map_files import write_map
from semisure.cli import app
from semisure.errors import FileError, InputError
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.geometry.rotations import rotation_vector
from semisure.io.colmap import read_model
from semisure.mapping.database import camera_of
from semisure.mapping.export import ExportSettings, read_features
from semisure.mapping.keypoints import keypoint_matches
from semisure.mapping.reconstruct import ReconstructionSettings, adjust_robustly
from semisure.metrics import pose_error_deg
from semisure.synthetic import EXAMPLE_CALIBRATION, EXAMPLE_CAMERA
from settings_file import config
from test_localize import QUERY, World, make_store

h5py = pytest.importorskip("h5py")


@pytest.fixture(scope="module")
def pairs():
    return records()


@pytest.fixture(scope="module")
def store(tmp_path_factory, pairs):
    apart = replace(pairs[0], image0="0.png", image1="5.png", state="unrelated")
    return made_store(tmp_path_factory.mktemp("ball") / "store", [*pairs, apart])


def run(*arguments):
    """What a command prints, once it has ended well."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def test_matched_keypoints_show_the_same_point(pairs):
    made, misses = keypoint_matches(pairs, EXAMPLE_CALIBRATION), []
    for pair in made.pairs:
        first, second = pair.pair.names
        one, other = pair.matches.T
        truth = carried(first, second, made.keypoints[first].points[one])
        misses.append(made.keypoints[second].points[other] - truth)
    off = np.linalg.norm(np.concatenate(misses), axis=1)
    assert len(off) > 500 * len(pairs)
    assert np.nanpercentile(off, 90) < 0.5  # cells are 4 px wide
    assert np.nanmedian(off) < 0.2  # noise of 0.1 px per axis


def test_no_more_keypoints_than_wanted_and_the_most_voted_ones(pairs):
    votes = [
        keypoint_matches(pairs, None, max_keypoints=most).keypoints["1.png"].votes
        for most in (None, 300)
    ]
    assert sorted(votes[1]) == sorted(votes[0])[-300:]
    with pytest.raises(InputError, match="max_keypoints must be"):
        ExportSettings(max_keypoints=-1)


def test_pairs_that_no_model_explains_are_left_out(pairs):
    lost = [replace(pair, state="unrelated") for pair in pairs]
    with pytest.raises(InputError, match="No pair of the store has a model"):
        keypoint_matches(lost, EXAMPLE_CALIBRATION)


# ---- hloc ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def for_hloc(tmp_path_factory, store):
    folder = tmp_path_factory.mktemp("hloc")
    run("export", store.folder, "--to", "hloc", "-o", folder)
    return folder


def hloc_matches(path, name0, name1):
    """What hloc's `get_matches` does, of version 1.5."""
    with h5py.File(path, "r", libver="latest") as file:
        group = file["/".join(name.replace("/", "-") for name in (name0, name1))]
        matches = group["matches0"].__array__()
        scores = group["matching_scores0"].__array__()
    index = np.where(matches != -1)[0]
    return np.stack([index, matches[index]], -1), scores[index]


def test_hloc_finds_its_own_arrays_in_our_files(for_hloc):
    with h5py.File(for_hloc / "features.h5", "r") as file:
        keypoints = file["0.png"]["keypoints"]
        assert keypoints.dtype == np.float32
        assert keypoints.attrs["uncertainty"] == 1.0  # px: matched as it is
        sizes = {name: len(file[name]["keypoints"]) for name in file}
    assert sorted(sizes) == sorted(CAMERAS)
    lines = (for_hloc / "pairs.txt").read_text().splitlines()
    listed = [line.split() for line in lines]
    assert ["0.png", "5.png"] in listed
    for name0, name1 in listed:
        matches, scores = hloc_matches(for_hloc / "matches.h5", name0, name1)
        assert scores.dtype == np.float16
        assert len(matches) == len(scores) == len(np.unique(matches[:, 1]))
        assert (matches[:, 0] < sizes[name0]).all()
        assert (matches[:, 1] < sizes[name1]).all()
        assert len(matches) > 300 or (name0, name1) == ("0.png", "5.png")
    # Pixel centres are at integers.
    keypoints = read_features(for_hloc / "features.h5")
    matches, _ = hloc_matches(for_hloc / "matches.h5", "0.png", "1.png")
    truth = carried("0.png", "1.png", keypoints["0.png"][matches[:, 0]])
    off = keypoints["1.png"][matches[:, 1]] - truth
    assert np.abs(np.nanmedian(off, axis=0)).max() < 0.05


def test_queries_are_exported_with_the_keypoints_of_the_map(for_hloc, store, tmp_path):
    reference = for_hloc / "features.h5"
    files = ("--to", "hloc", "-o", tmp_path, "--reference", reference)
    run("export", store.folder, *files)
    before, after = read_features(reference), read_features(tmp_path / "features.h5")
    np.testing.assert_allclose(after["2.png"], before["2.png"], atol=1e-3)


def test_a_file_that_is_no_reference_is_told(store, tmp_path):
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["numbers"] = np.zeros(3)
    with pytest.raises(FileError, match="holds no features"):
        read_features(tmp_path / "other.h5")


# ---- COLMAP --------------------------------------------------------------------------


def test_pycolmap_opens_our_database(tmp_path, store, pairs):
    pycolmap = pytest.importorskip("pycolmap")
    run("export", store.folder, "--to", "colmap", "--shared-camera", "-o", tmp_path)
    with pycolmap.Database.open(str(tmp_path / "database.db")) as database:
        images = {image.name: image.image_id for image in database.read_all_images()}
        (camera,) = database.read_all_cameras()  # shared, and guessed
        _, geometries = database.read_two_view_geometries()
        ids = images["0.png"], images["2.png"]
        geometry = database.read_two_view_geometry(*ids)
        first, second = (database.read_keypoints(k)[:, :2].astype(float) for k in ids)
    assert sorted(images) == sorted(CAMERAS)
    assert camera.focal_length == 1.2 * 640
    assert not camera.has_prior_focal_length
    assert len(geometries) == len(pairs)
    assert sum(len(g.inlier_matches) for g in geometries) > 300 * len(pairs)
    # Models are written for COLMAP's pixels.
    one, other = np.asarray(geometry.inlier_matches).T
    x0 = np.column_stack([first[one], np.ones(len(one))])
    x1 = np.column_stack([second[other], np.ones(len(other))])
    lines = x0 @ geometry.F.T
    distance = (x1 * lines).sum(axis=1) / np.linalg.norm(lines[:, :2], axis=1)
    assert np.median(np.abs(distance)) < 0.15  # px; half a pixel off would show


def test_a_camera_for_another_size_is_refused():
    camera = Camera("SIMPLE_PINHOLE", 800, 600, (600.0, 400.0, 300.0))
    with pytest.raises(FileError, match="at which it was matched"):
        camera_of("a.jpg", (640, 480), Path(), {"a.jpg": camera})


@pytest.mark.slow
def test_the_ball_is_reconstructed(store, tmp_path):
    pytest.importorskip("pycolmap")
    numbers = " ".join(map(str, Camera.from_matrix(K, SIZE).params))
    lines = [f"{name} PINHOLE 640 480 {numbers}\n" for name in CAMERAS]
    cameras = tmp_path / "cameras.txt"
    cameras.write_text("".join(lines))
    told = run(
        *("reconstruct", store.folder, "-o", tmp_path, "--workers", "1", "--json"),
        *("--cameras", cameras, "--shared-camera"),
        *config(tmp_path, "max_keypoints = 500\nrefine_cameras = false"),
    )
    report = json.loads(told)
    assert report["lost"] == []
    assert report["reprojection_px"] < 0.5
    model = read_model(tmp_path / "model")
    (camera,) = model.cameras.values()
    assert camera.params[0] == 600.0
    first = model.images["0.png"].pose
    for name in ("1.png", "3.png", "5.png"):
        pose = model.images[name].pose
        R = pose[:, :3] @ first[:, :3].T
        moved = np.column_stack([R, pose[:, 3] - R @ first[:, 3]])
        assert pose_error_deg(moved, relative("0.png", name)) < 0.2


def test_the_last_adjustment_resists_heavy_tails():
    """One observation in twenty is off by 20 px; the true rotations are known."""
    pycolmap = pytest.importorskip("pycolmap")
    wanted = pycolmap.SyntheticDatasetOptions()
    wanted.num_rigs = wanted.num_cameras_per_rig = 1
    wanted.num_frames_per_rig, wanted.num_points3D = 8, 200
    pycolmap.set_random_seed(0)
    model = pycolmap.synthesize_dataset(wanted)

    def rotations():
        poses = [model.images[i].cam_from_world() for i in model.reg_image_ids()]
        return [p.rotation.matrix() @ poses[0].rotation.matrix().T for p in poses]

    truth, rng = rotations(), np.random.default_rng(0)
    for image in model.images.values():
        for point in image.points2D:
            point.xy = point.xy + rng.laplace(
                0.0, 20 if rng.random() < 0.05 else 0.5, 2
            )
    adjust_robustly(model, ReconstructionSettings(workers=1))
    off = [
        np.linalg.norm(rotation_vector(R @ true.T))
        for R, true in zip(rotations(), truth, strict=True)
    ]
    assert np.degrees(max(off)) < 0.15  # least squares end 0.5° away


# ---- CSV -----------------------------------------------------------------------------


def test_tables_have_all_pairs_and_all_matches(store, pairs, tmp_path):
    told = json.loads(
        run("export", store.folder, "--to", "csv", "--json", "-o", tmp_path)
    )
    assert (told["images"], told["pairs"]) == (len(CAMERAS), len(pairs) + 1)
    rows = (tmp_path / "pairs.csv").read_text().splitlines()
    assert rows[0].startswith("image0,image1,state,matches,probability,kind,m00")
    assert len(rows) == 1 + told["pairs"]
    matches = (tmp_path / "matches.csv").read_text().splitlines()
    every = [*pairs, pairs[0]]  # that of the store without a model
    assert len(matches) == 1 + sum(len(pair.matches) for pair in every)
    x0 = float(matches[1].split(",")[2])
    assert x0 == pytest.approx(pairs[0].matches.source[0, 0], abs=1e-3)


# ---- what localize wrote -------------------------------------------------------------


def test_matches_of_localize_become_those_of_hloc(tmp_path):
    pytest.importorskip("pycolmap")
    world, out = World(noise=1.0), tmp_path / "out"
    model = read_model(write_map(world.model(), tmp_path / "sfm"))
    make_store(tmp_path / "matches", world)
    files = ("--to", "hloc", "-o", out, "--reference", tmp_path / "sfm")
    run("export", tmp_path / "matches", *files)
    keypoints = read_features(out / "features.h5")
    for name, image in model.images.items():
        np.testing.assert_allclose(keypoints[name], image.points, atol=1e-3)
        names = (QUERY, name) if name != "db/1.jpg" else (name, QUERY)
        matches, _ = hloc_matches(out / "matches.h5", *names)
        matches = matches if names[0] == QUERY else matches[:, ::-1]
        # hloc takes the 3D point of the mapped keypoint for the query's keypoint.
        ids = image.point_ids[matches[:, 1]]
        lifted = matches[ids >= 0]
        assert len(lifted) > 100
        points = world.points[image.point_ids[lifted[:, 1]]]
        should = se3.project(world.poses[QUERY], EXAMPLE_CAMERA, points)
        off = np.linalg.norm(keypoints[QUERY][lifted[:, 0]] - should, axis=1)
        assert np.median(off) < 2.0  # px; the matches err by about one
