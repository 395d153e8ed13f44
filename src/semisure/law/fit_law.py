"""Fitting the error law to matches whose true error is known (Alg. calibration).

``newton`` (default) works in the eight identifiable directions with the exact Hessian,
starts from robust moments, and keeps the fine component the narrower one, so that the
two labels cannot swap. ``powell`` is the paper's: bounded, derivative-free, over the
nine parameters. Both minimise the same mean NLL per axis.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal, get_args

import numpy as np

from semisure.errors import FitError, InputError
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.hard_gate import fit_fine_only, fit_hard_gate
from semisure.law.likelihood import SIZE, unpack
from semisure.law.newton import LawFit, fit_newton
from semisure.law.observations import Observations, observe
from semisure.law.powell import fit_powell
from semisure.types import (
    LAW_NAMES,
    Calibration,
    LawName,
    Matches,
    PerAxis,
    PerMatch,
    as_choice,
)
from semisure.types.display import counted

Optimiser = Literal["newton", "powell"]
OPTIMISERS: tuple[Optimiser, ...] = get_args(Optimiser)

# Error strata of the paper's table, on e = ½‖r‖₁ in px.
STRATA_PX = {"<8": (0.0, 8.0), "8-64": (8.0, 64.0), ">64": (64.0, np.inf)}


@dataclass(frozen=True, slots=True, kw_only=True)
class FitReport:
    """How a fit went; everything a reader needs to trust or doubt it.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> _, report = fit([SyntheticMatcher().match(np.eye(3), count=500)])
    >>> report.summary()[:40]
    'mixture by newton on 1 pair: converged a'
    """

    optimiser: str
    law: str
    matches: int
    pairs: int
    nll: float  # mean per axis, nats
    nll_by_stratum: dict[str, float]  # NaN where a stratum is empty
    matches_by_stratum: dict[str, int]
    iterations: int
    converged: bool
    message: str
    at_bounds: tuple[str, ...]

    def __repr__(self) -> str:
        return f"FitReport({self.summary()})"

    def summary(self) -> str:
        """What was fitted to how much, and whether it went well."""
        state = "converged" if self.converged else "did NOT converge"
        pairs = counted(self.pairs, "pair")
        steps = counted(self.iterations, "iteration")
        sentence = (
            f"{self.law} by {self.optimiser} on {pairs}: {state} after {steps} "
            f"({self.message})."
        )
        if self.at_bounds:
            sentence += f" At a bound: {', '.join(self.at_bounds)}."
        return sentence

    def rows(self) -> list[list[str]]:
        """A table: error, matches and NLL, of all and by stratum."""
        table = [["error", "matches", "NLL per axis (nats)"]]
        table.append(["all", f"{self.matches:,}", f"{self.nll:.4f}"])
        for name, nll in self.nll_by_stratum.items():
            count = self.matches_by_stratum[name]
            table.append([f"{name} px", f"{count:,}", f"{nll:.4f}" if count else "–"])
        return table


def fit(
    pairs: Iterable[tuple[Matches, PerAxis]] | Observations,
    *,
    law: LawName = "mixture",
    optimiser: Optimiser = "newton",
    location: bool = False,
    matcher: str = "unknown",
    resolution: tuple[int, int] | None = None,
    provenance: dict[str, Any] | None = None,
) -> tuple[Calibration, FitReport]:
    """Calibration of a matcher from (matches, residual) of image pairs, and a report.

    Parameters
    ----------
    pairs
        For each image pair its matches and their residuals in px, predicted minus
        reference, on the refined side (:func:`semisure.geometry.homography.residual`
        with the true homography gives them).
    law
        ``mixture`` is the paper's; the others are its ablation's.
    optimiser
        ``newton`` (ours) or ``powell`` (the paper's).
    location
        Fit the systematic shift too (ours; the paper's law is centred on zero).

    Examples
    --------
    >>> from semisure.synthetic import SyntheticMatcher
    >>> pairs = [SyntheticMatcher().match(np.eye(3), seed=seed) for seed in range(3)]
    >>> calibration, report = fit(pairs)
    >>> report.converged, report.matches
    (True, 6000)
    """
    observations = pairs if isinstance(pairs, Observations) else observe(pairs)
    _check(observations, law, optimiser, location)
    if law == "uncalibrated":
        outcome = LawFit(calibration=unpack(np.zeros(SIZE)), message="nothing to fit")
    elif law == "fine_only":
        outcome = fit_fine_only(observations)
    elif law == "hard_gate":
        outcome = fit_hard_gate(observations)
    elif optimiser == "powell":
        outcome = fit_powell(observations, law)
    else:
        outcome = fit_newton(observations, law, location=location)
    calibration = replace(
        outcome.calibration,
        law=law,
        location=outcome.location if location else None,
        matcher=matcher,
        resolution=resolution,
        provenance=dict(provenance or {}),
    )
    return calibration, _report(observations, calibration, optimiser, outcome)


def _check(obs: Observations, law: str, optimiser: str, location: bool) -> None:
    as_choice("law", law, LAW_NAMES)
    as_choice("optimiser", optimiser, OPTIMISERS)
    if optimiser == "powell" and law in ("fine_only", "hard_gate"):
        raise InputError(
            f"law {law!r} has a closed-form fit; leave optimiser='newton'."
        )
    if location and (optimiser, law) != ("newton", "mixture"):
        raise InputError(
            "location is fitted with optimiser='newton' and law='mixture' only; "
            f"this call has optimiser={optimiser!r} and law={law!r}."
        )
    if len(obs) < 16:
        raise FitError(
            f"A calibration needs at least 16 matches with known error, but got "
            f"{len(obs)}; a single image pair usually gives hundreds."
        )


def nll_per_match(obs: Observations, calibration: Calibration) -> PerMatch:
    """NLL of each match, mean over its axes, nats."""
    parts = []
    for block in obs.blocks():
        law = error_law(block, calibration)
        parts.append(-mixture.log_density(law, block.residual).mean(axis=1))
    return np.concatenate(parts)


def _report(
    obs: Observations, calibration: Calibration, optimiser: str, outcome: LawFit
) -> FitReport:
    nll = nll_per_match(obs, calibration)
    error = 0.5 * np.abs(obs.residual).sum(axis=1)
    strata = {
        name: nll[(error >= low) & (error < high)]
        for name, (low, high) in STRATA_PX.items()
    }
    return FitReport(
        optimiser=optimiser,
        law=calibration.law,
        matches=len(obs),
        pairs=len(np.unique(obs.pair)),
        nll=float(nll.mean()),
        nll_by_stratum={
            name: float(values.mean()) if len(values) else float("nan")
            for name, values in strata.items()
        },
        matches_by_stratum={name: len(values) for name, values in strata.items()},
        iterations=outcome.iterations,
        converged=outcome.converged,
        message=outcome.message,
        at_bounds=outcome.at_bounds,
    )
