"""An order for one pair, and the choices it is checked against."""

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
    "Fitting the model",
    "Drawing",
)
REPORT = "Writing the report"  # one more stage, if a report was ordered
CHOICES = ("sample", "matcher", "calibration", "model", "estimator", "method")
PAGE_MODELS = ("auto", "homography", "fundamental")  # those that need no intrinsics
FIELDS = (*CHOICES, "report")
EMBEDDED = "daisy"  # the one matcher that is not a network


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Two images, or the name of a sample, and the chosen settings by name."""

    files: tuple[bytes, bytes] | None = field(default=None, repr=False)
    sample: str = ""
    matcher: str = EMBEDDED
    model: str = "auto"
    estimator: str = "magsac++"
    method: str = "core+"
    calibration: str = EMBEDDED
    report: str = ""  # "yes" for an HTML report

    def chosen(self) -> dict[str, str]:
        """The settings that decide the result."""
        return {name: getattr(self, name) for name in CHOICES}


def shipped_calibrations() -> dict[str, Calibration]:
    """The calibrations in the package, by name."""
    return {p.stem: load_calibration(p) for p in sorted(SHIPPED.glob("*.json"))}


def available_choices(calibrations: Mapping[str, Calibration]) -> dict[str, Any]:
    """Every choice the page offers; `why_not` tells why a matcher cannot run here."""
    matchers = []
    for row in describe_matchers():
        suitable = [name for name, c in calibrations.items() if c.matcher == row.name]
        why_not = "" if row.status.startswith("ready") else row.status
        if not why_not and not suitable:
            why_not = "no calibration: see semisure serve --calibration"
        matchers.append(
            {"name": row.name, "calibrations": suitable, "why_not": why_not}
        )
    return {
        "matchers": matchers,
        "models": PAGE_MODELS,
        "estimators": ESTIMATOR_NAMES,
        "methods": REFIT_METHODS,
        "samples": samples.available(),
        "stages": STAGES,
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
        "model": PAGE_MODELS,
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
