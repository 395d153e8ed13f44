"""The files of a result: what a worker process makes of an order."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from semisure.errors import FileError
from semisure.io.files import csv_bytes
from semisure.io.images import Image, decode_image, jpeg, reduced
from semisure.matchers import load_matcher
from semisure.pipeline import MODELS, PairResult, match_pair
from semisure.refit import REFIT_METHODS
from semisure.refit.error_quantiles import pooled_abs_quantile
from semisure.report import documents
from semisure.report.bands import line_bands
from semisure.report.overlay import compare
from semisure.types import Calibration, Matcher, Matches, as_choice
from semisure.web.limits import Limits
from semisure.web.orders import EMBEDDED, REPORT, STAGES, Order
from semisure.web.samples import load_sample

OnStage = Callable[[str], None]  # called with the name of each stage as it begins


def result_files(
    order: Order,
    calibrations: Mapping[str, Calibration],
    limits: Limits,
    on_stage: OnStage,
) -> dict[str, bytes]:
    """Run `order` and return its result as files by name."""
    on_stage(STAGES[0])
    images = _images(order, limits)

    def matcher(image0: Image, image1: Image) -> Matches:
        on_stage(STAGES[1])
        matcher = _loaded(order.matcher)
        on_stage(STAGES[2])
        matches = matcher(image0, image1)
        on_stage(STAGES[3])
        return matches

    pair = match_pair(
        *images,
        matcher,
        calibrations[order.calibration],
        model=as_choice("model", order.model, MODELS),
        estimator=order.estimator,
        method=as_choice("method", order.method, REFIT_METHODS),
    )
    on_stage(STAGES[4])
    pictures = _pictures(images, pair, limits.shown_side)
    files = {
        **{f"{name}.jpg": jpeg(picture) for name, picture in pictures.items()},
        "page.json": _encoded(_page_document(order, pair, pictures)),
        "semisure.json": _encoded(_document(order, pair)),
        "semisure.csv": csv_bytes(pair.matches, **pair.columns()),
    }
    if order.report:
        on_stage(REPORT)
        files["semisure.html"] = _report(order, images, pair)
    return files


def warm_up() -> None:
    """Load what nearly every job needs, before the first job arrives."""
    _loaded(EMBEDDED)


@lru_cache(maxsize=2)
def _loaded(name: str) -> Matcher:
    return load_matcher(name)


def _images(order: Order, limits: Limits) -> tuple[Image, Image]:
    if order.files is None:
        return load_sample(order.sample)
    names = "Image 1", "Image 2"
    first, second = (
        decode_image(data, name) for data, name in zip(order.files, names, strict=True)
    )
    for image, name in ((first, names[0]), (second, names[1])):
        if image.shape[0] * image.shape[1] > limits.pixels:
            raise FileError(f"{name} has more pixels than its header states.")
    return first, second


def _pictures(
    images: tuple[Image, Image], pair: PairResult, side: int
) -> dict[str, Image]:
    """The page's pictures, at most `side` px; nothing else of the images is kept."""
    H = pair.H_01 if pair.related else None
    comparison = compare(*images, pair.refit.initial, H, side)
    pictures = {"image0": reduced(images[0], side), "image1": comparison.base}
    for name in ("laid", "before", "after"):
        picture = getattr(comparison, name)
        if picture is not None:
            pictures[name] = picture
    return pictures


def _page_document(
    order: Order, pair: PairResult, pictures: Mapping[str, Image]
) -> dict[str, Any]:
    """The numbers that the page shows, rounded and in columns."""
    rows = {
        "source": pair.matches.source,
        "target": pair.matches.target,
        "expected": pair.expected_px,
        "median": pair.median_px,
        "within_90": pair.within_90_px,
        "failure": pair.failure,
        "weight": pair.refit.weight,
    }
    some = len(pair.matches) > 0
    return {
        **documents.document(pair),
        "chosen": order.chosen(),
        "median_expected_px": float(np.median(pair.expected_px)) if some else None,
        "within_90_px": pooled_abs_quantile(pair.law, 0.9) if some else None,
        "image_sizes": (pair.matches.source_size, pair.matches.target_size),
        "pictures": sorted(pictures),
        "columns": {name: np.round(row, 3).tolist() for name, row in rows.items()},
        "lines": _lines(pair),
    }


def _lines(pair: PairResult) -> dict[str, Any] | None:
    """Each match's epipolar line, in the image of `side`; None where none are meant."""
    bands = line_bands(pair) if pair.related else None
    if bands is None:
        return None
    return {
        "side": pair.matches.side.tolist(),
        "line": np.round(bands.line, 5).tolist(),
        "distance": np.round(bands.distance, 2).tolist(),
        "half_width": np.round(bands.half_width, 2).tolist(),
    }


def _document(order: Order, pair: PairResult) -> dict[str, Any]:
    """The download: the document of `semisure match -o result.json`."""
    return {**documents.full_document(pair), "chosen": order.chosen()}


def _report(order: Order, images: tuple[Image, Image], pair: PairResult) -> bytes:
    """The download: the page of `semisure match --report`."""
    from semisure.report.pair import pair_page  # matplotlib: a second, once

    # Names of files stay in the browser.
    names = [f"{order.sample or 'image'}{k}" for k in (1, 2)]
    chosen = {name: value for name, value in order.chosen().items() if name != "sample"}
    page = pair_page(images, pair, names=names, data=order.files, settings=chosen)
    return page.encode()


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, allow_nan=False).encode()
