"""What is known of a pair, as a document and as files: one form for every door."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from semisure.covariance import expected_corner_error
from semisure.files import save_matches, write_json
from semisure.pipeline import PairResult
from semisure.types import FloatArray, Matches, Refit


def document(result: PairResult) -> dict[str, Any]:
    """The model, how it came about and how far to trust it, ready for JSON."""
    return {
        **refit_document(result.refit, len(result.matches)),
        "estimator": result.estimate.estimator,
        "inliers": int(result.estimate.inliers.sum()),
        "model_failure": result.model_failure,
        "related": result.related,
        "summary": result.summary(),
    }


def refit_document(refit: Refit, matches: int) -> dict[str, Any]:
    """The same of a refit alone."""
    C = refit.covariance
    return {
        "H_01": None if refit.model is None else refit.model.tolist(),
        "initial": None if refit.initial is None else refit.initial.tolist(),
        "method": refit.method,
        "kept_initial_because": refit.reason,
        "iterations": refit.iterations,
        "log_likelihood": refit.log_likelihood,
        "std_floor_px": refit.std_floor_px,
        "matches": matches,
        "effective_matches": float(refit.weight.sum()),
        "expected_corner_error_px": None if C is None else expected_corner_error(C),
        "corner_covariance_px2": None if C is None else C.tolist(),
    }


def columns(result: PairResult) -> dict[str, FloatArray]:
    """What is said of each match beside its points."""
    return {
        "weight": result.refit.weight,
        "expected_abs_error": result.expected_px,
        "coarse_failure": result.failure,
    }


def full_document(
    summary: dict[str, Any], matches: Matches, told: dict[str, FloatArray]
) -> dict[str, Any]:
    """`summary` with every match."""
    points = {"source": matches.source.tolist(), "target": matches.target.tolist()}
    return {**summary, **points, **{name: row.tolist() for name, row in told.items()}}


def write_result(
    path: Path,
    summary: dict[str, Any],
    matches: Matches,
    refit: Refit,
    told: dict[str, FloatArray],
) -> None:
    """The result as JSON, or the matches with what is known of each as NPZ or CSV."""
    if path.suffix in (".npz", ".csv"):
        if path.suffix == ".npz" and refit.model is not None:
            told = {**told, "H_01": refit.model}
        save_matches(matches, path, **told)
        return
    write_json(path, full_document(summary, matches, told))
