"""The report of one pair: its result, how certain it is, the command to repeat it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from semisure.geometry.homography import residual
from semisure.io.atomic import write_atomically
from semisure.io.images import Image, jpeg
from semisure.pairs.models import MODEL_NAMES
from semisure.pairs.result import PairResult
from semisure.refit import without_bias
from semisure.report import documents
from semisure.report.charts import histogram, reliability_chart
from semisure.report.corners import outline_drawing
from semisure.report.drawings import (
    Drawing,
    Photo,
    Photos,
    ellipses_drawing,
    matches_drawing,
    round_factor,
    spread_out,
)
from semisure.report.html import Section, Slider, page_text, versions
from semisure.report.lines import lines_drawing
from semisure.report.numbers import numbers
from semisure.report.overlay import between_small, difference, laid_over, overlay
from semisure.report.palettes import ErrorRange
from semisure.report.snippets import snippets
from semisure.types import Calibration

ELLIPSES = 120
LARGEST = 0.1  # half-axis of an ellipse as drawn, in image sides
FACTORS = (1, 2, 5, 10, 20, 50, 100)


def write_pair_page(
    path: str | Path,
    images: tuple[Image, Image],
    result: PairResult,
    *,
    files: tuple[Path, Path],
    settings: Mapping[str, Any],
) -> None:
    """Write everything about one pair as one HTML file."""
    photos = Photo.of(images[0]), Photo.of(images[1])
    digests = [digest(file.read_bytes()) for file in files]
    names = tuple(map(str, files))
    page = pair_page(photos, result, names=names, digests=digests, settings=settings)
    data = page.encode()
    write_atomically(Path(path), lambda file: file.write(data))


def digest(data: bytes) -> str:
    """The beginning of a file's SHA-256, enough to recognise it."""
    return hashlib.sha256(data).hexdigest()[:16]


def pair_page(
    photos: Photos,
    result: PairResult,
    *,
    names: Sequence[str],
    digests: Sequence[str] | None,
    settings: Mapping[str, Any],
) -> str:
    """The page as text; `digests` are those of the two files, if there are files."""
    sections = [
        Section(heading="Numbers", facts=numbers(result)),
        *_model(result),
        *_pictures(photos, result),
        Section(
            heading="Reproduce",
            code=_call(names, settings),
            table=[
                ["", ""],
                *_file_rows(photos, names, digests),
                *([name, str(v)] for name, v in settings.items() if v is not None),
                _calibration_row(result.calibration),
                *versions(),
            ],
        ),
    ]
    title = " and ".join(Path(name).name for name in names)
    return page_text(title, result.summary(), sections)


def write_picture(path: Path, images: tuple[Image, Image], result: PairResult) -> None:
    """Write a PNG of matches by expected error, with an overlay for a homography."""
    from semisure.report.plots import plot_pair, png  # matplotlib: half a second

    overlaid, H = None, result.H_01 if result.related else None
    if H is not None:
        first, second = Photo.of(images[0]), Photo.of(images[1])
        small = first.small, second.small
        overlaid = overlay(*small, between_small(H, small, (first.size, second.size)))
    matches, expected = result.matches, result.expected_px
    figure = plot_pair(*images, matches, expected, result.summary(), overlaid)
    write_atomically(path, lambda file: file.write(png(figure)))


def _model(result: PairResult) -> list[Section]:
    headings = {
        "homography": "Homography from the first image to the second",
        "fundamental": "Fundamental matrix: y F x = 0, x in the first image",
        "essential": "Pose of the second camera from the first: [R | t], ‖t‖ = 1",
    }
    if result.refit.model is None or not result.related:
        return []
    rows = ("".join(f"{v:17.9g}" for v in row) for row in result.refit.model)
    heading, code = headings[result.kind], "\n".join(rows)
    folded = {f"Copy as {name}": text for name, text in snippets(result).items()}
    return [Section(heading=heading, code=code, folded=folded)]


def _pictures(photos: Photos, result: PairResult) -> list[Section]:
    matches, expected = result.matches, result.expected_px
    scale = ErrorRange.of_sizes([matches.source_size, matches.target_size])
    every = matches_drawing(photos, matches, expected, scale)
    sections = [
        Section(
            heading="Matches",
            text="Each coloured by its expected error.",
            legend=scale,
            drawings=[Drawing(every, "Dots are matches; lines join some of them.")],
        ),
        *_epipolar(photos, result),
        *_aligned(photos, result),
    ]
    if len(matches):
        sections += [
            Section(
                heading="Errors of single matches",
                legend=scale,
                drawings=[_ellipses(photos, result, scale)],
            ),
            Section(heading="Errors and weights of all", charts=_charts(result)),
        ]
    return sections


def _epipolar(photos: Photos, result: PairResult) -> list[Section]:
    drawn = lines_drawing(photos, result) if result.related else None
    if drawn is None:
        return []
    html, factor = drawn
    caption = (
        "Some matches and their epipolar lines, in one colour each. A point's match "
        "lies somewhere on its line; the band holds 90 % of right matches, by the "
        f"error of the match and of the line{_magnified(factor, ', and is ')}."
    )
    return [Section(heading="Epipolar lines", drawings=[Drawing(html, caption)])]


