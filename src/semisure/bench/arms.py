"""Arms that benches compare, and the calibration that each of them uses."""

from __future__ import annotations

from dataclasses import dataclass

from semisure.errors import InputError
from semisure.refit.weights import RefitMethod
from semisure.types import Calibration

CORE_ARMS: tuple[RefitMethod, ...] = ("core", "core+")
SHIFTED = "base − shift"  # the estimator on matches less their location


@dataclass(frozen=True, slots=True)
class Calibrations:
    """The paper's law, and ours, which may have a location."""

    paper: Calibration
    ours: Calibration

    def __post_init__(self) -> None:
        if self.paper.location is not None:
            raise InputError(
                "The paper's law must be fitted without a location, but has "
                f"{self.paper.location}."
            )

    def of_arm(self, arm: str) -> Calibration:
        """Ours for core+; the paper's for core and all weights of its ablation."""
        return self.ours if arm == "core+" else self.paper
