"""Pictures and pages: one scale of colours, both schemes, geometry, not brightness."""

from __future__ import annotations

import re
from pathlib import Path

import cv2
import numpy as np
import pytest

from semisure.pipeline import refit_matches
from semisure.report.bands import clipped, line_bands
from semisure.report.html import Picture, Section, write_report
from semisure.report.lines import SHOWN_LINES, plot_lines, shown_sample
from semisure.report.overlay import compare
from semisure.report.plots import (
    COLOR_STOPS,
    light_and_dark,
    plot_bars,
    plot_reliability,
    plot_weights,
    png,
)
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher

SOURCE = Path(__file__).parents[1] / "src" / "semisure"


def pixels(data: bytes) -> np.ndarray:
    return cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)


CHARTS = {
    "weights": lambda: plot_weights(np.linspace(0, 1, 50)),
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
    light, dark = light_and_dark(CHARTS["weights"]())
    pictures = [Picture(light, "a", dark=dark), Picture(png(CHARTS["weights"]()), "b")]
    section = Section(heading="h", legend=True, pictures=pictures)
    write_report(tmp_path / "page.html", "t", "l", [section])
    text = (tmp_path / "page.html").read_text()
    assert text.count('media="(prefers-color-scheme: dark)"') == 1
    assert text.count('<img class="plate"') == 1
    assert "30 px" in text


def test_the_colours_of_errors_are_the_same_everywhere() -> None:
    style = (SOURCE / "report/html.py").read_text()
    assert ", ".join(COLOR_STOPS) in style
    script = (SOURCE / "web" / "static" / "app.js").read_text()
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
    seen = compare(first, second, off, np.eye(3), 1000)
    assert seen.after is not None
    assert seen.before is not None
    assert seen.after.mean() < 3 < 10 < seen.before.mean()


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
    blank = np.full((480, 640), 90, np.uint8)
    figure, enlarged = plot_lines((blank, blank), result) or (None, 0)
    assert figure is not None
    assert enlarged >= 1


@pytest.mark.parametrize("angle", np.linspace(0.0, np.pi, 13))
def test_lines_end_at_the_edges_of_the_image(angle: float) -> None:
    normal = np.array([np.cos(angle), np.sin(angle)])
    ends = clipped(np.array([*normal, -normal @ [300, 200]]), (640, 480))
    assert ends is not None
    np.testing.assert_allclose(ends @ normal, normal @ [300, 200], atol=1e-9)
    on_edge = np.isclose(ends, -0.5) | np.isclose(ends, [639.5, 479.5])
    assert on_edge.any(axis=1).all()
    assert clipped(np.array([*normal, 5000.0]), (640, 480)) is None
