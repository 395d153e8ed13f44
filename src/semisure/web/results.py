"""The files of a result: what a worker process makes of an order."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from semisure.calibrate.choice import FirstUse, calibration_for
from semisure.errors import FileError
from semisure.estimators import RansacSettings
from semisure.io.files import MATCH_ARRAYS, arrays_of, csv_bytes, matches_from
from semisure.io.images import Image, decode_image, jpeg, reduced
from semisure.io.intrinsics import intrinsics_of
from semisure.matchers import load_matcher
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import MODELS
from semisure.pairs.result import PairResult
from semisure.refit import REFIT_METHODS
from semisure.report import documents
from semisure.report.pair import digest, pair_page
from semisure.types import Calibration, Matcher, Matches, Tick, as_choice
from semisure.types.display import Begin
from semisure.web import arms
from semisure.web.limits import Limits
from semisure.web.orders import EMBEDDED, FIRST_USE, REPORT, STAGES, Kept, Order
from semisure.web.page_document import page_document
from semisure.web.samples import load_sample

OnStage = Callable[[str], None]  # called with the name of each stage as it begins


def result_files(
    order: Order,
    calibrations: Mapping[str, Calibration],
    limits: Limits,
    on_stage: OnStage,
) -> dict[str, bytes]:
    """Run `order` and return its result as files by name."""
    kept, matches = _begun(order, limits, on_stage)
    calibration = _calibration(order, calibrations, on_stage)
    on_stage(STAGES[3])
    pair = _estimated(order, matches, calibration)
    rows = arms.arms(pair) if pair.related else []
    on_stage(STAGES[4])
    small = decode_image(kept.image0), decode_image(kept.image1)
    sizes = matches.source_size, matches.target_size
    pictures = arms.pictures(pair, rows, small, sizes)
    names = ("image0", "image1", *pictures)
    files = {
        **dict(zip(Kept.files(), kept.parts(), strict=True)),
        **{f"{name}.jpg": jpeg(picture) for name, picture in pictures.items()},
        "page.json": _encoded(page_document(order, pair, rows, names)),
        "semisure.json": _encoded(_document(order, pair)),
        "semisure.csv": csv_bytes(pair.matches, **pair.columns()),
    }
    if order.report:
        on_stage(REPORT)
        files["semisure.html"] = _report(order, kept, small, pair)
    return files


def warm_up() -> None:
    """Load what nearly every job needs, before the first job arrives."""
    _loaded(EMBEDDED)


@lru_cache(maxsize=2)
def _loaded(name: str) -> Matcher:
    return load_matcher(name)


def _begun(order: Order, limits: Limits, on_stage: OnStage) -> tuple[Kept, Matches]:
    """Match the images, or take the matches of an earlier result."""
    if order.kept is not None:
        with np.load(io.BytesIO(order.kept.matches), allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in MATCH_ARRAYS if name in stored}
        return order.kept, matches_from(arrays, "the result")
    on_stage(STAGES[0])
    images = _images(order, limits)
    on_stage(STAGES[1])
    matcher = _loaded(order.matcher)
    on_stage(STAGES[2])
    matches = matcher(*images)
    # Nothing else of the images is kept, and that not on disk.
    first, second = (jpeg(reduced(image, limits.shown_side), 90) for image in images)
    digests = [digest(data) for data in order.files or ()]
    kept = Kept(
        matches=_npz(matches), image0=first, image1=second, origin=_encoded(digests)
    )
    return kept, matches


def _calibration(
    order: Order, calibrations: Mapping[str, Calibration], on_stage: OnStage
) -> Calibration:
    """The chosen calibration; a matcher that has none gets one, which takes minutes."""
    if order.calibration != FIRST_USE:
        return calibrations[order.calibration]
    options = FirstUse(tell=lambda sentence: None, begin=_counting(order, on_stage))
    return calibration_for(_loaded(order.matcher), first_use=options)


def _counting(order: Order, on_stage: OnStage) -> Begin:
    """Stages of the calibration as the page tells them."""

    def begin(stage: str) -> Tick:
        def tick(done: int, total: int) -> None:
            on_stage(f"Calibrating {order.matcher}, once: {stage}, {done} of {total}")

        return tick

    return begin


def _estimated(order: Order, matches: Matches, calibration: Calibration) -> PairResult:
    threshold, fov = order.number("threshold"), order.number("fov")
    assert threshold is not None  # it was checked
    K0, K1 = (
        intrinsics_of(size, fov=fov)
        for size in (matches.source_size, matches.target_size)
    )
    return refit_matches(
        matches,
        calibration,
        model=as_choice("model", order.model, MODELS),
        estimator=order.estimator,
        method=as_choice("method", order.method, REFIT_METHODS),
        settings=RansacSettings(threshold_px=threshold, seed=int(order.seed)),
        K0=K0,
        K1=K1,
    )


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


def _npz(matches: Matches) -> bytes:
    buffer = io.BytesIO()
    arrays: dict[str, Any] = {**arrays_of(matches)}
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _document(order: Order, pair: PairResult) -> dict[str, Any]:
    """The download: the document of `semisure match -o result.json`."""
    return {**documents.full_document(pair), "chosen": order.chosen()}


def _report(
    order: Order, kept: Kept, small: tuple[Image, Image], pair: PairResult
) -> bytes:
    """The download: the page of `semisure match --report`."""
    # Names of files stay in the browser.
    names = [f"{order.sample or 'image'}{k}" for k in (1, 2)]
    chosen = {
        name: value
        for name, value in order.chosen().items()
        if value and name != "sample"
    }
    digests = json.loads(kept.origin) or None
    page = pair_page(small, pair, names=names, digests=digests, settings=chosen)
    return page.encode()


def _encoded(document: Any) -> bytes:
    return json.dumps(document, allow_nan=False).encode()
