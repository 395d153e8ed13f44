"""The files of a result: what a worker process makes of an order."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256
from typing import Any

import numpy as np

from semisure.calibrate.choice import FirstUse, calibration_for
from semisure.io.files import MATCH_ARRAYS, arrays_of, csv_bytes, matches_from
from semisure.io.images import Image, decode_image, jpeg, reduced
from semisure.matchers import load_matcher
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import MODELS
from semisure.pairs.result import PairResult
from semisure.refit.weights import REFIT_METHODS
from semisure.report import documents
from semisure.types import Calibration, Matcher, Matches, Tick, as_choice
from semisure.web.orders import (
    FIRST_USE,
    KEPT,
    UPLOADS,
    Order,
    load_sample,
)
from semisure.web.page import comparison, page_document, pictures

SHOWN_SIDE = 1200  # px, of pictures in the page
OnStage = Callable[[str], None]  # called with the name of each stage as it begins


def result_files(
    order: Order,
    calibrations: Mapping[str, Calibration],
    on_stage: OnStage,
) -> dict[str, bytes]:
    """Run `order` and return its result as files by name."""
    inputs = order.files
    if not order.again:
        on_stage("Reading the images")
        images = _images(order)
        on_stage("Loading the matcher")
        matcher = _loaded(order.matcher)
        on_stage("Matching")
        inputs = _kept(matcher(*images), images, order)
    arrays, image0, image1, origin = (inputs[name] for name in KEPT)
    matches = _matches(arrays)
    calibration = _calibration(order, calibrations, on_stage)
    on_stage("Fitting the model")
    pair = _estimated(order, matches, calibration)
    arms = comparison(pair)
    on_stage("Drawing")
    small = decode_image(image0), decode_image(image1)
    drawn = pictures(pair, arms, small)
    files = {
        **inputs,
        **{f"{name}.jpg": jpeg(picture) for name, picture in drawn.items()},
        "page.json": _encoded(page_document(order, pair, arms, [*drawn])),
        "semisure.json": _encoded(
            {**documents.full_document(pair), "chosen": order.chosen()}
        ),
        "semisure.csv": csv_bytes(pair.matches, **pair.columns()),
    }
    if order.report:
        on_stage("Writing the report")
        files["semisure.html"] = _report(order, json.loads(origin), small, pair)
    return files


@lru_cache(maxsize=2)
def _loaded(name: str) -> Matcher:
    return load_matcher(name)


def _images(order: Order) -> tuple[Image, Image]:
    if not order.files:
        return load_sample(order.sample)
    data0, data1 = (order.files[name] for name in UPLOADS)
    return decode_image(data0, "Image 1"), decode_image(data1, "Image 2")


def _kept(
    matches: Matches, images: tuple[Image, Image], order: Order
) -> dict[str, bytes]:
    """The inputs of later orders: matches, reduced images, digests of the files."""
    buffer = io.BytesIO()
    np.savez(buffer, **dict[str, Any](arrays_of(matches)))
    small = (jpeg(reduced(image, SHOWN_SIDE), 90) for image in images)
    digests = [sha256(data).hexdigest() for data in order.files.values()]
    parts = buffer.getvalue(), *small, _encoded(digests)
    return dict(zip(KEPT, parts, strict=True))


def _matches(npz: bytes) -> Matches:
    with np.load(io.BytesIO(npz), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in MATCH_ARRAYS if name in stored}
    return matches_from(arrays, "the result")


def _calibration(
    order: Order, calibrations: Mapping[str, Calibration], on_stage: OnStage
) -> Calibration:
    """The chosen calibration; a matcher without one gets one, which takes minutes."""
    if order.calibration != FIRST_USE:
        return calibrations[order.calibration]

    def begin(stage: str) -> Tick:
        def tick(done: int, total: int) -> None:
            on_stage(f"Calibrating {order.matcher}, once: {stage}, {done} of {total}")

        return tick

    options = FirstUse(tell=lambda sentence: None, begin=begin)
    return calibration_for(_loaded(order.matcher), first_use=options)


def _estimated(order: Order, matches: Matches, calibration: Calibration) -> PairResult:
    return refit_matches(
        matches,
        calibration,
        model=as_choice("model", order.model, MODELS),
        estimator=order.estimator,
        method=as_choice("method", order.method, REFIT_METHODS),
        settings=order.settings(),
        K0=order.intrinsics(matches.source_size),
        K1=order.intrinsics(matches.target_size),
    )


def _report(
    order: Order, digests: list[str], small: tuple[Image, Image], pair: PairResult
) -> bytes:
    """The page of `semisure match --report`; names of files stay in the browser."""
    from semisure.report.pair import pair_page  # matplotlib: half a second

    names = [f"{order.sample or 'image'}{k}" for k in (1, 2)]
    chosen = order.chosen()
    names_of = ("matcher", "calibration", "model", "estimator", "method")
    settings = {
        **{k: chosen[k] for k in names_of if chosen[k] != FIRST_USE},
        "threshold_px": order.settings().threshold_px,
        "seed": order.settings().seed,
        "fov": float(order.fov) if order.fov else None,
    }
    page = pair_page(small, pair, names=names, digests=digests, settings=settings)
    return page.encode()


def _encoded(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False).encode()
