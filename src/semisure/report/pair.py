"""The report of one pair, and the views of results in a notebook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.io.atomic import write_atomically
from semisure.io.images import Image, jpeg, reduced
from semisure.io.pixels import ImageLike, as_image
from semisure.pairs.result import PairResult
from semisure.report import documents, plots
from semisure.report.html import Picture, Section, Slider, inside, page_text, versions
from semisure.report.overlay import between_small, difference, laid_over
from semisure.report.uncertainty import line_bands, round_factor, shown_sample
from semisure.types import Matches
from semisure.types.checks import as_floats

SHOWN_SIDE = 1400  # px, of a photo in a page
BAND = 0.012  # half-width of a band as drawn, in image sides
_HEADINGS = {
    "homography": "Homography from the first image to the second",
    "fundamental": "Fundamental matrix: y F x = 0, x in the first image",
    "essential": "Pose of the second camera from the first: [R | t], ‖t‖ = 1",
}
Images = tuple[Image, Image]


def write_pair_page(
    path: str | Path,
    images: Images,
    result: PairResult,
    *,
    files: tuple[Path, Path],
    settings: Mapping[str, Any],
) -> None:
    """Write everything about one pair as one HTML file."""
    digests = [sha256(file.read_bytes()).hexdigest() for file in files]
    names = tuple(map(str, files))
    page = pair_page(images, result, names=names, digests=digests, settings=settings)
    write_atomically(Path(path), page.encode())


def pair_page(
    images: Images,
    result: PairResult,
    *,
    names: Sequence[str],
    digests: Sequence[str],
    settings: Mapping[str, Any],
) -> str:
    """The page as text; `digests` are SHA-256 of the two files, if there are files.

    The images may be reduced.
    """
    small = reduced(images[0], SHOWN_SIDE), reduced(images[1], SHOWN_SIDE)
    sections = [Section(heading="Numbers", facts=documents.numbers(result))]
    if result.model is not None and result.related:
        rows = ("".join(f"{v:17.9g}" for v in row) for row in result.model)
        sections.append(Section(heading=_HEADINGS[result.kind], code="\n".join(rows)))
    pictures = [picture_of_matches(small, result)]
    sections.append(Section(heading="Matches", pictures=pictures))
    lines = picture_of_lines(small, result)
    if lines is not None:
        sections.append(Section(heading="Epipolar lines", pictures=[lines]))
    symbols = result.calibration.paper_symbols().items()
    law = ", ".join(f"{k} {v:.4g}" for k, v in symbols if v is not None)
    reproduce = Section(
        heading="Reproduce",
        code=_call(names, settings),
        table=[
            ["", ""],
            *([f"SHA-256 of image {k}", d] for k, d in enumerate(digests, start=1)),
            [f"calibration of {result.calibration.matcher}", law],
            *versions(),
        ],
    )
    sections += [*_overlays(small, result), reproduce]
    title = " and ".join(Path(name).name for name in names)
    return page_text(title, result.summary(), sections)


def picture_of_matches(images: Images, result: PairResult, about: str = "") -> Picture:
    """Both images with their matches by expected error."""
    figure = plots.plot_matches(*images, result.matches, result.expected_px)
    caption = (
        f"{about} Dots are matches, coloured by their expected errors; lines join some "
        "of them."
    ).strip()
    return Picture(plots.jpeg(figure), caption, wide=True)


def picture_of_lines(images: Images, result: PairResult) -> Picture | None:
    """Some epipolar lines and their bands, if the model has lines."""
    bands = line_bands(result)
    if bands is None:
        return None
    sample = shown_sample(result, bands)
    if not len(sample):
        return None
    width = max(float(np.median(bands.half_width[sample])), 1e-9)
    factor = round_factor(BAND * max(result.matches.source_size) / width)
    figure = plots.plot_lines(images, result.matches, bands, sample, factor)
    caption = (
        "Some matches and their epipolar lines, in one colour each. A point's match "
        "should lie on its line; 90 % of correct matches lie within the band, which is "
        f"drawn {factor:g} times as wide."
    )
    return Picture(plots.jpeg(figure), caption, wide=True)


def _overlays(images: Images, result: PairResult) -> list[Section]:
    """One image over the other by the homography, if that is the model."""
    H, initial = result.H_01, result.refit.initial
    if H is None or not result.related:
        return []
    sizes = result.matches.source_size, result.matches.target_size
    after = between_small(H, images, sizes)
    before = after if initial is None else between_small(initial, images, sizes)
    sliders = [
        Slider(
            left=jpeg(images[1]),
            right=jpeg(laid_over(*images, after)),
            names=("second image", "first image on it"),
            caption="The images are aligned if edges continue across the line; pale: "
            "outside the first image.",
        ),
        Slider(
            left=jpeg(difference(*images, before)),
            right=jpeg(difference(*images, after)),
            names=("before the refit", "after"),
            caption="Difference of the two images: darker is better aligned.",
        ),
    ]
    return [Section(heading="One image over the other", sliders=sliders)]


def _call(names: Sequence[str], settings: Mapping[str, Any]) -> str:
    """The lines of Python that repeat the result."""
    values = (f"{k}={v!r}" for k, v in settings.items() if v is not None)
    arguments = ",\n    ".join([*map(repr, names), *values])
    return f"import semisure\nsemisure.match(\n    {arguments},\n)"


def figure_of_matches(
    matches: Matches,
    image0: ImageLike | None = None,
    image1: ImageLike | None = None,
    color: ArrayLike | None = None,
) -> Figure:
    """The matches on their images, or on blank ones where none are given."""
    images = (
        _canvas(image0, matches.source_size, "image0"),
        _canvas(image1, matches.target_size, "image1"),
    )
    values = matches.fine_std.mean(axis=1) if color is None else color
    return plots.plot_matches(
        *images, matches, as_floats("color", values, (len(matches),))
    )


def _canvas(image: ImageLike | None, size: tuple[int, int], name: str) -> Image:
    if image is None:
        return np.full((size[1], size[0], 3), 255, dtype=np.uint8)
    pixels = as_image(image, name)
    if pixels.shape[1::-1] != size:
        raise InputError(
            f"{name} must be the image that was matched, of {size[0]} × {size[1]} px, "
            f"but has {pixels.shape[1]} × {pixels.shape[0]}."
        )
    return pixels


def figure_of_pair(result: PairResult) -> Figure:
    """The images of a result, each match coloured by its expected error."""
    image0, image1 = result.images or (None, None)
    return figure_of_matches(result.matches, image0, image1, result.expected_px)


def save_pair(result: PairResult, path: str | Path) -> None:
    """The result as JSON, NPZ, CSV or, of images, PNG."""
    documents.write_result(Path(path), result)


def html_of_pair(result: PairResult) -> str:
    """The sentence, the model and, where the images are known, a picture."""
    model = "" if result.model is None else str(result.model)
    if result.motion is not None:
        model = result.motion.describe()
    picture = ""
    if result.images is not None:
        source = inside(plots.jpeg(figure_of_pair(result)))
        picture = (
            '<img alt="Matches coloured by expected error" style="max-width:100%" '
            f'src="{source}">'
        )
    summary = escape(result.summary())
    return f"<p><b>{summary}</b></p><pre>{escape(model)}</pre>{picture}"
