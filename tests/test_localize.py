"""Localisation: lifting, the refined side, a small map end to end."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from map_files import write_map
from semisure.cli import app
from semisure.errors import FileError, InputError
from semisure.geometry import pose as se3
from semisure.geometry.lifting import lift, towards_source
from semisure.io.colmap import MapImage, MapModel, RawCamera
from semisure.io.files import save_calibration
from semisure.law.error_laws import error_law
from semisure.law.mixture import sample
from semisure.mapping.localize import LocalizeSettings, localize, localize_query
from semisure.mapping.sources import FromStore, QueryFirst, stored
from semisure.matchers import load_matcher
from semisure.synthetic import EXAMPLE_CALIBRATION, EXAMPLE_CAMERA
from semisure.types import FloatArray, Matches
from semisure.types.pair_records import PairRecord

CAMERA = EXAMPLE_CAMERA
NAMES = ("db/0.jpg", "db/1.jpg", "db/2.jpg")
QUERY = "query/night/q.jpg"


class World:
    """Points, three mapped cameras and a query; matches whose errors are simulated."""

    def __init__(self, noise: float) -> None:
        rng = np.random.default_rng(0)
        self.noise, self.calls = noise, 0
        self.points = rng.uniform([-3, -2, 4], [3, 2, 9], (3000, 3))
        poses = [se3.moved(np.eye(3, 4), rng.uniform(-0.1, 0.1, 6)) for _ in range(4)]
        self.poses = dict(zip((*NAMES, QUERY), poses, strict=True))

    def model(self) -> MapModel:
        images = {}
        for name in NAMES:
            seen = se3.project(self.poses[name], CAMERA, self.points)
            inside = self.inside(seen)
            ids = np.flatnonzero(inside).astype(np.int64)
            ids[::7] = -1  # some were not triangulated
            images[name] = MapImage(name, 1, self.poses[name], seen[inside], ids)
        raw = RawCamera(CAMERA.model, 640, 480, CAMERA.params)
        ids = np.arange(len(self.points), dtype=np.int64)
        error = np.full(len(ids), 0.2)
        return MapModel({1: raw}, images, ids, self.points, error)

    @staticmethod
    def inside(pixels: FloatArray):
        return ((pixels > 0) & (pixels < [639, 479])).all(axis=1)

    def match(self, query: str, mapped: str) -> Matches:
        self.calls += 1
        rng = np.random.default_rng(len(mapped))
        here, there = (
            se3.project(self.poses[name], CAMERA, self.points)
            for name in (query, mapped)
        )
        both = self.inside(here) & self.inside(there)
        n = int(both.sum())
        matches = Matches(
            source=here[both], target=there[both], confidence=np.full(n, 0.7),
            fine_std=np.full((n, 2), 0.6), coarse_std=np.full((n, 2), 20.0),
            source_size=CAMERA.size, target_size=CAMERA.size, side=0)  # fmt: skip
        error = sample(error_law(matches, EXAMPLE_CALIBRATION), rng)
        return matches.shifted(self.noise * error)


# -- lifting


def grid(zoom: float = 1.0, side: int = 0) -> Matches:
    """Matches on a grid of image 1; image 0 is `zoom` times as large."""
    x, y = np.meshgrid(np.arange(20.0, 400, 8), np.arange(20.0, 300, 8))
    target = np.column_stack([x.ravel(), y.ravel()])
    n = len(target)
    return Matches(
        source=zoom * target, target=target, confidence=np.linspace(0.1, 0.9, n),
        fine_std=np.ones((n, 2)), coarse_std=np.full((n, 2), 20.0), side=side,
        source_size=(1600, 1200), target_size=(640, 480))  # fmt: skip


def test_a_match_takes_the_nearest_keypoint_within_the_radius() -> None:
    observed = np.array([[21.0, 20.0], [20.0, 31.0], [36.5, 20.0]])
    world = np.arange(9.0).reshape(3, 3)
    lifted = lift(grid(), observed, world, radius_px=2.0, compensate=False)
    # (20, 20) is 1 px from the first; (20, 28) 3 px from the second; (36, 20) ½ px.
    assert lifted.world.tolist() == [[0.0, 1, 2], [6, 7, 8]]
    assert lifted.points.tolist() == [[20.0, 20], [36, 20]]


def test_the_query_point_follows_to_the_keypoint_of_the_surest_match() -> None:
    """A keypoint 1 px beside the match is 2 px beside it in a query twice as large."""
    matches, observed = grid(zoom=2.0), np.array([[101.0, 100.0]])
    (point,) = lift(matches, observed, np.zeros((1, 3))).points
    assert np.allclose(point, [202.0, 200.0])
    doubled = replace(matches, target=np.tile([[101.0, 100.0]], (len(matches), 1)))
    lifted = lift(doubled, observed, np.zeros((1, 3)), compensate=False)
    assert lifted.points.tolist() == [[2 * 396.0, 2 * 292.0]]  # the last of the grid
    assert lifted.confidence.tolist() == [0.9]


def test_cues_of_the_other_side_are_transported() -> None:
    moved, shift_map = towards_source(grid(zoom=2.0, side=1))
    assert (moved.side == 0).all()
    assert np.allclose(moved.fine_std, 2.0)
    assert np.allclose(moved.fine_window, 16.0)
    # One window to the right in image 1 is 16 px to the left in image 0.
    assert np.allclose(moved.fine_window[0] * shift_map[0] @ [1.0, 0.0], [-16.0, 0.0])
    same, identity = towards_source(grid(side=0))
    assert same.fine_std.max() == 1.0
    assert np.allclose(identity, np.eye(2))


@pytest.mark.parametrize("side", [0, 1])
def test_the_query_becomes_the_refined_side(side: int) -> None:
    """Whichever image a matcher refines, it is called so that this is the query."""
    calls = []

    def matcher(image0, image1) -> Matches:
        calls.append((image0.shape[0], image1.shape[0]))
        sizes = {"source_size": image0.shape[1::-1], "target_size": image1.shape[1::-1]}
        return replace(grid(side=side), **sizes)

    turned = QueryFirst(matcher)
    query, mapped = np.zeros((10, 9), np.uint8), np.zeros((20, 9), np.uint8)
    for _ in range(2):
        matches = turned(query, mapped)
        assert (matches.side == 0).all()
        assert matches.source_size == (9, 10)
    # The wrong order is tried once, and not again.
    assert calls == ([(10, 20)] * 2 if side == 0 else [(10, 20), (20, 10), (20, 10)])


# -- a small map end to end


def test_exact_matches_give_the_exact_pose() -> None:
    """A slip by half a pixel between COLMAP's frame and ours would be 0.055°."""
    world = World(noise=0.0)
    known = world.model(), world.match, EXAMPLE_CALIBRATION, LocalizeSettings()
    result = localize_query(QUERY, CAMERA, NAMES, *known)
    assert result.pose is not None
    # Not exact: a match near another point's keypoint takes that point.
    apart, angle = se3.errors(result.pose, world.poses[QUERY])
    assert apart < 1e-3
    assert angle < 0.003


