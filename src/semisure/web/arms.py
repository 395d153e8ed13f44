"""The estimator's model and its refits side by side: base, core and core+."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from semisure.geometry import epipolar
from semisure.geometry import homography as plane
from semisure.io.images import Image
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import lines_matrix
from semisure.pairs.result import PairResult
from semisure.refit.core import without_bias
from semisure.refit.planes import expected_corner_error
from semisure.refit.weights import RefitMethod
from semisure.report.overlay import Sizes, between_small, difference, laid_over
from semisure.types import FloatArray, Refit

METHODS: tuple[RefitMethod, ...] = ("core", "core+")
LIKELY = 0.5  # weight of the matches whose distances are compared


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """A model of the pair, and the refit that made it; none for the estimator's."""

    name: str
    model: FloatArray | None
    refit: Refit | None = None


def arms(pair: PairResult) -> list[Arm]:
    """base, core and core+, and the chosen method where it is another.

    All start from the same model, so that nothing but the refit differs.
    """
    start = pair.refit.initial
    if start is None:
        return []
    rows = [Arm("base", start)]
    methods = [m for m in METHODS if m != pair.refit.method]
    refits = {pair.refit.method: pair.refit}
    for method in methods:
        again = refit_matches(
            pair.matches,
            pair.calibration,
            model=pair.kind,
            method=method,
            initial=start,
            **_cameras(pair),
        )
        refits[method] = again.refit
    order = sorted(refits, key=lambda name: (name in METHODS, name))
    return rows + [Arm(name, refits[name].model, refits[name]) for name in order]


def _cameras(pair: PairResult) -> dict[str, Any]:
    if pair.cameras is None:
        return {}
    return {"K0": pair.cameras[0], "K1": pair.cameras[1]}


def compared(pair: PairResult, rows: list[Arm]) -> list[dict[str, Any]]:
    """The numbers of each arm for a table, those of a homography or of lines."""
    best = pair.refit.weight > LIKELY
    return [
        {
            "name": arm.name,
            "model": None if arm.model is None else arm.model.tolist(),
            "median_distance_px": _distance(pair, arm.model, best),
            "corner_shift_px": _corner_shift(pair, arm.model),
            "expected_corner_error_px": _expected(pair, arm),
            "effective_matches": (
                None if arm.refit is None else float(arm.refit.weight.sum())
            ),
            "chosen": arm.refit is pair.refit,
        }
        for arm in rows
    ]


def _distance(pair: PairResult, model: FloatArray | None, best: Any) -> float | None:
    """Median distance of the likely matches from what the model predicts, px."""
    if model is None or not best.any():
        return None
    matches, _ = without_bias(pair.matches.take(best), pair.calibration)
    F = lines_matrix(pair.kind, model, pair.cameras)
    if F is None:
        distance = np.linalg.norm(plane.residual(model, matches), axis=1)
    else:
        distance = np.abs(epipolar.lines_of(F[None], matches).distance)
    middle = float(np.median(distance))
    return middle if np.isfinite(middle) else None


def _corner_shift(pair: PairResult, model: FloatArray | None) -> float | None:
    """Mean distance of the corners from where the shown model puts them, px."""
    if pair.H_01 is None or model is None:
        return None
    corners = plane.corners(pair.matches.source_size)
    moved = plane.project(model, corners) - plane.project(pair.H_01, corners)
    shift = float(np.linalg.norm(moved, axis=1).mean())
    return shift if np.isfinite(shift) else None


def _expected(pair: PairResult, arm: Arm) -> float | None:
    if pair.kind != "homography" or arm.refit is None or arm.refit.covariance is None:
        return None
    return expected_corner_error(arm.refit.covariance)


def pictures(
    pair: PairResult, rows: list[Arm], small: tuple[Image, Image], sizes: Sizes
) -> Mapping[str, Image]:
    """Image 0 laid over image 1, and their difference, by each arm's homography."""
    if not pair.related or pair.H_01 is None:
        return {}
    drawn = {}
    for k, arm in enumerate(rows):
        if arm.model is not None:
            H = between_small(arm.model, small, sizes)
            drawn[f"laid{k}"] = laid_over(*small, H)
            drawn[f"difference{k}"] = difference(*small, H)
    return drawn
