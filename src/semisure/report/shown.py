"""What the types show of themselves in a notebook: figures, and a result as HTML."""

from __future__ import annotations

from base64 import b64encode
from os import PathLike
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from semisure.errors import InputError
from semisure.io.images import Image
from semisure.io.pixels import ImageLike, as_image
from semisure.pairs.result import PairResult
from semisure.report.documents import write_result
from semisure.report.plots import jpeg, plot_pair
from semisure.types import Matches, PerMatch
from semisure.types.checks import as_floats
from semisure.types.display import html_model, html_of, html_table


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
    return plot_pair(*images, matches, _colors(matches, color))


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


def _colors(matches: Matches, color: ArrayLike | None) -> PerMatch:
    if color is None:
        return matches.fine_std.mean(axis=1)
    return as_floats("color", color, (len(matches),))


def figure_of_pair(result: PairResult) -> Figure:
    """The images of a result, each match coloured by its expected error."""
    image0, image1 = result.images or (None, None)
    return figure_of_matches(result.matches, image0, image1, result.expected_px)


def save_pair(result: PairResult, path: str | PathLike[str]) -> None:
    """The result as JSON, NPZ or CSV."""
    write_result(Path(path), result)


def html_of_pair(result: PairResult) -> str:
    """The sentence, the model and, where the images are known, a picture."""
    parts = [_model(result)]
    if result.images is not None:
        parts.append(_picture(result))
    return html_of(result.summary(), *parts)


def _model(result: PairResult) -> str:
    if result.motion is None:
        return html_model(result.refit.model)
    rows = (line.split(maxsplit=1) for line in result.motion.describe().splitlines())
    return html_table((), rows)


def _picture(result: PairResult) -> str:
    data = b64encode(jpeg(figure_of_pair(result))).decode()
    return (
        '<img alt="Matches coloured by expected error" style="max-width:100%" '
        f'src="data:image/jpeg;base64,{data}">'
    )
