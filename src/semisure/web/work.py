"""What a job does: from an order to a pair's result and its pictures."""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

import numpy as np

from semisure import results
from semisure.errors import FileError, InputError
from semisure.estimators import ESTIMATOR_NAMES
from semisure.files import SHIPPED, load_calibration
from semisure.images import Image, decode_image, jpeg, reduced
from semisure.matchers import describe_matchers, load_matcher
from semisure.overlay import compare
from semisure.pipeline import PairResult, match_pair
from semisure.refit import REFIT_METHODS, RefitMethod
from semisure.types import Calibration, Matcher, Matches
from semisure.web import samples
from semisure.web.jobs import Job
from semisure.web.limits import Limits

STAGES = ("Reading the images", "Matching", "Fitting the homography", "Drawing")
_network = threading.Lock()  # one network runs at a time: they are large


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two images, or a sample's name, and what to do with them; names only."""

    files: tuple[bytes, bytes] | None = field(default=None, repr=False)
    sample: str = ""
    matcher: str = "daisy"
    estimator: str = "magsac++"
    method: str = "core+"
    calibration: str = "daisy"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Shown:
    """What is kept of a finished job: no image but the pictures of the page."""

    order: dict[str, str]
    pair: PairResult
    pictures: dict[str, bytes]  # JPEG by name
    sizes: tuple[tuple[int, int], tuple[int, int]]  # width, height of pictures 0 and 1


def shipped_calibrations() -> dict[str, Calibration]:
    """The calibrations in the package, by name."""
    return {p.stem: load_calibration(p) for p in sorted(SHIPPED.glob("*.json"))}


def menu(calibrations: Mapping[str, Calibration]) -> dict[str, Any]:
    """Everything there is to choose; matchers that cannot run here say why."""
    matchers = []
    for row in describe_matchers():
        fitting = [name for name, c in calibrations.items() if c.matcher == row.name]
        why = "" if row.status.startswith("ready") else row.status
        if not why and not fitting:
            why = "no calibration: see semisure serve --calibration"
        matchers.append({"name": row.name, "calibrations": fitting, "why_not": why})
    return {
        "matchers": matchers,
        "estimators": ESTIMATOR_NAMES,
        "methods": REFIT_METHODS,
        "samples": samples.available(),
        "stages": STAGES,
    }


def check_order(order: Order, calibrations: Mapping[str, Calibration]) -> None:
    """Raise one sentence unless everything in `order` is on the menu."""
    ready = {
        row["name"]: row["calibrations"]
        for row in menu(calibrations)["matchers"]
        if not row["why_not"]
    }
    choices = {
        "matcher": tuple(ready),
        "calibration": tuple(ready.get(order.matcher, ())),
        "estimator": ESTIMATOR_NAMES,
        "method": REFIT_METHODS,
    }
    if order.files is None:
        choices["sample"] = tuple(samples.available())
    for name, allowed in choices.items():
        if getattr(order, name) not in allowed:
            raise InputError(
                f"{name} must be one of {', '.join(allowed) or '(none available)'}."
            )


def run(
    order: Order, calibrations: Mapping[str, Calibration], limits: Limits, job: Job[Any]
) -> Shown:
    """Do what `order` says, and tell `job` how far it is."""
    job.at(STAGES[0])
    images = _images(order, limits)

    def matcher(image0: Image, image1: Image) -> Matches:
        job.at(STAGES[1])
        matches = _matches(order.matcher, image0, image1)
        job.at(STAGES[2])
        return matches

    pair = match_pair(
        *images,
        matcher,
        calibrations[order.calibration],
        estimator=order.estimator,
        method=cast(RefitMethod, order.method),
    )
    job.at(STAGES[3])
    refit, side = pair.refit, limits.shown_side
    seen = compare(*images, refit.initial, refit.model, side)
    pictures = {"image0": reduced(images[0], side), "image1": seen.base}
    for name in ("laid", "before", "after"):
        picture = getattr(seen, name)
        if picture is not None:
            pictures[name] = picture
    (h0, w0), (h1, w1) = (pictures[name].shape[:2] for name in ("image0", "image1"))
    return Shown(
        order={name: getattr(order, name) for name in ORDERED},
        pair=pair,
        pictures={name: jpeg(picture) for name, picture in pictures.items()},
        sizes=((w0, h0), (w1, h1)),
    )


ORDERED = ("sample", "matcher", "estimator", "method", "calibration")


def _images(order: Order, limits: Limits) -> tuple[Image, Image]:
    if order.files is None:
        return samples.load_sample(order.sample)
    names = "Image 1", "Image 2"
    first, second = (
        decode_image(data, name) for data, name in zip(order.files, names, strict=True)
    )
    for image, name in ((first, names[0]), (second, names[1])):
        if image.shape[0] * image.shape[1] > limits.pixels:
            raise FileError(f"{name} has more pixels than it said.")
    return first, second


def _matches(name: str, image0: Image, image1: Image) -> Matches:
    matcher = _loaded(name)
    if name == "daisy":
        return matcher(image0, image1)
    with _network:
        return matcher(image0, image1)


@lru_cache(maxsize=2)
def _loaded(name: str) -> Matcher:
    return load_matcher(name)


def page_document(shown: Shown) -> dict[str, Any]:
    """What the page draws: rounded, and in columns."""
    pair = shown.pair
    rows = {
        "source": pair.matches.source,
        "target": pair.matches.target,
        "expected": pair.expected_px,
        "failure": pair.failure,
        "weight": pair.refit.weight,
    }
    return {
        **results.document(pair),
        "chosen": shown.order,
        "median_expected_px": float(np.median(pair.expected_px))
        if len(pair.matches)
        else None,
        "image_sizes": (pair.matches.source_size, pair.matches.target_size),
        "picture_sizes": shown.sizes,
        "pictures": sorted(shown.pictures),
        "columns": {name: np.round(row, 3).tolist() for name, row in rows.items()},
    }


def as_json(shown: Shown) -> bytes:
    """The download: the document of `semisure match -o result.json`."""
    document = {**results.document(shown.pair), "chosen": shown.order}
    told = results.columns(shown.pair)
    full = results.full_document(document, shown.pair.matches, told)
    return json.dumps(full, allow_nan=False).encode()


def as_csv(shown: Shown) -> bytes:
    """The download: the table of `semisure match -o matches.csv`."""
    pair = shown.pair
    with tempfile.TemporaryDirectory(prefix="semisure-") as folder:
        path = Path(folder, "matches.csv")
        results.write_result(path, {}, pair.matches, pair.refit, results.columns(pair))
        return path.read_bytes()
