"""Our fit: Newton's method in a box on the eight identifiable parameters.

Saddle-free: the Hessian's eigenvalues enter by their absolute value, so every step
descends. Variables that sit on a bound and want to leave the box are held for that
step (Bertsekas's projected Newton). The fine component is kept the narrower one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from semisure.errors import FitError
from semisure.law import mixture
from semisure.law.families import GAUSSIAN, LAPLACE
from semisure.law.likelihood import (
    AXES,
    COARSE,
    FINE,
    NAMES,
    SIZE,
    Likelihood,
    unpack,
)
from semisure.law.mixture import STD_FLOOR_PX
from semisure.law.observations import Observations
from semisure.types import (
    DEFAULT_FINE_WINDOW_PX,
    BoolArray,
    Calibration,
    FloatArray,
    LawName,
    Matrix,
    Vector,
)

WORTH = 1e-7  # nats: the decrease below which a Newton step is the last
LOCATION_TOLERANCE = 1e-6  # fine windows


@dataclass(frozen=True, slots=True, eq=False)
class Minimum:
    """Where the search ended, and why."""

    x: Vector
    value: float
    iterations: int
    converged: bool
    message: str


def minimise(
    objective: Callable[[Vector], tuple[float, Vector, Matrix]],
    start: Vector,
    lower: Vector,
    upper: Vector,
    max_iterations: int = 100,
) -> Minimum:
    """The minimum of `objective` (value, gradient, Hessian) in [lower, upper].

    Converged when the decrease that the quadratic model still promises, half the
    squared Newton decrement, is below `WORTH`.
    """
    x = np.clip(start, lower, upper)
    value, gradient, hessian = objective(x)
    for iteration in range(max_iterations):
        held = ((x <= lower) & (gradient >= 0)) | ((x >= upper) & (gradient <= 0))
        step = _saddle_free_step(gradient, hessian, ~held)
        promised = -0.5 * float(gradient @ step)
        if promised <= WORTH:
            x = np.clip(x + step, lower, upper)
            value -= promised
            return Minimum(x, value, iteration, True, "converged")
        for length in 0.5 ** np.arange(40):
            trial = np.clip(x + length * step, lower, upper)
            answer = objective(trial)
            enough = 1e-4 * float(gradient @ (trial - x))  # Armijo's rule
            if np.isfinite(answer[0]) and answer[0] <= value + enough:
                break
        else:  # rounding noise hides any further decrease
            message = "no step lowers the objective any further"
            return Minimum(x, value, iteration, True, message)
        x = trial
        value, gradient, hessian = answer
    message = f"stopped at the limit of {max_iterations} iterations"
    return Minimum(x, value, max_iterations, False, message)


def _saddle_free_step(gradient: Vector, hessian: Matrix, free: BoolArray) -> Vector:
    """−|H|⁻¹ g on the free variables, in units that even out the diagonal."""
    step = np.zeros_like(gradient)
    if not free.any():
        return step
    H = hessian[np.ix_(free, free)]
    unit = 1.0 / np.sqrt(np.maximum(np.abs(np.diag(H)), 1e-24))
    values, vectors = np.linalg.eigh(H * unit[:, None] * unit)
    sizes = np.abs(values)  # curvatures below a share of the largest count as flat
    sizes = np.maximum(sizes, 1e-10 * sizes.max() + 1e-300)
    step[free] = -unit * (vectors @ (vectors.T @ (gradient[free] * unit) / sizes))
    return step


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class LawFit:
    """A fitted law, and how the fit went, for the report."""

    calibration: Calibration
    location: tuple[float, float] = (0.0, 0.0)
    iterations: int = 0
    converged: bool = True
    message: str = "closed form"
    at_bounds: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class OrderedBox:
    """Newton's variables: log a is replaced by ρ = log a − log b − c ≥ 0.

    At ρ = 0 the median coarse scale equals the median fine scale; below it the
    components would swap their names.
    """

    equal: FloatArray  # c, (2,)
    lower: Vector
    upper: Vector

    @classmethod
    def around(cls, obs: Observations, law: LawName) -> OrderedBox:
        fine = np.median(np.maximum(obs.fine_std, STD_FLOOR_PX), axis=0)
        coarse = np.median(np.maximum(obs.coarse_std, STD_FLOOR_PX), axis=0)
        # Far from any real optimum; a parameter that ends on a bound is reported.
        gain, order = np.log([1e-6, 1e6]), (0.0, 40.0)
        slope, intercept = (-100.0, 100.0), (-40.0, 40.0)
        doubt = (0.0, 0.0) if law == "no_confidence_gate" else slope
        box = np.array([gain, gain, order, order, slope, doubt, intercept, intercept])
        return cls(2.0 * np.log(fine / coarse), box[:, 0], box[:, 1])

    def outer(self, inner: Vector) -> Vector:
        parameters = inner.copy()
        parameters[COARSE] += inner[FINE] + self.equal
        return parameters

    def minimise(self, likelihood: Likelihood, start: Vector) -> Minimum:
        mix = np.eye(SIZE)  # d outer / d inner
        mix[COARSE, FINE] = np.eye(2)

        def objective(x: Vector) -> tuple[float, Vector, Matrix]:
            value, gradient, hessian = likelihood(self.outer(x))
            return value, mix.T @ gradient, mix.T @ hessian @ mix

        inner = start.copy()
        inner[COARSE] -= start[FINE] + self.equal
        return minimise(objective, inner, self.lower, self.upper)

    def at_bounds(self, inner: Vector) -> tuple[str, ...]:
        names = (*NAMES[FINE], "a_x = b_x", "a_y = b_y", *NAMES[COARSE.stop :])
        touching = (inner <= self.lower) | (inner >= self.upper)
        touching &= self.lower < self.upper
        return tuple(np.array(names)[touching].tolist())


def fit_newton(obs: Observations, law: LawName, *, location: bool = False) -> LawFit:
    """The law of greatest likelihood, centred on zero unless with a `location`.

    Newton's steps for the eight numbers then alternate with exact ones for it.
    """
    family = GAUSSIAN if law == "gaussian" else LAPLACE
    box, shift = OrderedBox.around(obs, law), (0.0, 0.0)
    if location:
        x, y = np.median(obs.residual / obs.fine_window[:, None], axis=0).tolist()
        shift = x, y
    best = box.minimise(Likelihood(obs, shift, family), _moment_start(obs, shift))
    iterations = best.iterations
    for _ in range(50 if location else 0):
        last, shift = shift, _location_step(obs, shift, box.outer(best.x))
        best = box.minimise(Likelihood(obs, shift, family), box.outer(best.x))
        iterations += best.iterations
        if np.abs(np.subtract(shift, last)).max() < LOCATION_TOLERANCE:
            break
    if not np.isfinite(best.value):
        raise FitError("The likelihood is not finite anywhere near the start.")
    return LawFit(
        calibration=unpack(box.outer(best.x)),
        location=shift,
        iterations=iterations,
        converged=best.converged,
        message=best.message,
        at_bounds=box.at_bounds(best.x),
    )


def _moment_start(obs: Observations, shift: tuple[float, float]) -> Vector:
    """Robust moments: the median error gives b, errors beyond a cell give a and β."""
    x = np.abs(obs.residual - obs.shift_px(shift))
    fine = x / np.maximum(obs.fine_std, STD_FLOOR_PX)
    coarse = x / np.maximum(obs.coarse_std, STD_FLOOR_PX)
    parameters = np.zeros(SIZE)
    for axis, places in enumerate(AXES):
        cut = min(DEFAULT_FINE_WINDOW_PX, float(np.quantile(x[:, axis], 0.99)))
        failed = x[:, axis] >= cut
        # median |r| of a Laplace law is s log 2
        gain = max(float(np.median(fine[:, axis])) / np.log(2.0), 1e-3)
        tail = max(float(coarse[failed, axis].mean()), 1e-3)
        share = np.clip(failed.mean(), 1e-3, 0.5)
        beta = np.log(share / (1.0 - share))
        parameters[places] = 2 * np.log(gain), 2 * np.log(tail), 0.0, 0.0, beta
    return parameters


def _location_step(
    obs: Observations, location: tuple[float, float], parameters: Vector
) -> tuple[float, float]:
    """The location that EM would choose: a weighted median, as |r| has no curvature."""
    law = mixture.mixture_law(obs, replace(unpack(parameters), location=location))
    fine = mixture.coarse_success(law, obs.residual)
    pull = fine / law.fine_scale + (1.0 - fine) / law.coarse_scale
    pull *= obs.fine_window[:, None]
    places = obs.residual / obs.fine_window[:, None]
    median = partial(np.quantile, q=0.5, method="inverted_cdf")
    x, y = (float(median(places[:, d], weights=pull[:, d])) for d in (0, 1))
    return x, y
