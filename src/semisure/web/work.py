"""What a job does, in a worker process: from an order to the files of its result."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, cast

import numpy as np

from semisure.errors import FileError
from semisure.io.files import csv_bytes
from semisure.io.images import Image, decode_image, jpeg, reduced
from semisure.matchers import load_matcher
from semisure.pipeline import PairResult, match_pair
from semisure.refit import RefitMethod
from semisure.report import documents
from semisure.report.overlay import compare
from semisure.types import Calibration, Matcher, Matches
from semisure.web.limits import Limits
from semisure.web.orders import EMBEDDED, REPORT, STAGES, Order
from semisure.web.samples import load_sample

Tell = Callable[[str], None]


def run(
    order: Order, calibrations: Mapping[str, Calibration], limits: Limits, tell: Tell
) -> dict[str, bytes]:
    """Do what `order` says, `tell` each stage, and give the result as named files."""
    tell(STAGES[0])
    images = _images(order, limits)

    def matcher(image0: Image, image1: Image) -> Matches:
        tell(STAGES[1])
        matcher = _loaded(order.matcher)
        tell(STAGES[2])
        matches = matcher(image0, image1)
        tell(STAGES[3])
        return matches

    pair = match_pair(
        *images,
        matcher,
        calibrations[order.calibration],
        estimator=order.estimator,
        method=cast(RefitMethod, order.method),
    )
    tell(STAGES[4])
    pictures = _pictures(images, pair, limits.shown_side)
    files = {
        **{f"{name}.jpg": jpeg(picture) for name, picture in pictures.items()},
        "page.json": _encoded(_page_document(order, pair, pictures)),
        "semisure.json": _encoded(_document(order, pair)),
        "semisure.csv": csv_bytes(pair.matches, **documents.columns(pair)),
    }
    if order.report:
        tell(REPORT)
        files["semisure.html"] = _report(order, images, pair)
    return files


def warm_up() -> None:
    """Load what nearly every job needs, before the first one waits for it."""
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
            raise FileError(f"{name} has more pixels than it said.")
    return first, second


def _pictures(
    images: tuple[Image, Image], pair: PairResult, side: int
) -> dict[str, Image]:
    """What the page shows, at most `side` px; no more of the images is kept."""
    seen = compare(*images, pair.refit.initial, pair.refit.model, side)
    pictures = {"image0": reduced(images[0], side), "image1": seen.base}
    for name in ("laid", "before", "after"):
        picture = getattr(seen, name)
        if picture is not None:
            pictures[name] = picture
    return pictures


def _page_document(
    order: Order, pair: PairResult, pictures: Mapping[str, Image]
) -> dict[str, Any]:
    """What the page draws: rounded, and in columns."""
    rows = {
        "source": pair.matches.source,
        "target": pair.matches.target,
        "expected": pair.expected_px,
        "failure": pair.failure,
        "weight": pair.refit.weight,
    }
    middle = float(np.median(pair.expected_px)) if len(pair.matches) else None
    return {
        **documents.document(pair),
        "chosen": order.chosen(),
        "median_expected_px": middle,
        "image_sizes": (pair.matches.source_size, pair.matches.target_size),
        "pictures": sorted(pictures),
        "columns": {name: np.round(row, 3).tolist() for name, row in rows.items()},
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
