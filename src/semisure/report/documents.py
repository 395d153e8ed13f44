"""The result of a pair as a document and as files, for command line and web alike."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from semisure.io.atomic import check_output, write_json
from semisure.io.files import save_matches
from semisure.law.mixture import abs_quantile
from semisure.pairs.motion import MOTION_NAMES
from semisure.pairs.result import PairResult
from semisure.refit import expected_corner_error
from semisure.types import Calibration, FloatArray, PerAxis, Refit

ONE_SIGMA = 0.6827  # share of a normal variable within its standard deviation
RESULT_SUFFIXES = (".json", ".npz", ".csv")


def document(result: PairResult) -> dict[str, Any]:
    """The model, how it was estimated and how certain it is, ready for JSON."""
    return {
        "model": result.kind,
        **{name: _listed(model) for name, model in models(result).items()},
        **_refit_document(result.refit),
        **_certainty(result),
        "matches": len(result.matches),
        "calibration": _calibration(result.calibration),
        "estimator": result.estimate.estimator,
        "inliers": int(result.estimate.inliers.sum()),
        "model_failure": result.model_failure,
        "related": result.related,
        "verdict": result.verdict.name,
        "probability_right": result.verdict.probability,
        "weak_because": list(result.verdict.reasons),
        "found": result.finding,
        "evidence": None if result.evidence is None else asdict(result.evidence),
        "summary": result.summary(),
    }


def _calibration(calibration: Calibration) -> dict[str, Any]:
    """Whose law the errors are, and how it was made."""
    return {"matcher": calibration.matcher, "made": calibration.origin}


def models(result: PairResult) -> dict[str, FloatArray | None]:
    """The model under its name; the others are None."""
    return {"H_01": result.H_01, "F_01": result.F_01, "P_01": result.P_01}


def _listed(array: FloatArray | None) -> list[Any] | None:
    return None if array is None else array.tolist()


def _refit_document(refit: Refit) -> dict[str, Any]:
    return {
        "initial": _listed(refit.initial),
        "method": refit.method,
        "kept_initial_because": refit.reason,
        "iterations": refit.iterations,
        "log_likelihood": refit.log_likelihood,
        "std_floor_px": refit.std_floor_px,
        "effective_matches": float(refit.weight.sum()),
    }


def _certainty(result: PairResult) -> dict[str, Any]:
    """What the covariance says, in the terms of each model; null for the others."""
    C, flat = result.refit.covariance, result.kind == "homography"
    corner = C if flat else None
    lines, motion = result.line_std_px, result.motion
    return {
        "expected_corner_error_px": (
            None if corner is None else expected_corner_error(corner)
        ),
        "corner_covariance_px2": _listed(corner),
        "parameter_covariance": None if flat else _listed(C),
        "median_line_std_px": None if lines is None else float(np.median(lines)),
        **dict.fromkeys(MOTION_NAMES),
        **({} if motion is None else motion.document()),
    }


def half_axes(result: PairResult) -> PerAxis:
    """Half of the interval about each match that holds 68 % of its error, (n, 2) px."""
    return abs_quantile(result.law, ONE_SIGMA)


def full_document(result: PairResult) -> dict[str, Any]:
    """The document with every match in it."""
    arrays = {"source": result.matches.source, "target": result.matches.target}
    rows = {**arrays, **result.columns()}
    return {**document(result), **{name: row.tolist() for name, row in rows.items()}}


def write_result(path: Path, result: PairResult) -> None:
    """The result as JSON, or the raw matches and their errors as NPZ or CSV."""
    check_output(path, RESULT_SUFFIXES)
    if path.suffix == ".json":
        write_json(path, full_document(result))
        return
    extra: dict[str, FloatArray] = dict(result.columns())
    if path.suffix == ".npz":
        extra |= {k: model for k, model in models(result).items() if model is not None}
    save_matches(result.matches, path, **extra)
