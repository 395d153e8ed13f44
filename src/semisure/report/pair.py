"""The report of one pair: its result, how certain it is, the command to repeat it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from semisure import mixture
from semisure.error_laws import error_law
from semisure.geometry.homography import residual
from semisure.io.atomic import write_atomically
from semisure.io.images import Image, jpeg
from semisure.pipeline import PairResult
from semisure.pipeline.models import MODEL_NAMES
from semisure.refit import without_bias
from semisure.refit.error_quantiles import pooled_abs_quantile
from semisure.report import documents
from semisure.report.html import (
    Picture,
    Section,
    Slider,
    command_line,
    page_text,
    versions,
)
from semisure.report.lines import plot_lines
from semisure.report.overlay import compare, overlay
from semisure.report.plots import (
    ONE_SIGMA,
    light_and_dark,
    plot_ellipses,
    plot_matches,
    plot_pair,
    plot_reliability,
    plot_weights,
    png,
    spread_out,
)
from semisure.types import Calibration, PerAxis

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_SIDE = 1000  # px, of the pictures in the slider
ELLIPSES = 120
LARGEST = 0.1  # half-axis of an ellipse as drawn, in image sides
_RENAMED = {"threshold_px": "threshold"}  # flags that are not called as the setting


def write_pair_page(
    path: str | Path,
    images: tuple[Image, Image],
    result: PairResult,
    *,
    files: tuple[Path, Path],
    settings: Mapping[str, Any],
) -> None:
    """Write everything about one pair as one HTML file."""
    names, data = tuple(map(str, files)), [file.read_bytes() for file in files]
    page = pair_page(images, result, names=names, data=data, settings=settings).encode()
    write_atomically(Path(path), lambda file: file.write(page))


def pair_page(
    images: tuple[Image, Image],
    result: PairResult,
    *,
    names: Sequence[str],
    data: Sequence[bytes] | None,
    settings: Mapping[str, Any],
) -> str:
    """The page as text; `data` are the bytes of the two files, if there are files."""
    sections = [
        Section(heading="Numbers", table=_numbers(result)),
        *_model(result),
        *_pictures(images, result),
        Section(
            heading="How to repeat it",
            code=command_line("semisure match", names, _flags(settings)),
            table=[
                ["", ""],
                *_file_rows(images, names, data),
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
    H = result.H_01 if result.related else None
    overlaid = None if H is None else overlay(*images, H)
    matches, expected = result.matches, result.expected_px
    figure = plot_pair(*images, matches, expected, result.summary(), overlaid)
    write_atomically(path, lambda file: file.write(png(figure)))


def _numbers(result: PairResult) -> list[list[str]]:
    document = documents.document(result)
    rows = [["", ""], ["matches", f"{len(result.matches):,}"], *_error_rows(result)]
    if result.finding is not None:
        rows.append(["what the images show", result.finding])
    if result.evidence is not None and result.related:
        rows.append(["off the plane, of what lies on epipolar lines", _off(result)])
    rows += [
        [f"inliers of {document['estimator']}", f"{document['inliers']:,}"],
        ["effective number of matches", f"{document['effective_matches']:,.0f}"],
        *_certainty_rows(result, document),
        ["verdict", _verdict(result)],
        [
            f"chance of a {MODEL_NAMES[result.kind]} by accident",
            _chance(result),
        ],
        ["refit", f"{document['method']}, {document['iterations']} iterations"],
    ]
    if document["kept_initial_because"]:
        rows.append(["initial model kept", document["kept_initial_because"]])
    return rows


def _error_rows(result: PairResult) -> list[list[str]]:
    if not len(result.matches):
        return []
    within = {share: pooled_abs_quantile(result.law, share) for share in (0.5, 0.9)}
    doubtful = float((result.failure > 0.5).mean())
    return [
        ["median of expected errors", f"{np.median(result.expected_px):.2f} px"],
        ["half of the errors within", f"{within[0.5]:.2f} px"],
        ["90 % of the errors within", f"{within[0.9]:.2f} px"],
        ["matches whose coarse cell is likely wrong", f"{doubtful:.1%}"],
    ]


def _off(result: PairResult) -> str:
    evidence = result.evidence
    assert evidence is not None
    return f"{evidence.off_plane:.0%}; of a plane expected: {evidence.expected_off:.0%}"


def _certainty_rows(result: PairResult, document: dict[str, Any]) -> list[list[str]]:
    names = {
        "homography": {"expected corner error": ("expected_corner_error_px", "px")},
        "fundamental": {"standard error of its lines": ("median_line_std_px", "px")},
        "essential": {
            "standard error of the rotation": ("rotation_std_deg", "°"),
            "standard error of the direction": ("direction_std_deg", "°"),
            "standard error of its lines": ("median_line_std_px", "px"),
        },
    }
    rows = []
    for name, (key, unit) in names[result.kind].items():
        # If chance explains the model, its expected error means nothing.
        value = document[key] if result.related else None
        space = "" if unit == "°" else " "
        rows.append([name, "–" if value is None else f"{value:.2f}{space}{unit}"])
    return rows


def _model(result: PairResult) -> list[Section]:
    headings = {
        "homography": "Homography from the first image to the second",
        "fundamental": "Fundamental matrix: y F x = 0, x in the first image",
        "essential": "Pose of the second camera from the first: [R | t], ‖t‖ = 1",
    }
    if result.refit.model is None or not result.related:
        return []
    rows = ("".join(f"{v:17.9g}" for v in row) for row in result.refit.model)
    return [Section(heading=headings[result.kind], code="\n".join(rows))]


def _verdict(result: PairResult) -> str:
    verdict = result.verdict
    if verdict.name == "unrelated":
        return verdict.name
    reasons = "".join(f"; {reason}" for reason in verdict.reasons)
    return f"{verdict.name}, right with a chance of {verdict.probability:.1%}{reasons}"


def _chance(result: PairResult) -> str:
    chance = result.model_failure
    return "below 0.0001" if chance < 1e-4 else f"{chance:.2g}"


def _pictures(images: tuple[Image, Image], result: PairResult) -> list[Section]:
    figure = plot_matches(*images, result.matches, result.expected_px)
    all_matches = Picture(
        png(figure, "none"), "All matches; lines for some.", wide=True, plate=False
    )
    sections = [
        Section(
            heading="Matches",
            text="Each coloured by its expected error.",
            legend=True,
            pictures=[all_matches],
        )
    ]
    lines = plot_lines(images, result) if result.related else None
    if lines is not None:
        sections.append(_epipolar(*lines))
    sliders = _sliders(images, result)
    if sliders:
        sections.append(Section(heading="One image over the other", sliders=sliders))
    if len(result.matches):
        sections += [
            Section(
                heading="Errors of single matches",
                legend=True,
                pictures=[_ellipses(images, result)],
            ),
            Section(heading="Errors and weights of all", pictures=_charts(result)),
        ]
    return sections


def _epipolar(figure: Figure, enlarged: float) -> Section:
    drawn = f", and is drawn {enlarged:g} times too wide" if enlarged > 1 else ""
    caption = (
        "Some matches and their epipolar lines, in one colour each. A point's match "
        "lies somewhere on its line; the band holds 90 % of right matches, by the "
        f"error of the match and of the line{drawn}."
    )
    picture = Picture(png(figure, "none"), caption, wide=True, plate=False)
    return Section(heading="Epipolar lines", pictures=[picture])


def _charts(result: PairResult) -> list[Picture]:
    light, dark = light_and_dark(plot_weights(result.refit.weight))
    charts = [Picture(light, "Weights of the matches in the refit.", dark=dark)]
    if not result.related or result.H_01 is None:
        return charts
    distance = np.abs(residual(result.H_01, result.matches)).mean(axis=1)
    finite = np.isfinite(distance)
    curve = plot_reliability(result.expected_px[finite], distance[finite])
    light, dark = light_and_dark(curve)
    caption = (
        "Expected errors against distances from the refitted homography, in bins of "
        "equal count: a valid check only if the scene is a plane."
    )
    return [Picture(light, caption, dark=dark), *charts]


def _sliders(images: tuple[Image, Image], result: PairResult) -> list[Slider]:
    refit = result.refit
    if not result.related or result.H_01 is None:
        return []
    pictures = compare(*images, refit.initial, result.H_01, SHOWN_SIDE)
    if pictures.laid is None or pictures.before is None or pictures.after is None:
        return []
    return [
        Slider(
            left=jpeg(pictures.base),
            right=jpeg(pictures.laid),
            names=("second image", "first image on it"),
            caption="Where edges do not jump as the line passes, the images are "
            "aligned; pale: outside the first image.",
        ),
        Slider(
            left=jpeg(pictures.before),
            right=jpeg(pictures.after),
            names=("before the refit", "after"),
            caption="Difference of the two images: darker is better aligned.",
        ),
    ]


def _ellipses(images: tuple[Image, Image], result: PairResult) -> Picture:
    """The 68 % interval of each axis, for an even sample of the side refined most."""
    # An ellipse is drawn about the expected true point: the match less its shift.
    matches, calibration = without_bias(result.matches, result.calibration)
    side = int(np.bincount(matches.side).argmax())
    points = matches.target if side else matches.source
    sample = spread_out(points, np.flatnonzero(matches.side == side), ELLIPSES)
    law = error_law(matches.take(sample), calibration)
    half = mixture.quantile(law, ONE_SIGMA)
    magnified = _magnification(half, images[side])
    fits = (magnified * half).max(axis=1) < LARGEST * max(images[side].shape[:2])
    sample, half = sample[fits], half[fits]
    expected = result.expected_px[sample]
    figure = plot_ellipses(images[side], points[sample], half, expected, magnified)
    which = "second" if side else "first"
    caption = (
        f"Where {len(sample)} of the matches lie in the {which} image: each half-axis "
        f"holds 68 % of the error along it, drawn {magnified:g} times too large. "
        f"{(~fits).sum()} more are too uncertain to be drawn."
    )
    return Picture(png(figure, "none"), caption, wide=True, plate=False)


def _magnification(half: PerAxis, image: Image) -> float:
    """A round factor that makes the median ellipse 1 % of the image."""
    exact = 0.01 * max(image.shape[:2]) / float(np.median(half))
    return float(max((f for f in (1, 2, 5, 10, 20, 50, 100) if f <= exact), default=1))


def _file_rows(
    images: Sequence[Image], names: Sequence[str], data: Sequence[bytes] | None
) -> list[list[str]]:
    rows = []
    for k, (name, image) in enumerate(zip(names, images, strict=True)):
        about = f"{image.shape[1]} × {image.shape[0]}"
        if data is not None:
            about += f", SHA-256 {hashlib.sha256(data[k]).hexdigest()[:16]}…"
        rows.append([Path(name).name, about])
    return rows


def _calibration_row(calibration: Calibration) -> list[str]:
    symbols = calibration.paper_symbols().items()
    numbers = ", ".join(f"{k} {v:.4g}" for k, v in symbols if v is not None)
    return [f"calibration of {calibration.matcher}", numbers]


def _flags(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings under the names of their command-line flags."""
    return {
        "--" + _RENAMED.get(name, name).replace("_", "-"): value
        for name, value in settings.items()
    }
