"""One call: paths, names, arrays and objects, and what comes back shows itself."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

import semisure
from processes import write_photos
from semisure.errors import InputError
from semisure.io.pixels import as_image
from semisure.metrics import corner_error
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher

TRUTH = np.array([[1.0, 0, -12], [0, 1, 0], [0, 0, 1]])


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> list[Path]:
    folder = write_photos(tmp_path_factory.mktemp("photos"))
    return [folder / "0.png", folder / "1.png"]


@pytest.fixture(scope="module")
def result(photos) -> semisure.PairResult:
    return semisure.match(*photos)


def off(result: semisure.PairResult) -> float:
    return corner_error(result.H_01, TRUTH, (256, 192))


# ---- images --------------------------------------------------------------------------


def test_paths_text_arrays_and_pil_are_the_same_images(photos, result) -> None:
    assert off(result) < 0.2
    pixels = [semisure.read_image(photo) for photo in photos]
    for images in (
        [str(photo) for photo in photos],
        pixels,
        [image.astype(np.float32) / 255 for image in pixels],
        [np.dstack([image, np.zeros((192, 256), np.uint8)]) for image in pixels],
        [Image.open(photo) for photo in photos],
    ):
        again = semisure.match(*images)
        assert np.array_equal(again.matches.target, result.matches.target)


def test_numbers_become_the_pixels_they_mean() -> None:
    levels = np.array([[0, 128, 255]])
    floats, bytes_ = levels.astype(float), levels.astype(np.uint8)
    for image in (levels, floats, floats / 255, bytes_, levels[:, :, None]):
        assert as_image(image).tolist() == levels.tolist()
    assert as_image(np.array([[0, 1000]], np.uint16)).tolist() == [[0, 255]]
    assert as_image(np.array([[-1e-4, 1 + 1e-4]])).tolist() == [[0, 255]]  # resized
    palette = Image.new("P", (3, 2))
    palette.putpalette([10, 20, 30] * 256)
    assert as_image(palette)[0, 0].tolist() == [10, 20, 30]


@pytest.mark.parametrize(
    ("image", "words"),
    [
        ([[1, 2], [3, 4]], "is a list"),
        (np.zeros((1, 1, 4, 6)), "a batch of one"),
        (np.zeros((0, 4)), "without a pixel"),
        (np.full((4, 6), np.nan), "from nan to nan"),
        ("https://example.org/a.jpg", "download it"),
        (object(), "must be an array"),
    ],
)
def test_what_is_no_image_gets_one_sentence(image, words: str) -> None:
    with pytest.raises(InputError) as refusal:
        semisure.match(image, np.zeros((64, 64), np.uint8))
    assert words in str(refusal.value)


# ---- names and objects ---------------------------------------------------------------


def test_names_and_objects_are_the_same(photos, result) -> None:
    law = semisure.load_calibration("daisy")
    for choice in (
        {"matcher": semisure.load_matcher("daisy"), "calibration": "daisy"},
        {"matcher": "daisy", "calibration": law, "estimator": "magsac++"},
    ):
        again = semisure.match(*photos, **choice)
        assert np.array_equal(again.H_01, result.H_01)
    other = {"calibration": "xfeat-star-faithful", "force": True}
    assert semisure.match(*photos, **other).calibration.matcher == "xfeat-star"


def test_a_matcher_in_a_loop_is_loaded_once(monkeypatch, photos) -> None:
    semisure.match(*photos)
    monkeypatch.setattr(
        "semisure.matchers.load_matcher", lambda *_, **__: pytest.fail("loaded again")
    )
    semisure.match(*photos)


def test_an_estimator_of_ones_own_is_asked(photos, result) -> None:
    def plain(source, target, confidence):
        return cv2.findHomography(source, target, cv2.RANSAC, 3.0)

    own = semisure.match(*photos, estimator=plain, model="homography")
    assert own.estimate.estimator == "plain"
    assert 0 < own.estimate.inliers.sum() <= len(own.matches)
    assert off(own) < 0.2
    bare = semisure.match(*photos, estimator=lambda *a: TRUTH, model="homography")
    assert off(bare) < 0.2
    nothing = semisure.match(*photos, estimator=lambda *a: None, model="homography")
    assert nothing.H_01 is None
    assert "it found none" in nothing.summary()


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"matcher": lambda a, b: {}}, "has no calibration"),
        (
            {"matcher": lambda a, b: {}, "calibration": EXAMPLE_CALIBRATION},
            "what the matcher returned cannot be of type dict",
        ),
        (
            {"matcher": lambda a, b: None, "device": "cpu"},
            "Only a matcher that is given by its name takes device",
        ),
        ({"calibration": "xfeat-star"}, "is of xfeat-star, not of daisy"),
        ({"estimator": lambda *a: None}, "say which by model="),
        (
            {"estimator": lambda *a: np.eye(4), "model": "homography"},
            "must return a model of shape (3, 3)",
        ),
        ({"max_side": -5}, "max_side must be at least 1 px"),
        ({"model": "plane"}, "model must be one of auto"),
        ({"method": "core++"}, "Did you mean core+"),
        ({"threshold_px": 0}, "threshold_px must be positive"),
        ({"focal_from_exif": True}, "EXIF"),
    ],
)
def test_wrong_choices_get_one_sentence(photos, choice, words: str) -> None:
    with pytest.raises(InputError) as refusal:
        semisure.match(*photos, **choice)
    assert words in str(refusal.value)
    assert "\n" not in str(refusal.value)


# ---- what results show ---------------------------------------------------------------


def test_every_public_object_fits_on_a_line(result) -> None:
    law = semisure.error_law(result.matches, result.calibration)
    world, _ = SyntheticMatcher().match_world(np.eye(3, 4) + 0.0)
    parts = result.matches, result.calibration, result.estimate, result.refit
    for thing in (*parts, law, world):
        shown = repr(thing)
        assert shown.startswith(f"{type(thing).__name__}(")
        assert "\n" not in shown
        assert len(shown) < 120
    assert result.summary() in repr(result)


def test_matches_are_picked_by_masks_positions_and_slices(result) -> None:
    matches = result.matches
    sure = matches[result.expected_px < 1]
    assert len(sure) == int((result.expected_px < 1).sum())
    mask = [k == 3 for k in range(len(matches))]
    for index in (3, [3], np.array([3]), slice(3, 4), mask):
        assert matches[index].target.tolist() == [matches.target[3].tolist()]
    assert len(matches[[]]) == 0
    for wrong in ("source", [True, False], len(matches)):
        with pytest.raises(IndexError):
            matches[wrong]


def test_tables_have_one_row_a_match(result, monkeypatch) -> None:
    pytest.importorskip("pandas")
    table = result.to_dataframe()
    assert table["expected_abs_error"].tolist() == result.expected_px.tolist()
    assert table["x1"].tolist() == result.matches.target[:, 0].tolist()
    names = [*result.matches.to_dataframe().columns]
    assert names[:5] == ["x0", "y0", "x1", "y1", "confidence"]
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(semisure.SemisureError, match=r"semisure\[pandas\]"):
        result.to_dataframe()


def test_results_draw_their_matches_on_their_images(result, photos) -> None:
    html = result._repr_html_()
    assert result.summary().split(",")[0] in html
    assert "data:image/jpeg;base64," in html
    figure = result.plot()
    picture = figure._repr_png_()
    assert picture.startswith(b"\x89PNG")
    image0, image1 = result.images
    drawn = result.matches.plot(image0, photos[1], color=result.expected_px)
    assert drawn._repr_png_() == picture
    assert result.matches.plot()._repr_png_() != picture  # on blank images
    with pytest.raises(InputError, match="image0 must be the image that was matched"):
        result.matches.plot(image0[:50], image1)
    with pytest.raises(InputError, match="color must have shape"):
        result.matches.plot(image0, image1, color=[1.0])


def test_a_result_without_a_model_shows_itself_too(photos) -> None:
    blank = np.zeros((192, 256), np.uint8)
    nothing = semisure.match(blank, photos[0])
    assert nothing.model is None
    assert len(nothing.matches) == 0
    assert nothing.motion is None
    assert "No homography: no matches" in repr(nothing)
    assert "No homography" in nothing._repr_html_()
    assert nothing.plot()._repr_png_().startswith(b"\x89PNG")
    assert len(nothing.to_dataframe()) == 0


def test_a_result_is_saved_by_its_suffix(result, tmp_path: Path) -> None:
    result.save(tmp_path / "pair.json")
    stored = json.loads((tmp_path / "pair.json").read_text())
    assert stored["calibration"]["matcher"] == "daisy"
    result.save(str(tmp_path / "pair.npz"))
    assert len(semisure.load_matches(tmp_path / "pair.npz")) == len(result.matches)
    with pytest.raises(InputError, match="its name must end in"):
        result.save(tmp_path / "pair.txt")