def as_pose(numbers: list[str]) -> FloatArray:
    """The pose of seven numbers of a line to submit."""
    return se3.from_quaternion(*np.split(np.array(numbers, float), [4]))


def test_noisy_matches_give_a_pose_with_its_spread(tmp_path: Path) -> None:
    world = World(noise=1.0)
    queries, pairs = {QUERY: CAMERA}, {QUERY: list(NAMES)}
    arguments = (queries, pairs, world.model(), world.match, EXAMPLE_CALIBRATION)
    (result,) = localize(*arguments, tmp_path)
    assert result.pose is not None
    apart, angle = se3.errors(result.pose, world.poses[QUERY])
    assert apart < 0.02
    assert angle < 0.1
    assert apart < 5 * result.details["position_std"]
    name, *numbers = (tmp_path / "poses.txt").read_text().split()
    assert name == "q.jpg"
    assert np.allclose(as_pose(numbers), result.pose)
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["localized"] == 1
    assert [entry["image"] for entry in report["results"][0]["mapped"]] == list(NAMES)
    assert np.array(report["results"][0]["covariance"]).shape == (6, 6)


def test_a_finished_query_is_not_done_again(tmp_path: Path) -> None:
    world = World(noise=1.0)
    asked = {QUERY: CAMERA}, {QUERY: list(NAMES)}, world.model()
    arguments = (*asked, world.match, EXAMPLE_CALIBRATION, tmp_path)
    first = localize(*arguments)
    poses = (tmp_path / "poses.txt").read_text()
    again = localize(*arguments)
    assert world.calls == 3
    assert np.array_equal(first[0].pose, again[0].pose)
    assert (tmp_path / "poses.txt").read_text() == poses
    # Damaged files and other settings are done again.
    next((tmp_path / "queries").iterdir()).write_text("{")
    localize(*arguments)
    assert world.calls == 6
    localize(*arguments, LocalizeSettings(method="core"))
    assert world.calls == 9


