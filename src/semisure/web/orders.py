"""An order for one pair, and the choices it is checked against."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from semisure.errors import InputError
from semisure.estimators import ESTIMATOR_NAMES
from semisure.io.files import SHIPPED, load_calibration
from semisure.io.images import IMAGE_SUFFIXES
from semisure.matchers import describe_matchers
from semisure.pairs.models import MODELS
from semisure.refit.weights import REFIT_METHODS
from semisure.types import Calibration
from semisure.web import samples
from semisure.web.readiness import why_not_ready

STAGES = (
    "Reading the images",
    "Loading the matcher",
    "Matching",
    "Fitting the model",
    "Drawing",
)
REPORT = "Writing the report"  # one more stage, if a report was ordered
CHOICES = (
    "sample",
    "matcher",
    "calibration",
    "model",
    "fov",
    "estimator",
    "method",
    "threshold",
    "seed",
)
FIELDS = (*CHOICES, "again", "report")
FIRST_USE = "made on first use"  # a calibration that the first job makes
EMBEDDED = "daisy"  # the one matcher that is not a network
NUMBERS = {  # name: (least, most, whole)
    "threshold": (0.01, 1000.0, False),
    "seed": (0, 2**31 - 1, True),
    "fov": (1.0, 179.0, False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a result keeps so that it can be estimated again without matching."""

    matches: bytes  # NPZ
    image0: bytes  # JPEG, reduced
    image1: bytes
    origin: bytes  # JSON: digests of the files

    def parts(self) -> tuple[bytes, ...]:
        """Its parts in the order of its fields."""
        return tuple(getattr(self, f.name) for f in fields(self))

    @classmethod
    def files(cls) -> tuple[str, ...]:
        """The files of a result that hold its parts."""
        return ("matches.npz", "image0.jpg", "image1.jpg", "origin.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two images, a sample's name or an earlier result; and the chosen settings."""

    files: tuple[bytes, bytes] | None = field(default=None, repr=False)
    kept: Kept | None = field(default=None, repr=False)
    sample: str = ""
    matcher: str = EMBEDDED
    model: str = "auto"
    fov: str = ""  # degrees along the longer side; for camera motions
    estimator: str = "magsac++"
    method: str = "core+"
    calibration: str = EMBEDDED
    threshold: str = "3"  # px
    seed: str = "0"
    report: str = ""  # "yes" for an HTML report

    def chosen(self) -> dict[str, str]:
        """The settings that decide the result."""
        return {name: getattr(self, name) for name in CHOICES}

    def number(self, name: str) -> float | None:
        """A setting that is a number; None where it was left empty."""
        text = getattr(self, name)
        return float(text) if text else None


def shipped_calibrations() -> dict[str, Calibration]:
    """The calibrations in the package, by name."""
    return {p.stem: load_calibration(p) for p in sorted(SHIPPED.glob("*.json"))}


def available_choices(calibrations: Mapping[str, Calibration]) -> dict[str, Any]:
    """Every choice the page offers, and why a matcher cannot run here."""
    matchers = []
    for row in describe_matchers():
        suitable = [name for name, c in calibrations.items() if c.matcher == row.name]
        if not suitable and samples.available():
            suitable = [FIRST_USE]
        why_not, command = why_not_ready(row, bool(suitable))
        matchers.append(
            {
                "name": row.name,
                "calibrations": suitable,
                "why_not": why_not,
                "command": command,
            }
        )
    return {
        "matchers": matchers,
        "models": MODELS,
        "estimators": ESTIMATOR_NAMES,
        "methods": REFIT_METHODS,
        "samples": samples.available(),
        "stages": STAGES,
        "first_use": FIRST_USE,
        "suffixes": sorted(IMAGE_SUFFIXES),
    }


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
    if order.files is None and order.kept is None:
        choices["sample"] = tuple(samples.available())
    for name, allowed in choices.items():
        if getattr(order, name) not in allowed:
            raise InputError(
                f"{name} must be one of {', '.join(filter(None, allowed)) or '(none)'}."
            )
    for name in NUMBERS:
        _check_number(name, getattr(order, name))
    if order.model == "essential" and not order.fov:
        raise InputError(
            "The camera's motion needs its field of view in degrees: give fov."
        )


def _check_number(name: str, text: str) -> None:
    least, most, whole = NUMBERS[name]
    if name == "fov" and not text:
        return
    try:
        value = int(text) if whole else float(text)
        inside = len(text) < 30 and least <= value <= most
    except ValueError:
        inside = False
    if not inside:
        kind = "a whole number" if whole else "a number"
        raise InputError(
            f"{name} must be {kind} from {least:g} to {most:g}, but is {text[:30]!r}."
        )
