"""What there is to choose, and an order of it: names only, checked before any work."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from semisure.errors import InputError
from semisure.estimators import ESTIMATOR_NAMES
from semisure.io.files import SHIPPED, load_calibration
from semisure.matchers import describe_matchers
from semisure.refit import REFIT_METHODS
from semisure.types import Calibration
from semisure.web import samples

STAGES = (
    "Reading the images",
    "Loading the matcher",
    "Matching",
    "Fitting the homography",
    "Drawing",
)
REPORT = "Writing the report"  # one more stage, where it is asked for
CHOICES = ("sample", "matcher", "estimator", "method", "calibration")
FIELDS = (*CHOICES, "report")
EMBEDDED = "daisy"  # the one matcher that is no network


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two images, or a sample's name, and what to do with them; names only."""

    files: tuple[bytes, bytes] | None = field(default=None, repr=False)
    sample: str = ""
    matcher: str = EMBEDDED
    estimator: str = "magsac++"
    method: str = "core+"
    calibration: str = EMBEDDED
    report: str = ""  # "yes" for a page to send on

    def chosen(self) -> dict[str, str]:
        """What decides the result."""
        return {name: getattr(self, name) for name in CHOICES}


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
        "report": ("", "yes"),
    }
    if order.files is None:
        choices["sample"] = tuple(samples.available())
    for name, allowed in choices.items():
        if getattr(order, name) not in allowed:
            raise InputError(
                f"{name} must be one of {', '.join(filter(None, allowed)) or '(none)'}."
            )
