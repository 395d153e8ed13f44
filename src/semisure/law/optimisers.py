"""The optimisers behind a fit: ordered Newton, the paper's Powell, closed forms."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from semisure.errors import FitError
from semisure.law import hard_gate, mixture
from semisure.law.likelihood import Details, Likelihood, Observations
from semisure.law.mixture import STD_FLOOR_PX
from semisure.law.newton import DECREMENT, Minimum, Objective, minimise
from semisure.law.parameters import (
    COARSE,
    DOUBT_SLOPE,
    FINE,
    NAMES,
    NINE,
    SIZE,
    from_nine,
    of_axis,
    pack,
    to_nine,
    unpack,
)
from semisure.types import (
    Calibration,
    FloatArray,
    LawName,
    Matrix,
    PerAxis,
    PerMatch,
    Vector,
)

# The paper's Powell settings (supplement, "Calibration optimization").
POWELL_ITERATIONS = 120
POWELL_FTOL = 1e-7

# The boxes, far from any optimum seen; a parameter that ends on a bound is reported.
# The paper says "bounded" without its bounds. SciPy's Powell searches each line from
# bound to bound, so that its box is kept as small as sense allows.
POWELL_GAIN_BOUNDS = (1e-4, 1e4)
POWELL_SLOPE_BOUNDS = (0.0, 10.0)
POWELL_KNEE_BOUNDS = (0.0, 30.0)
GAIN_BOUNDS = (1e-6, 1e6)
SLOPE_BOUNDS = (-100.0, 100.0)
INTERCEPT_BOUNDS = (-40.0, 40.0)
ORDER_SPAN = 40.0  # log of the largest coarse to fine variance gain ratio

COARSE_CELL_PX = 8.0

_PILOT_ROWS = 20_000
TRUSTED_DECREMENT = 1e-7  # of a last step, which leaves about its square
_MAX_LOCATION_ROUNDS = 50
_LOCATION_TOLERANCE = 1e-6  # fine windows


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Outcome:
    """What each fitting routine hands to the report."""

    calibration: Calibration
    location: tuple[float, float] = (0.0, 0.0)
    iterations: int = 0
    evaluations: int = 1
    converged: bool = True
    message: str = "closed form"
    at_bounds: tuple[str, ...] = ()
    free: tuple[int, ...] = ()  # identifiable parameters that were fitted
    power: int = 1
    details: Details | None = None  # of the likelihood, one tiny step from the end


def _moment_start(obs: Observations, shift: tuple[float, float]) -> Vector:
    """Robust moments: the median error gives b, errors beyond a cell give a and β."""
    x = np.abs(obs.residual - obs.fine_window[:, None] * np.array(shift))
    fine = x / np.maximum(obs.fine_std, STD_FLOOR_PX)
    coarse = x / np.maximum(obs.coarse_std, STD_FLOOR_PX)
    parameters = np.zeros(SIZE)
    for axis in (0, 1):
        cut = min(COARSE_CELL_PX, float(np.quantile(x[:, axis], 0.99)))
        failed = x[:, axis] >= cut
        # median |r| of a Laplace law is s log 2
        gain = max(float(np.median(fine[:, axis])) / np.log(2.0), 1e-3)
        tail = max(float(coarse[failed, axis].mean()), 1e-3)
        share = np.clip(failed.mean(), 1e-3, 0.5)
        beta = np.log(share / (1.0 - share))
        start = 2 * np.log(gain), 2 * np.log(tail), 0.0, 0.0, beta
        parameters[of_axis(axis)] = start
    return parameters


def median_location(obs: Observations) -> tuple[float, float]:
    middle = np.median(obs.residual / obs.fine_window[:, None], axis=0)
    return float(middle[0]), float(middle[1])


@dataclass(frozen=True, slots=True, eq=False)
class OrderedBox:
    """Newton's variables: log a is replaced by ρ = log a − log b − c ≥ 0.

    At ρ = 0 the median coarse scale equals the median fine scale; below it the
    components would have swapped their names.
    """

    equal: FloatArray  # c, (2,)
    lower: Vector
    upper: Vector

    @classmethod
    def around(
        cls, fine_std: PerAxis, coarse_std: PerAxis, law: LawName = "mixture"
    ) -> OrderedBox:
        fine = np.median(np.maximum(fine_std, STD_FLOOR_PX), axis=0)
        coarse = np.median(np.maximum(coarse_std, STD_FLOOR_PX), axis=0)
        gain, slope, intercept = np.log(GAIN_BOUNDS), SLOPE_BOUNDS, INTERCEPT_BOUNDS
        doubt = (0.0, 0.0) if law == "no_confidence_gate" else slope
        order = (0.0, ORDER_SPAN)
        box = np.array([gain, gain, order, order, slope, doubt, intercept, intercept])
        return cls(2.0 * np.log(fine / coarse), box[:, 0], box[:, 1])

    def outer(self, inner: Vector) -> Vector:
        parameters = inner.copy()
        parameters[COARSE] += inner[FINE] + self.equal
        return parameters

    def inner(self, parameters: Vector) -> Vector:
        inner = parameters.copy()
        inner[COARSE] -= parameters[FINE] + self.equal
        return np.clip(inner, self.lower, self.upper)

    def minimise(
        self, likelihood: Objective, start: Vector, *, decrement: float = DECREMENT
    ) -> Minimum:
        mix = np.eye(SIZE)  # d outer / d inner
        mix[COARSE, FINE] = np.eye(2)

        def objective(x: Vector) -> tuple[float, Vector, Matrix]:
            value, gradient, hessian = likelihood(self.outer(x))
            return value, mix.T @ gradient, mix.T @ hessian @ mix

        first, box = self.inner(start), (self.lower, self.upper)
        return minimise(
            objective, first, *box, decrement=decrement, trusted=TRUSTED_DECREMENT
        )

    def at_bounds(self, inner: Vector) -> tuple[str, ...]:
        names = (*NAMES[FINE], "a_x = b_x", "a_y = b_y", *NAMES[COARSE.stop :])
        touching = (inner <= self.lower) | (inner >= self.upper)
        fixed = self.lower == self.upper
        pairs = zip(names, touching & ~fixed, strict=True)
        return tuple(name for name, touches in pairs if touches)


def fit_newton(
    obs: Observations,
    law: LawName,
    start: Calibration | None,
    shift: tuple[float, float] | None,
) -> Outcome:
    power = 2 if law == "gaussian" else 1
    # A pilot on a thinned sample brings the start into the basin, so that the whole
    # data is passed over only a few times.
    pilot = obs.thinned(max(1, len(obs) // _PILOT_ROWS))
    box = OrderedBox.around(pilot.fine_std, pilot.coarse_std, law)
    starts = [_moment_start(pilot, shift or (0.0, 0.0))]
    if start is not None:
        starts.append(pack(start))
    fits = [_descend(box, pilot, first, shift, power) for first in starts]
    best, shift = min(fits, key=lambda fit: fit[0].value)
    details = None
    if len(pilot) < len(obs) and shift is None:
        first = box.outer(best.x)
        _, _, curvature = Likelihood(pilot, power=power)(first)
        closely = Closely(Likelihood(obs, power=power), curvature)
        best, details = box.minimise(closely, first), closely.details
    elif len(pilot) < len(obs):
        best, shift = _descend(box, obs, box.outer(best.x), shift, power)
    if not np.isfinite(best.value):
        raise FitError("The likelihood is not finite anywhere near the start.")
    return Outcome(
        calibration=unpack(box.outer(best.x)),
        location=shift or (0.0, 0.0),
        iterations=best.iterations,
        evaluations=best.evaluations,
        converged=best.converged,
        message=best.message,
        at_bounds=box.at_bounds(best.x),
        free=tuple(i for i in range(SIZE) if box.lower[i] < box.upper[i]),
        power=power,
        details=details,
    )


@dataclass(slots=True, eq=False)
class Closely:
    """A likelihood that is looked at in detail from the second time on.

    The first look is at where a pilot ended, whose `curvature` is as good as the whole
    data's for that step. The last, after which a step so short is taken that no other
    look follows, is the one that a report is made of.
    """

    likelihood: Likelihood
    curvature: Matrix
    looked: bool = False
    details: Details | None = None

    def __call__(self, parameters: Vector) -> tuple[float, Vector, Matrix]:
        if not self.looked:
            self.looked = True
            return *self.likelihood.slope(parameters), self.curvature
        self.details = self.likelihood.details(parameters)
        nll, scores, hessian = self.details
        return float(nll.mean()), scores.sum(axis=0) / (-2.0 * len(nll)), hessian


def _descend(
    box: OrderedBox,
    obs: Observations,
    start: Vector,
    shift: tuple[float, float] | None,
    power: int,
) -> tuple[Minimum, tuple[float, float] | None]:
    """Newton on the eight, alternating with the exact location step if asked."""
    best = box.minimise(Likelihood(obs, shift or (0.0, 0.0), power), start)
    for _ in range(_MAX_LOCATION_ROUNDS if shift is not None else 0):
        assert shift is not None
        moved = _location_step(Likelihood(obs, shift), box.outer(best.x))
        settled = max(abs(a - b) for a, b in zip(moved, shift, strict=True))
        shift = moved
        better = box.minimise(Likelihood(obs, shift, power), box.outer(best.x))
        best = replace(
            better,
            iterations=best.iterations + better.iterations,
            evaluations=best.evaluations + better.evaluations,
        )
        if settled < _LOCATION_TOLERANCE:
            break
    return best, shift


def _location_step(likelihood: Likelihood, parameters: Vector) -> tuple[float, float]:
    """The location that EM would choose: a weighted median, as |r| has no curvature."""
    obs, calibration = likelihood.observations, unpack(parameters)
    law = mixture.mixture_law(obs, replace(calibration, location=likelihood.location))
    fine = mixture.coarse_success(law, obs.residual)
    pull = fine / law.fine_scale + (1.0 - fine) / law.coarse_scale
    pull *= obs.fine_window[:, None]
    where = obs.residual / obs.fine_window[:, None]
    x, y = (weighted_median(where[:, d], pull[:, d]) for d in (0, 1))
    return x, y


def weighted_median(values: PerMatch, weight: PerMatch) -> float:
    """The value at which half of the weight lies below.

    >>> import numpy as np
    >>> weighted_median(np.array([3.0, 1.0, 2.0]), np.array([1.0, 1.0, 5.0]))
    2.0
    """
    order = np.argsort(values)
    below = np.cumsum(weight[order])
    return float(values[order[np.searchsorted(below, 0.5 * below[-1])]])


def fit_powell(obs: Observations, law: LawName, start: Calibration | None) -> Outcome:
    from scipy.optimize import minimize

    power = 2 if law == "gaussian" else 1
    likelihood = Likelihood(obs, power=power)
    gain = (float(np.log(POWELL_GAIN_BOUNDS[0])), float(np.log(POWELL_GAIN_BOUNDS[1])))
    doubt = (0.0, 0.0) if law == "no_confidence_gate" else POWELL_SLOPE_BOUNDS
    box = [gain] * 4 + [POWELL_SLOPE_BOUNDS, doubt] + [POWELL_KNEE_BOUNDS] * 3
    free = [i for i in range(9) if box[i][0] < box[i][1]]

    def objective(chosen: Vector) -> float:
        nine = first.copy()
        nine[free] = chosen
        return likelihood.value(from_nine(nine))

    first = _powell_start(start, box)
    minimum = minimize(
        objective,
        first[free],
        method="Powell",
        bounds=[box[i] for i in free],
        options={"maxiter": POWELL_ITERATIONS, "ftol": POWELL_FTOL},
    )
    if not np.isfinite(minimum.fun):
        raise FitError("Powell ended at a likelihood that is not finite.")
    nine = first.copy()
    nine[free] = minimum.x
    touching = [i for i in free if nine[i] in box[i]]
    return Outcome(
        calibration=unpack(from_nine(nine)),
        iterations=int(minimum.nit),
        evaluations=int(minimum.nfev),
        converged=bool(minimum.success),
        message=str(minimum.message),
        at_bounds=tuple(NINE[i] for i in touching),
        free=tuple(i for i in range(SIZE) if i != DOUBT_SLOPE or DOUBT_SLOPE in free),
        power=power,
    )


def _powell_start(start: Calibration | None, box: list[tuple[float, float]]) -> Vector:
    """The nine to begin with: raw scales and a gate that opens at 5 % and 2 nats."""
    if start is None:
        return np.array([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 5.0, 5.0, 2.0]) * [
            float(low < high) for low, high in box
        ]
    return np.clip(to_nine(start), *np.array(box).T)


def untouched() -> Outcome:
    return Outcome(calibration=unpack(np.zeros(SIZE)), message="nothing to fit")


def fit_fine_only(obs: Observations, shift: tuple[float, float]) -> Outcome:
    """√b = mean |r| / s̃ᶠ: the maximum-likelihood scale of a Laplace law."""
    x = np.abs(obs.residual - obs.fine_window[:, None] * np.array(shift))
    gain = (x / np.maximum(obs.fine_std, STD_FLOOR_PX)).mean(axis=0)
    parameters = np.zeros(SIZE)
    parameters[FINE] = 2.0 * np.log(np.maximum(gain, 1e-3))
    return Outcome(calibration=unpack(parameters), location=shift)


def fit_hard_gate(
    obs: Observations, shift: tuple[float, float], start: Calibration | None
) -> Outcome:
    soft = fit_newton(obs, "mixture", start, None)
    x = np.abs(obs.residual - obs.fine_window[:, None] * np.array(shift))
    parameters, evaluations = hard_gate.harden(obs, x, pack(soft.calibration))
    return Outcome(
        calibration=unpack(parameters),
        location=shift,
        iterations=soft.iterations,
        evaluations=soft.evaluations + evaluations,
        message="soft fit, then the exact best cut",
    )