def _magnified(factor: float, before: str) -> str:
    return f"{before}magnified {factor:g}×" if factor > 1 else ""


def _aligned(photos: Photos, result: PairResult) -> list[Section]:
    """One image over the other, and how far its corners may be off."""
    sections = []
    sliders = _sliders(photos, result)
    if sliders:
        sections.append(Section(heading="One image over the other", sliders=sliders))
    outline = outline_drawing(photos[1], result)
    if outline is not None:
        html, factor = outline
        caption = (
            "The outline of the first image on the second. Each corner lies in its "
            f"ellipse with a probability of 90 %{_magnified(factor, '; ellipses ')}."
        )
        drawings = [Drawing(html, caption)]
        sections.append(
            Section(heading="Uncertainty of the corners", drawings=drawings)
        )
    return sections


def _charts(result: PairResult) -> list[Drawing]:
    """Weight and failure side by side: off the plane is not the same as wrong."""
    off_model = f"Near 0: the match does not lie on this {MODEL_NAMES[result.kind]}"
    if result.kind == "homography":
        off_model += "; it is wrong, or right and off the plane"
    charts = [
        Drawing(histogram(result.refit.weight, "weight in the refit"), f"{off_model}."),
        Drawing(
            histogram(result.failure, "probability of a wrong coarse cell"),
            "By the law of the match's error alone, whatever the model.",
        ),
    ]
    if not result.related or result.H_01 is None:
        return charts
    distance = np.abs(residual(result.H_01, result.matches)).mean(axis=1)
    finite = np.isfinite(distance)
    curve = reliability_chart(result.expected_px[finite], distance[finite])
    caption = (
        "Expected errors against distances from the refitted homography, in bins of "
        "equal count; as predicted on the dotted line. A valid check only if the scene "
        "is a plane."
    )
    return [Drawing(curve, caption), *charts]


def _sliders(photos: Photos, result: PairResult) -> list[Slider]:
    H, initial = result.H_01, result.refit.initial
    if not result.related or H is None:
        return []
    small, sizes = (photos[0].small, photos[1].small), (photos[0].size, photos[1].size)
    after = between_small(H, small, sizes)
    before = after if initial is None else between_small(initial, small, sizes)
    return [
        Slider(
            left=jpeg(small[1]),
            right=jpeg(laid_over(*small, after)),
            names=("second image", "first image on it"),
            caption="Where edges do not jump as the line passes, the images are "
            "aligned; pale: outside the first image.",
        ),
        Slider(
            left=jpeg(difference(*small, before)),
            right=jpeg(difference(*small, after)),
            names=("before the refit", "after"),
            caption="Difference of the two images: darker is better aligned.",
        ),
    ]


def _ellipses(photos: Photos, result: PairResult, scale: ErrorRange) -> Drawing:
    """The 68 % interval of each axis, for an even sample of the side refined most."""
    # An ellipse is drawn about the expected true point: the match less its shift.
    matches, _ = without_bias(result.matches, result.calibration)
    side = int(np.bincount(matches.side).argmax())
    points = matches.target if side else matches.source
    sample = spread_out(points, np.flatnonzero(matches.side == side), ELLIPSES)
    half = documents.half_axes(result)[sample]
    longest = max(photos[side].size)
    factor = round_factor(FACTORS, 0.01 * longest / float(np.median(half)))
    fits = (factor * half).max(axis=1) < LARGEST * longest
    sample, half = sample[fits], half[fits]
    html = ellipses_drawing(
        photos[side], points[sample], half, result.expected_px[sample], factor, scale
    )
    which, left_out = "second" if side else "first", int((~fits).sum())
    caption = (
        f"Where {len(sample)} of the matches lie in the {which} image: 68 % of the "
        "error along each axis stays within the ellipse"
        f"{_magnified(factor, ', which is ')}. Point at one for its numbers."
    )
    if left_out:
        caption += f" {left_out} more are too uncertain to be drawn."
    return Drawing(html, caption)


def _file_rows(
    photos: Photos, names: Sequence[str], digests: Sequence[str] | None
) -> list[list[str]]:
    rows = []
    for k, (name, photo) in enumerate(zip(names, photos, strict=True)):
        about = f"{photo.size[0]} × {photo.size[1]}"
        if digests is not None:
            about += f", SHA-256 {digests[k]}…"
        rows.append([Path(name).name, about])
    return rows


def _calibration_row(calibration: Calibration) -> list[str]:
    symbols = calibration.paper_symbols().items()
    numbers = ", ".join(f"{k} {v:.4g}" for k, v in symbols if v is not None)
    return [f"calibration of {calibration.matcher}", numbers]


def _call(names: Sequence[str], settings: Mapping[str, Any]) -> str:
    """The lines of Python that repeat the result."""
    given = (f"{k}={v!r}" for k, v in settings.items() if v is not None)
    arguments = ",\n    ".join([*map(repr, names), *given])
    return f"import semisure\nsemisure.match(\n    {arguments},\n)"