def test_queries_without_a_pose_are_named_with_the_reason(tmp_path: Path) -> None:
    world = World(noise=1.0)
    world.poses |= dict.fromkeys(("query/b.jpg", "d"), world.poses[QUERY])
    wrong = replace(CAMERA, width=480, height=640)

    def match(query: str, mapped: str) -> Matches:
        if mapped == "db/2.jpg":
            raise FileError("There is no image db/2.jpg.")
        count = 0 if mapped == "db/1.jpg" else 500
        return world.match(query, mapped).take(np.arange(count))

    proposed = {"b": 9, "c": 2, "d": 1, "query/b.jpg": 0}
    results = localize(
        {"a": CAMERA, "b": CAMERA, "c": CAMERA, "d": CAMERA, "query/b.jpg": wrong},
        {query: [f"db/{k}.jpg"] for query, k in proposed.items()},
        world.model(), match, EXAMPLE_CALIBRATION, tmp_path)  # fmt: skip
    assert all(result.pose is None for result in results)
    lost = json.loads((tmp_path / "report.json").read_text())["not_localized"]
    assert lost["a"] == "the pairs file proposes no mapped image"
    assert lost["b"].startswith("The map has no image 'db/9.jpg'")
    assert lost["c"] == "There is no image db/2.jpg."
    assert lost["d"] == "no matches, a pose needs 4"
    assert "is 640 × 480 px, but its camera is for 480 × 640" in lost["query/b.jpg"]
    assert (tmp_path / "poses.txt").read_text() == ""


def make_store(folder: Path, world: World) -> None:
    """The matches of the query in a store, one of them the other way around."""
    from semisure.io.store import Manifest, Store

    records = []
    for name in NAMES:
        matches, images = world.match(QUERY, name), (QUERY, name)
        if name == NAMES[1]:
            matches, images = matches.swapped(), images[::-1]
        named = {"image0": images[0], "image1": images[1]}
        records.append(PairRecord(**named, state="matched", matches=matches))
    Store.made(folder, Manifest(recipe={"matcher": None})).write(records)


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a model and a store to a submission, by any number of processes."""
    pytest.importorskip("pyarrow", reason="needs the extra store")
    pytest.importorskip("pycolmap", reason="needs the extra pose")
    monkeypatch.chdir(tmp_path)
    world, poses = World(noise=1.0), []
    write_map(world.model(), tmp_path)
    make_store(tmp_path / "store", world)
    save_calibration(EXAMPLE_CALIBRATION, tmp_path / "theta.json")
    params = " ".join(map(str, CAMERA.params))
    lines = [f"{name} SIMPLE_RADIAL 640 480 {params}\n" for name in (QUERY, "lost.jpg")]
    Path("q.txt").write_text("".join(lines))
    Path("p.txt").write_text("".join(f"{QUERY} {name}\n" for name in NAMES))
    words = "localize . --queries q.txt --pairs p.txt -c theta.json --matches store -o"
    for workers in ("0", "1"):
        line = [*words.split(), workers, "--workers", workers]
        done = CliRunner().invoke(app, line)
        assert done.exit_code == 3, done.output
        assert "1 of 2 queries localised" in done.output
        assert "lost.jpg: the pairs file proposes no mapped image" in done.output
        poses.append(Path(workers, "poses.txt").read_text())
    assert poses[0] == poses[1]
    pose = as_pose(poses[0].split()[1:])
    assert se3.errors(pose, World(1.0).poses[QUERY])[0] < 0.02


def test_a_store_gets_the_matches_it_lacks(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="needs the extra store")
    from semisure.io.store import Manifest, Store

    world = World(noise=1.0)
    arguments = {QUERY: CAMERA}, {QUERY: list(NAMES)}, world.model()
    settings = [LocalizeSettings(), LocalizeSettings(method="core")]
    for k, one in enumerate(settings):
        source = stored(world.match, tmp_path / "store")
        localize(*arguments, source, EXAMPLE_CALIBRATION, tmp_path / str(k), one)
    assert world.calls == 3  # the second run read them
    again = stored(world.match, tmp_path / "store")
    localize(*arguments, again, EXAMPLE_CALIBRATION, tmp_path / "again")
    poses = [(tmp_path / k / "poses.txt").read_text() for k in ("0", "again")]
    assert poses[0] == poses[1]  # matched or read, to the last digit
    kept = Store.at(tmp_path / "store")
    assert len(kept.shards()) == 1
    assert {record.image1 for record in kept.records()} == set(NAMES)
    with pytest.raises(FileError, match=r"has no matches of other and db/0\.jpg"):
        FromStore(tmp_path / "store")("other", NAMES[0])
    recipe = {"matcher": {"weights": "others", "code": "others"}}
    Store.made(tmp_path / "others", Manifest(recipe=recipe))
    with pytest.raises(InputError, match="holds matches by other weights"):
        stored(world.match, tmp_path / "others", matcher=load_matcher("daisy"))
