"""An order for one pair: its settings, samples and uploads, and what they may be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from semisure.datasets.samples import sample_folder
from semisure.errors import InputError
from semisure.estimators import ESTIMATOR_NAMES, RansacSettings
from semisure.io.files import SHIPPED, load_calibration
from semisure.io.images import (
    IMAGE_SUFFIXES,
    Image,
    jpeg,
    read_image,
    resized,
)
from semisure.io.intrinsics import intrinsics_of
from semisure.matchers import MatcherStatus, describe_matchers
from semisure.pairs.models import MODELS
from semisure.refit.weights import REFIT_METHODS
from semisure.types import Calibration, Matrix3
from semisure.types.checks import as_integer, as_number

UPLOADS = ("image0", "image1")
# What a result keeps so that it can be estimated again without matching.
KEPT = ("matches.npz", "image0.jpg", "image1.jpg", "origin.json")
FIRST_USE = "made on first use"  # a calibration by the first job
EMBEDDED = "daisy"  # the one matcher that is not a network
THUMBNAIL = (96, 72)  # px, width and height of each image
# name: (title, files); of a single file, two random views are shown
SAMPLES = {
    "coffee": ("Coffee, views of one photo", ("coffee.png",)),
    "brick": ("Bricks, repetitive views", ("brick.png",)),
    "rocket": ("Rocket, views with plain sky", ("rocket.jpg",)),
    "motorcycle": (
        "Motorcycle, a real stereo pair",
        ("motorcycle_left.png", "motorcycle_right.png"),
    ),
    "unrelated": ("Unrelated photos", ("coffee.png", "astronaut.png")),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on uploads, on jobs and on kept results."""

    body_bytes: int = 40_000_000  # two images and the form around them
    seconds: float = 300.0  # a job is stopped after this
    waiting: int = 8  # jobs in the queue
    results: int = 24  # of finished jobs; the oldest are dropped


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two images, a sample's name or an earlier result; and the chosen settings."""

    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    sample: str = ""
    matcher: str = EMBEDDED
    calibration: str = EMBEDDED
    model: str = "auto"
    fov: str = ""  # degrees along the longer side; for camera motions
    estimator: str = "magsac++"
    method: str = "core+"
    threshold: str = ""  # px; "": by the model, and the matches
    seed: str = "0"
    report: str = ""  # "yes" for an HTML report

    @property
    def again(self) -> bool:
        """Whether it is for the matches of an earlier result."""
        return KEPT[0] in self.files

    def chosen(self) -> dict[str, str]:
        """The settings that decide the result."""
        return {name: getattr(self, name) for name in CHOICES}

    def settings(self) -> RansacSettings:
        """Those of the robust estimator."""
        limit = as_number("threshold", self.threshold) if self.threshold else None
        return RansacSettings(threshold_px=limit, seed=as_integer("seed", self.seed))

    def intrinsics(self, size: tuple[int, int]) -> Matrix3 | None:
        """Those of an image of that size, if the field of view is given."""
        fov = as_number("fov", self.fov) if self.fov else None
        return intrinsics_of(size, fov=fov)


CHOICES = tuple(f.name for f in fields(Order) if f.name not in ("files", "report"))
FIELDS = (*CHOICES, "again", "report")


def shipped_calibrations() -> dict[str, Calibration]:
    """The calibrations in the package, by name."""
    return {p.stem: load_calibration(p) for p in sorted(SHIPPED.glob("*.json"))}


def available_choices(calibrations: Mapping[str, Calibration]) -> dict[str, Any]:
    """Every choice that the page offers."""
    return {
        "matchers": [_matcher(row, calibrations) for row in describe_matchers()],
        "models": MODELS,
        "estimators": ESTIMATOR_NAMES,
        "methods": REFIT_METHODS,
        "samples": available_samples(),
        "first_use": FIRST_USE,
        "suffixes": sorted(IMAGE_SUFFIXES),
    }


def _matcher(
    row: MatcherStatus, calibrations: Mapping[str, Calibration]
) -> dict[str, Any]:
    """A matcher with its calibrations, and why it cannot run."""
    suitable = [name for name, c in calibrations.items() if c.matcher == row.name]
    if not suitable and available_samples():
        suitable = [FIRST_USE]
    why_not = ""
    if row.status == "downloaded at first use":  # not by the page
        why_not = f"its weights are not here. Run: semisure fetch {row.name}"
    elif row.status.startswith("download by hand"):
        why_not = f"download its weights from {row.source} to {row.file}"
    elif not row.status.startswith("ready"):
        why_not = row.status
    elif not suitable:
        why_not = "it has no calibration. Run: pip install 'semisure[demo]'"
    return {"name": row.name, "calibrations": suitable, "why_not": why_not}


def check_order(order: Order, calibrations: Mapping[str, Calibration]) -> None:
    """Raise one sentence unless every setting of `order` is available."""
    ready = {
        row["name"]: row["calibrations"]
        for row in available_choices(calibrations)["matchers"]
        if not row["why_not"]
    }
    choices = {
        "matcher": tuple(ready),
        "calibration": tuple(ready.get(order.matcher, ())),
        "model": MODELS,
        "estimator": ESTIMATOR_NAMES,
        "method": REFIT_METHODS,
        "report": ("", "yes"),
    }
    if not order.files:
        choices["sample"] = tuple(available_samples())
    for name, allowed in choices.items():
        if getattr(order, name) not in allowed:
            raise InputError(
                f"{name} must be one of {', '.join(filter(None, allowed)) or '(none)'}."
            )
    order.settings()  # raises if they are invalid
    order.intrinsics((640, 480))
    if order.model == "essential" and not order.fov:
        raise InputError(
            "The camera's motion needs its field of view in degrees: give fov."
        )


# ---- samples, from the photos that scikit-image carries ------------------------------


def available_samples() -> dict[str, str]:
    """Titles of the samples by name; empty if scikit-image is not installed."""
    if find_spec("skimage") is None:
        return {}
    return {name: title for name, (title, _) in SAMPLES.items()}


def load_sample(name: str) -> tuple[Image, Image]:
    """The two images of a sample."""
    from semisure.calibrate.random_views import WarpSettings, random_pair

    images = [read_image(sample_folder() / file) for file in SAMPLES[name][1]]
    if len(images) == 2:
        return images[0], images[1]
    whole = WarpSettings(max_occluders=0)
    return random_pair(images[0], np.random.default_rng(len(name)), whole)[:2]


@lru_cache(maxsize=len(SAMPLES))
def thumbnail(name: str) -> bytes:
    """A small JPEG of a sample's two images, side by side."""
    small = [resized(image, THUMBNAIL) for image in load_sample(name)]
    return jpeg(np.hstack(small), 80)
