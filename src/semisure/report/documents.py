"""The result of a pair as a document and as files, for command line and web alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from semisure.io.atomic import write_json
from semisure.io.files import save_matches
from semisure.pipeline import PairResult
from semisure.refit import expected_corner_error
from semisure.types import FloatArray, PerMatch, Refit


def document(result: PairResult) -> dict[str, Any]:
    """The model, how it was estimated and how certain it is, ready for JSON."""
    return {
        **_refit_document(result.refit),
        "matches": len(result.matches),
        "estimator": result.estimate.estimator,
        "inliers": int(result.estimate.inliers.sum()),
        "model_failure": result.model_failure,
        "related": result.related,
        "summary": result.summary(),
    }


def _refit_document(refit: Refit) -> dict[str, Any]:
    C = refit.covariance
    return {
        "H_01": None if refit.model is None else refit.model.tolist(),
        "initial": None if refit.initial is None else refit.initial.tolist(),
        "method": refit.method,
        "kept_initial_because": refit.reason,
        "iterations": refit.iterations,
        "log_likelihood": refit.log_likelihood,
        "std_floor_px": refit.std_floor_px,
        "effective_matches": float(refit.weight.sum()),
        "expected_corner_error_px": None if C is None else expected_corner_error(C),
        "corner_covariance_px2": None if C is None else C.tolist(),
    }


def columns(result: PairResult) -> dict[str, PerMatch]:
    """Weight, expected error and failure probability of each match."""
    return {
        "weight": result.refit.weight,
        "expected_abs_error": result.expected_px,
        "coarse_failure": result.failure,
    }


def full_document(result: PairResult) -> dict[str, Any]:
    """The document with every match in it."""
    arrays = {"source": result.matches.source, "target": result.matches.target}
    rows = {**arrays, **columns(result)}
    return {**document(result), **{name: row.tolist() for name, row in rows.items()}}


def write_result(path: Path, result: PairResult) -> None:
    """The result as JSON, or the raw matches and their errors as NPZ or CSV."""
    if path.suffix not in (".npz", ".csv"):
        write_json(path, full_document(result))
        return
    extra: dict[str, FloatArray] = dict(columns(result))
    if path.suffix == ".npz" and result.refit.model is not None:
        extra["H_01"] = result.refit.model
    save_matches(result.matches, path, **extra)
