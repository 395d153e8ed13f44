"""Pictures and pages: one scale of colours, both schemes, geometry, not brightness."""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from semisure.pairs.estimation import refit_matches
from semisure.report.bands import clipped, line_bands
from semisure.report.corners import corner_regions
from semisure.report.drawings import Photo, matches_drawing
from semisure.report.html import Picture, Section, write_report
from semisure.report.lines import SHOWN_LINES, lines_drawing, shown_sample
from semisure.report.overlay import between_small, difference
from semisure.report.palettes import COLOR_STOPS, ErrorRange
from semisure.report.plots import (
    light_and_dark,
    plot_bars,
    plot_reliability,
    png,
)
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher

SOURCE = Path(__file__).parents[1] / "src" / "semisure"


def pixels(data: bytes) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)


CHARTS = {
    "bars": lambda: plot_bars({"ransac": {"base": 1.0, "core": 0.5}}, "px"),
    "reliability": lambda: plot_reliability(
        np.linspace(0.5, 5, 200), np.linspace(0.4, 6, 200)
    ),
}


@pytest.mark.parametrize("name", CHARTS)
def test_charts_have_dark_ink_for_light_pages_and_light_ink_for_dark_ones(name) -> None:
    light, dark = map(pixels, light_and_dark(CHARTS[name]()))
    for image, at_most, at_least in ((light, 80, 0), (dark, 255, 200)):
        alpha = image[..., 3]
        assert alpha[0, 0] == alpha[-1, -1] == 0  # no ground
        label = image[:, :40]  # at the left, the axis' name and numbers
        ink = label[..., :3].mean(axis=2)[label[..., 3] > 200]
        assert len(ink) > 20
        assert at_least <= ink.min() <= ink.max() <= at_most
    assert pixels(png(CHARTS[name]()))[0, 0].tolist()[:3] == [255, 255, 255]


def test_a_twin_is_shown_on_dark_pages_and_a_lone_picture_on_white(tmp_path) -> None:
    light, dark = light_and_dark(CHARTS["bars"]())
    pictures = [Picture(light, "a", dark=dark), Picture(png(CHARTS["bars"]()), "b")]
    section = Section(heading="h", legend=ErrorRange(), pictures=pictures)
    write_report(tmp_path / "page.html", "t", "l", [section])
    text = (tmp_path / "page.html").read_text()
    assert text.count('media="(prefers-color-scheme: dark)"') == 1
    assert text.count('<img class="plate"') == 1
    assert "30 px" in text


def test_the_colours_of_errors_are_the_same_everywhere() -> None:
    script = (SOURCE / "web" / "static" / "page.js").read_text()
    stops = re.search(r"STOPS = (\[.*\]);", script)
    assert stops
    numbers = [int(n) for n in re.findall(r"\d+", stops[1])]
    wanted = [int(c[k : k + 2], 16) for c in COLOR_STOPS for k in (1, 3, 5)]
    assert numbers == wanted


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


def test_colours_go_with_the_size_of_the_image() -> None:
    small, large = (
        ErrorRange.of_sizes([size, (100, 100)]) for size in ((1000, 800), (4000, 3000))
    )
    assert (small.least, small.most) == pytest.approx((0.3, 30))
    assert large.share(12.0) == pytest.approx(small.share(3.0)) == pytest.approx(0.5)
    assert large.ticks() == ["1.2", "3.8", "12", "38", "120"]


K = np.array([[520.0, 0, 319.5], [0, 520, 239.5], [0, 0, 1]])


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
    assert len(sample) == SHOWN_LINES
    assert inside[sample].all()
    blank = Photo.of(np.full((480, 640), 90, np.uint8))
    html, magnified = lines_drawing((blank, blank), result) or ("", 0)
    assert html.count('class="epiline"') == SHOWN_LINES
    assert magnified >= 1


@pytest.mark.parametrize("angle", np.linspace(0.0, np.pi, 13))
def test_lines_end_at_the_edges_of_the_image(angle: float) -> None:
    normal = np.array([np.cos(angle), np.sin(angle)])
    ends = clipped(np.array([*normal, -normal @ [300, 200]]), (640, 480))
    assert ends is not None
    np.testing.assert_allclose(ends @ normal, normal @ [300, 200], atol=1e-9)
    on_edge = np.isclose(ends, -0.5) | np.isclose(ends, [639.5, 479.5])
    assert on_edge.any(axis=1).all()
    assert clipped(np.array([*normal, 5000.0]), (640, 480)) is None


def test_a_large_photo_is_reduced_before_it_is_drawn_over() -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=300, size=(4000, 3000))
    photo = Photo.of(np.random.default_rng(0).integers(0, 255, (3000, 4000), np.uint8))
    assert max(photo.small.shape) == 1400
    scale = ErrorRange.of_sizes([photo.size])
    html = matches_drawing((photo, photo), matches, np.full(300, 3.0), scale)
    assert 'viewBox="-0.5 -0.5 4000 3000"' in html  # dots stay in the photo's pixels
    assert len(re.findall(r"M[\d.-]+ [\d.-]+h0", html)) == 600
    assert html.count('class="joining') == 2  # side by side, and stacked on phones
    x, y = matches.source[0]
    assert f"M{x:.1f} {y:.1f}h0" in html


def test_a_corner_lies_in_its_ellipse_nine_times_in_ten() -> None:
    rng = np.random.default_rng(1)
    root = rng.normal(size=(8, 8))
    covariance = root @ root.T
    draws = rng.multivariate_normal(np.zeros(8), covariance, 20_000)
    for k, (major, minor, degrees) in enumerate(corner_regions(covariance)):
        turn = np.radians(degrees)
        axes = np.array([[np.cos(turn), np.sin(turn)], [-np.sin(turn), np.cos(turn)]])
        along = draws[:, 2 * k : 2 * k + 2] @ axes.T / [major, minor]
        assert np.mean((along**2).sum(axis=1) <= 1) == pytest.approx(0.9, abs=0.01)
