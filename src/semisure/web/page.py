"""What the page shows of a result: numbers, columns of matches, and its refits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from semisure.geometry import epipolar
from semisure.geometry import homography as plane
from semisure.io.images import Image
from semisure.law.mixture import abs_quantile
from semisure.pairs.estimation import refit_matches
from semisure.pairs.models import lines_matrix
from semisure.pairs.result import PairResult
from semisure.refit.core import without_bias
from semisure.refit.corners import expected_corner_error
from semisure.refit.weights import RefitMethod
from semisure.report import documents
from semisure.report.overlay import between_small, difference, laid_over
from semisure.report.uncertainty import color_range, line_bands
from semisure.types import Array, FloatArray, Refit
from semisure.web.orders import Order

METHODS: tuple[RefitMethod, ...] = ("core", "core+")
LIKELY = 0.5  # weight of the matches whose distances are compared


@dataclass(frozen=True, slots=True, eq=False)
class Arm:
    """A model of the pair, and the refit that made it; none for the estimator's."""

    name: str
    model: FloatArray | None
    refit: Refit | None = None


def comparison(pair: PairResult) -> list[Arm]:
    """base, core and core+, and the chosen method if it is another one.

    All start from the same model, so that only the refit differs. Empty for unrelated
    images.
    """
    start, chosen = pair.refit.initial, pair.refit.method
    if start is None or not pair.related:
        return []
    K0, K1 = pair.cameras or (None, None)
    refits = {chosen: pair.refit}
    for method in METHODS:
        if method != chosen:
            refits[method] = refit_matches(
                pair.matches,
                pair.calibration,
                model=pair.kind,
                method=method,
                initial=start,
                K0=K0,
                K1=K1,
            ).refit
    order = sorted(refits, key=lambda name: (name in METHODS, name))
    arms = [Arm(name, refits[name].model, refits[name]) for name in order]
    return [Arm("base", start), *arms]


def pictures(
    pair: PairResult, arms: Sequence[Arm], small: tuple[Image, Image]
) -> dict[str, Image]:
    """Image 0 laid over image 1, and their difference, by each arm's homography."""
    drawn = {}
    sizes = pair.matches.source_size, pair.matches.target_size
    for k, arm in enumerate(arms):
        if arm.model is not None and pair.H_01 is not None:
            H = between_small(arm.model, small, sizes)
            drawn[f"laid{k}"] = laid_over(*small, H)
            drawn[f"difference{k}"] = difference(*small, H)
    return drawn


def page_document(
    order: Order, pair: PairResult, arms: Sequence[Arm], drawn: Sequence[str]
) -> dict[str, Any]:
    """The document of the page, ready for JSON; `drawn` names its pictures."""
    sizes = pair.matches.source_size, pair.matches.target_size
    return {
        **documents.document(pair),
        "chosen": order.chosen(),
        "numbers": [asdict(fact) for fact in documents.numbers(pair)],
        "arms": [_compared(pair, arm) for arm in arms],
        "colors_px": color_range(*sizes),
        "image_sizes": sizes,
        "pictures": drawn,
        "columns": _columns(pair),
        "lines": _lines(pair),
    }


def _compared(pair: PairResult, arm: Arm) -> dict[str, Any]:
    """The numbers of an arm for a table."""
    error = weights = None
    if arm.refit is not None:
        weights = float(arm.refit.weight.sum())
        if arm.refit.covariance is not None and pair.kind == "homography":
            error = expected_corner_error(arm.refit.covariance)
    return {
        "name": arm.name,
        "median_distance_px": _distance(pair, arm.model),
        "expected_corner_error_px": error,
        "effective_matches": weights,
        "chosen": arm.refit is pair.refit,
    }


def _distance(pair: PairResult, model: FloatArray | None) -> float | None:
    """Median distance of the likely matches from what the model predicts, px."""
    likely = pair.refit.weight > LIKELY
    if model is None or not likely.any():
        return None
    matches, _ = without_bias(pair.matches.take(likely), pair.calibration)
    F = lines_matrix(pair.kind, model, pair.cameras)
    if F is None:
        distance = np.linalg.norm(plane.residual(model, matches), axis=1)
    else:
        distance = np.abs(epipolar.lines_of(F[None], matches).distance)
    median = float(np.median(distance))
    return median if np.isfinite(median) else None


def _columns(pair: PairResult) -> dict[str, Any]:
    """One list for each number of a match."""
    unbiased, _ = without_bias(pair.matches, pair.calibration)
    columns = {
        "source": pair.matches.source,
        "target": pair.matches.target,
        "side": pair.matches.side,
        "center": unbiased.refined,  # where the true point is expected
        # Half of the interval about each match that holds 68 % of its error.
        "half_axes": abs_quantile(pair.law, documents.ONE_SIGMA),
        "confidence": pair.matches.confidence,
        "expected": pair.expected_px,
        "median": pair.median_px,
        "within_90": pair.within_90_px,
        "failure": pair.failure,
        "weight": pair.refit.weight,
    }
    listed = {name: _rounded(column, 3) for name, column in columns.items()}
    residual = None
    if pair.related and pair.H_01 is not None:
        distance = np.linalg.norm(plane.residual(pair.H_01, unbiased), axis=1)
        residual = [v if np.isfinite(v) else None for v in _rounded(distance, 3)]
    return {**listed, "residual": residual}


def _lines(pair: PairResult) -> dict[str, Any] | None:
    """Each match's epipolar line, in the image of `side`; None if there are none."""
    bands = line_bands(pair)
    if bands is None:
        return None
    return {
        "line": _rounded(bands.line, 5),
        "distance": _rounded(bands.distance, 2),
        "half_width": _rounded(bands.half_width, 2),
    }


def _rounded(array: Array, digits: int) -> list[Any]:
    return np.round(array, digits).tolist()
