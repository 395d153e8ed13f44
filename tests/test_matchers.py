"""The embedded matcher: right, unbiased, lean, and calm about odd images."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from semisure.calibrate.random_views import random_pair
from semisure.demo import sample_folder
from semisure.errors import InputError
from semisure.estimators import estimate_homography
from semisure.geometry.homography import residual
from semisure.io.images import Image, read_image, reduced
from semisure.matchers import load_matcher
from semisure.matchers.daisy import Daisy
from semisure.matchers.daisy_cells import (
    CellSet,
    coarse_match,
    mutual_nearest,
)
from semisure.metrics import corner_error, spearman
from semisure.types import Matcher, Matches

pytest.importorskip("skimage", reason="scikit-image carries the photos")


@pytest.fixture(scope="module")
def photo() -> Image:
    return reduced(read_image(sample_folder() / "astronaut.png"), 400)


@pytest.fixture(scope="module")
def daisy() -> Matcher:
    return load_matcher("daisy")


@pytest.fixture(scope="module")
def pairs(daisy: Matcher) -> list[tuple[Matches, np.ndarray]]:
    """Matches of random views of three photos, with their residuals."""
    matched = []
    for i, name in enumerate(("astronaut.png", "coffee.png", "brick.png") * 2):
        view = reduced(read_image(sample_folder() / name), 480)
        image0, image1, H_01 = random_pair(view, np.random.default_rng(i))
        matches = daisy(image0, image1)
        matched.append((matches, residual(H_01, matches)))
    return matched


def test_random_views_are_matched_to_a_fraction_of_a_pixel(pairs) -> None:
    errors = np.concatenate([np.abs(r).max(axis=1) for _, r in pairs])
    assert len(errors) > 4000
    assert np.median(errors) < 0.6
    assert (errors < 3).mean() > 0.8
    near = np.concatenate([r for _, r in pairs])[errors < 3]
    assert np.abs(np.median(near, axis=0)).max() < 0.05  # not biased


def test_the_chosen_cell_holds_most_true_points(pairs) -> None:
    """Fewer than are within 8 px: the cell is 8 px wide, wherever it lies."""
    held = np.concatenate([m.in_cell(m.refined - r) for m, r in pairs])
    near = np.concatenate([np.abs(r).max(axis=1) <= m.fine_window for m, r in pairs])
    assert 0.6 < held.mean() < near.mean() < 1.0
    # A quarter turn leaves a cell square: its area is that of 8 × 8 px of the frame.
    for matches, _ in pairs:
        area = 4 * np.abs(np.linalg.det(matches.cell[:, :, :2]))
        assert np.ptp(area) < 1e-9 * area[0]


def test_every_cue_ranks_the_errors(pairs) -> None:
    error = np.concatenate([np.abs(r).mean(axis=1) for _, r in pairs])
    for name, least in (("fine_std", 0.4), ("coarse_std", 0.1), ("doubt", 0.15)):
        cue = np.concatenate([getattr(m, name) for m, _ in pairs])
        cue = cue.mean(axis=1) if cue.ndim == 2 else cue
        assert spearman(cue, error) > least, name


@pytest.mark.parametrize(
    ("angle", "zoom"), [(45, 1.0), (170, 1.0), (0, 0.45), (0, 1.6)]
)
def test_any_rotation_and_large_zoom_are_found(
    angle: float, zoom: float, photo: Image, daisy: Matcher
) -> None:
    height, width = photo.shape[:2]
    size = round(zoom * width), round(zoom * height)
    small = cv2.resize(photo, size, interpolation=cv2.INTER_AREA)
    middle = (size[0] - 1) / 2, (size[1] - 1) / 2
    turn = np.vstack([cv2.getRotationMatrix2D(middle, angle, 1.0), [0, 0, 1]])
    view = np.asarray(cv2.warpPerspective(small, turn, size), np.uint8)
    s, t = zoom, 0.5 * zoom - 0.5
    truth = turn @ np.array([[s, 0, t], [0, s, t], [0, 0, 1]])
    estimate = estimate_homography(daisy(photo, view), "magsac++")
    assert corner_error(estimate.model, truth, (width, height)) < 2


def test_the_same_images_give_the_same_matches_on_any_number_of_threads(
    photo: Image,
) -> None:
    daisy = Daisy(max_side=200)  # refined at full size, too
    view, other, _ = random_pair(photo, np.random.default_rng(1))
    before = cv2.getNumThreads()
    try:
        answers = []
        for threads in (1, 2):
            cv2.setNumThreads(threads)
            answers.append(daisy(view, other))
    finally:
        cv2.setNumThreads(before)
    assert np.array_equal(answers[0].target, answers[1].target)
    assert np.array_equal(answers[0].confidence, answers[1].confidence)


def test_points_are_in_the_pixels_of_the_images_as_given(photo: Image) -> None:
    """Seen at half size, one of them grey, the other a part of it."""
    small = Daisy(max_side=200)
    matches = small(cv2.cvtColor(photo, cv2.COLOR_RGB2GRAY), photo[:, 60:260])
    assert matches.source_size == photo.shape[1::-1]
    assert matches.target_size == (200, 400)
    sure = matches.take(matches.confidence > 0.5)
    assert len(sure) > 50
    middle = np.median(sure.source - sure.target, axis=0)
    assert middle == pytest.approx([60, 0], abs=0.05)


@pytest.mark.parametrize("shape", [(1, 1, 3), (300, 400), (2000, 9, 3)])
def test_images_without_content_give_no_matches(
    shape: tuple[int, ...], photo: Image, daisy: Matcher
) -> None:
    grey = np.full(shape, 128, np.uint8)
    for pair in ((grey, grey), (grey, photo), (photo, grey)):
        assert len(daisy(*pair)) == 0


def test_identical_images_match_themselves(photo: Image, daisy: Matcher) -> None:
    matches = daisy(photo, photo)
    gap = np.abs(matches.target - matches.source).max(axis=1)
    assert len(matches) > 1000
    assert np.median(gap) < 0.05
    # What moves lies in flat places, and says so.
    moved = gap > 1
    assert moved.mean() < 0.08
    spread = matches.fine_std.mean(axis=1)
    assert np.median(spread[moved]) > 2 * np.median(spread[~moved])
    assert matches.in_cell(matches.source).mean() > 0.98


def test_wrong_images_and_settings_get_one_sentence(daisy: Matcher) -> None:
    for wrong in (np.zeros((40, 40), np.float32), np.zeros((0, 40), np.uint8)):
        with pytest.raises(InputError, match="must be uint8 of shape"):
            daisy(wrong, np.zeros((40, 40), np.uint8))
    with pytest.raises(InputError, match="max_side must be at least"):
        load_matcher("daisy", max_side=10)
    with pytest.raises(InputError, match="matcher must be one of daisy"):
        load_matcher("superglue")
    assert isinstance(load_matcher("daisy"), Matcher)


def unit_rows(rng: np.random.Generator, count: int) -> np.ndarray:
    rows = rng.normal(size=(count, 16)).astype(np.float32)
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_tiled_coarse_matching_equals_the_whole_matrix() -> None:
    rng = np.random.default_rng(0)
    vectors = unit_rows(rng, 300), unit_rows(rng, 411)
    vectors[1][:150] = vectors[0][:150] + 0.2 * unit_rows(rng, 150)
    vectors[1][:] /= np.linalg.norm(vectors[1], axis=1, keepdims=True)
    position = rng.uniform(0, 500, (411, 2))
    cells = [
        CellSet(v, np.zeros((len(v), 2)), np.arange(len(v)), (1, len(v)))
        for v in vectors
    ]
    i, j, confidence, std = coarse_match(*cells, position, 0.1)
    logits = vectors[0].astype(float) @ vectors[1].astype(float).T / 0.1
    weight = np.exp(logits - 10)
    rows, columns = weight / weight.sum(1, keepdims=True), weight / weight.sum(0)
    dual = rows * columns
    expected = [k for k in range(300) if weight[:, weight[k].argmax()].argmax() == k]
    assert i.tolist() == expected
    assert confidence == pytest.approx(dual[i, j], rel=1e-4)
    mean = rows[i] @ position
    spread = np.sqrt(rows[i] @ position**2 - mean**2)
    assert std == pytest.approx(spread, rel=1e-3)
    again = mutual_nearest(*cells)
    assert np.array_equal(again[0], i)
    assert np.array_equal(again[1], j)
