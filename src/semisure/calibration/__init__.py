"""Fitting the error law: the door, the optimisers behind it, the objective below."""

from semisure.calibration.fit_law import FitReport, fit, nll_per_match
from semisure.calibration.likelihood import Observations, observe

__all__ = ["FitReport", "Observations", "fit", "nll_per_match", "observe"]
