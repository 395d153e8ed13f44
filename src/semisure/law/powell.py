"""The paper's fit: bounded Powell over its nine parameters, without derivatives."""

from __future__ import annotations

import numpy as np

from semisure.errors import FitError
from semisure.law.families import GAUSSIAN, LAPLACE
from semisure.law.likelihood import (
    NAMES,
    Likelihood,
    unpack,
)
from semisure.law.newton import LawFit
from semisure.law.observations import Observations
from semisure.types import LawName, Vector

# The paper's settings (supplement, "Calibration optimization").
ITERATIONS = 120
FTOL = 1e-7
NINE = (*NAMES[:6], "t_x", "t_y", "t_m")
# Raw scales, and a gate that opens at 5 % and 2 nats; gains are logarithms.
START = (0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 5.0, 5.0, 2.0)


def fit_powell(obs: Observations, law: LawName) -> LawFit:
    """The law where Powell stops."""
    from scipy.optimize import Bounds, minimize

    likelihood = Likelihood(obs, family=GAUSSIAN if law == "gaussian" else LAPLACE)
    # The paper says "bounded" without its bounds. SciPy's Powell searches each line
    # from bound to bound, so the box must be small.
    gain, slope, knee = np.log([1e-4, 1e4]), (0.0, 10.0), (0.0, 30.0)
    doubt = (0.0, 0.0) if law == "no_confidence_gate" else slope
    lower, upper = np.array([*4 * [gain], slope, doubt, *3 * [knee]]).T
    free = np.flatnonzero(lower < upper)
    nine = np.clip(START, lower, upper)

    def objective(chosen: Vector) -> float:
        nine[free] = chosen
        return likelihood.value(_eight_of(nine))

    minimum = minimize(
        objective,
        nine[free],
        method="Powell",
        bounds=Bounds(lower[free], upper[free]),
        options={"maxiter": ITERATIONS, "ftol": FTOL},
    )
    if not np.isfinite(minimum.fun):
        raise FitError("Powell ended at a likelihood that is not finite.")
    nine[free] = minimum.x
    touching = (nine == lower) | (nine == upper)
    return LawFit(
        calibration=unpack(_eight_of(nine)),
        iterations=int(minimum.nit),
        converged=bool(minimum.success),
        message=str(minimum.message),
        at_bounds=tuple(NINE[i] for i in free if touching[i]),
    )


def _eight_of(nine: Vector) -> Vector:
    """The eight of the paper's nine, whatever their gauge."""
    k_s, k_m, t_x, t_y, t_m = nine[4:]
    return np.array([*nine[:6], -(k_s * t_x + k_m * t_m), -(k_s * t_y + k_m * t_m)])
