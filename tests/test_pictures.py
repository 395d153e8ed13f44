"""Pictures and pages: one scale of colours, both schemes, geometry, not brightness."""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
from matplotlib.figure import Figure

from semisure.bench.figures import rendered
from semisure.bench.outcome import Panel
from semisure.pairs.estimation import refit_matches
from semisure.report.overlay import between_small, difference
from semisure.report.plots import (
    draw_matches,
    plot_lines,
    plot_reliability,
    png,
)
from semisure.report.uncertainty import (
    COLOR_STOPS,
    LineBands,
    line_bands,
    shown_sample,
)
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Matches

SOURCE = Path(__file__).parents[1] / "src" / "semisure"
K = np.array([[520.0, 0, 319.5], [0, 520, 239.5], [0, 0, 1]])


def pixels(data: bytes) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)


def test_the_colours_of_errors_are_the_same_everywhere() -> None:
    script = (SOURCE / "web" / "static" / "page.js").read_text()
    stops = re.search(r"STOPS = (\[.*\]);", script)
    assert stops
    numbers = [int(n) for n in re.findall(r"\d+", stops[1])]
    assert numbers == [int(c[k : k + 2], 16) for c in COLOR_STOPS for k in (1, 3, 5)]


def test_the_difference_shows_geometry_and_not_brightness() -> None:
    blobs = np.random.default_rng(0).integers(0, 256, (30, 40)).astype(np.uint8)
    first = cv2.resize(blobs, (320, 240), interpolation=cv2.INTER_CUBIC)
    second = (0.4 * first + 20).astype(np.uint8)  # darker and flatter, not moved
    off = np.array([[1, 0, 4.0], [0, 1, 0], [0, 0, 1]])
    before, after = (difference(first, second, H) for H in (off, np.eye(3)))
    assert after.mean() < 3 < 10 < before.mean()


def test_a_homography_of_photos_becomes_one_of_their_reduced_pictures() -> None:
    small = np.zeros((120, 160), np.uint8), np.zeros((240, 320), np.uint8)
    shift = np.array([[1, 0, 40.0], [0, 1, 20], [0, 0, 1]])
    H = between_small(shift, small, ((640, 480), (640, 480)))
    # Pixel 0 of the first picture covers photo pixels 0 to 3, whose middle, 1.5, moves
    # to 41.5: in the second picture, of two photo pixels each, (41.5 + 0.5)/2 − 0.5.
    assert (H @ [0, 0, 1])[:2] == pytest.approx([20.5, 10.5])
    assert (H @ [10, 0, 1])[0] - (H @ [0, 0, 1])[0] == pytest.approx(20)


def colored(image: np.ndarray) -> np.ndarray:
    """Pixels that are not grey."""
    return np.ptp(image.astype(int), axis=2) > 60


def test_matches_lie_where_they_are_in_a_reduced_photo() -> None:
    photo = np.full((300, 400, 3), 90, np.uint8)  # of 4000 × 3000
    points = np.array([[1000.0, 2000.0]])
    matches = Matches(
        source=points, target=points, confidence=np.ones(1), fine_std=np.ones((1, 2)),
        coarse_std=np.ones((1, 2)), source_size=(4000, 3000), target_size=(4000, 3000),
    )  # fmt: skip
    figure = Figure(figsize=(8.16, 3.0))
    axes = figure.add_axes((0, 0, 1, 1))
    draw_matches(axes, photo, photo, matches, np.array([200.0]))
    image = pixels(png(figure))
    width = image.shape[1] / 8160  # px of the picture for one of the photos, and gap
    y, x = np.nonzero(colored(image[..., :3]))
    ends = np.array([1000, 4160 + 1000]) * width
    np.testing.assert_allclose([x.min(), x.max()], ends, atol=4)
    np.testing.assert_allclose(y, 2000 * width, atol=4)


def test_bands_hold_nine_in_ten_of_the_right_matches() -> None:
    motion = np.column_stack([np.eye(3), [0.9, 0.1, 0.2]])
    matches, _ = SyntheticMatcher().match_views(motion, K, count=2000)
    result = refit_matches(matches, EXAMPLE_CALIBRATION)
    bands = line_bands(result)
    assert bands is not None
    likely = result.refit.weight > 0.5
    inside = np.abs(bands.distance) <= bands.half_width
    assert 0.86 < inside[likely].mean() < 0.96
    sample = shown_sample(result, bands)
    assert 6 <= len(sample) <= 12
    assert inside[sample].all()


def test_a_line_and_its_band_are_drawn_where_they_are_in_one_image_alone() -> None:
    blank = np.full((480, 640), 90, np.uint8)
    matches, _ = SyntheticMatcher().match(np.eye(3), count=1, size=(640, 480))
    level = np.array([[0.0, 1.0, -240.0]])  # y = 240
    bands = LineBands(level, np.zeros(1), np.array([10.0]))
    figure = plot_lines((blank, blank), matches, bands, np.array([0]), 2.0)
    image = colored(pixels(png(figure))[..., :3])
    scale = image.shape[1] / (2 * 640 + 26)
    right = image[:, -round(600 * scale) :]
    rows = np.flatnonzero(right.mean(axis=1) > 0.5)
    ends = rows[[0, -1]] / scale
    np.testing.assert_allclose(ends, [220, 260], atol=2)
    left = image[:, : round(640 * scale)]
    assert left.mean() < 0.01  # a point alone


@pytest.mark.parametrize("name", [r"$\frac{$", "_hidden"])
def test_a_folder_named_like_tex_is_drawn_as_it_is(name: str) -> None:
    bars = Panel(title=name, xlabel=name, ylabel=name, lines={name: ([name], [1.0])})
    for kind in ("png", "svg"):
        assert rendered([bars], None, kind)
    values = np.linspace(0.1, 3, 50)
    assert png(plot_reliability(values, values, name))
