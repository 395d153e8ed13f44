"""The result of a pair as a document, as files, and as numbers with their meaning."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from semisure.io.atomic import check_output, write_atomically, write_json
from semisure.io.files import save_matches
from semisure.law.mixture import STD_FLOOR_PX
from semisure.pairs.models import MOTION_NAMES
from semisure.pairs.result import PairResult
from semisure.refit.corners import expected_corner_error
from semisure.report.html import Fact
from semisure.types import FloatArray
from semisure.types.display import counted

ONE_SIGMA = 0.6827  # share of a normal variable within its standard deviation
RESULT_SUFFIXES = (".json", ".npz", ".csv", ".png")


def document(result: PairResult) -> dict[str, Any]:
    """The model, how it was estimated and how certain it is, ready for JSON."""
    refit, calibration = result.refit, result.calibration
    return {
        "model": result.kind,
        **{name: _listed(model) for name, model in models(result).items()},
        "initial": _listed(refit.initial),
        "method": refit.method,
        "kept_initial_because": refit.reason,
        "iterations": refit.iterations,
        "log_likelihood": refit.log_likelihood,
        "std_floor_px": STD_FLOOR_PX,
        "effective_matches": float(refit.weight.sum()),
        **_certainty(result),
        "matches": len(result.matches),
        "calibration": {"matcher": calibration.matcher, "made": calibration.origin},
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


def models(result: PairResult) -> dict[str, FloatArray | None]:
    """The model under its name; the others are None."""
    return {"H_01": result.H_01, "F_01": result.F_01, "P_01": result.P_01}


def _listed(array: FloatArray | None) -> list[Any] | None:
    return None if array is None else array.tolist()


def _certainty(result: PairResult) -> dict[str, Any]:
    """Standard errors by the covariance, as each model has them; null otherwise."""
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


def full_document(result: PairResult) -> dict[str, Any]:
    """The document with every match in it."""
    arrays = {"source": result.matches.source, "target": result.matches.target}
    rows = {**arrays, **result.columns()}
    return {**document(result), **{name: row.tolist() for name, row in rows.items()}}


def write_result(path: Path, result: PairResult) -> None:
    """The result as JSON, raw matches and errors as NPZ or CSV, or a picture (PNG)."""
    check_output(path, RESULT_SUFFIXES)
    if path.suffix == ".json":
        write_json(path, full_document(result))
    elif path.suffix == ".png":
        from semisure.report.plots import png  # matplotlib: half a second

        write_atomically(path, png(result.plot()))
    else:
        extra: dict[str, FloatArray] = dict(result.columns())
        if path.suffix == ".npz":
            extra |= {k: v for k, v in models(result).items() if v is not None}
        save_matches(result.matches, path, **extra)


# ---- numbers for people --------------------------------------------------------------


def numbers(result: PairResult) -> list[Fact]:
    """All numbers, the most important first."""
    refit, estimate, verdict = result.refit, result.estimate, result.verdict
    facts = [
        Fact("matches", f"{len(result.matches):,}", "Pairs of points by the matcher.")
    ]
    if len(result.matches):
        half, most = result.pooled_px
        doubtful = (result.failure > 0.5).mean()
        facts += [
            Fact(
                "half of the errors within",
                f"{half:.2f} px",
                "Half of all errors in x and y should be smaller.",
            ),
            Fact(
                "90 % of the errors within",
                f"{most:.2f} px",
                "90 % of all errors in x and y should be smaller.",
            ),
            Fact(
                "matches whose coarse cell is likely wrong",
                f"{doubtful:.1%}",
                "A semi-dense matcher first picks a coarse cell, then a point in it. "
                "In a wrong cell the point is off by many pixels.",
            ),
        ]
    meaning = "So few matches agree that chance alone explains them."
    if result.related:
        right = f"The model is right with a probability of {verdict.probability:.1%}"
        meaning = "; ".join([right, *verdict.reasons]) + "."
    facts += [
        Fact(
            f"inliers of {estimate.estimator}",
            f"{estimate.inliers.sum():,}",
            "Matches within its threshold of the initial model, before the refit.",
        ),
        Fact(
            "effective inliers (sum of weights)",
            f"{refit.weight.sum():,.0f}",
            "Each match counts by its weight ω, the probability that its coarse cell "
            "was right, given how well it agrees with the model.",
        ),
        Fact("verdict", verdict.name, meaning),
    ]
    if result.related:
        facts += [*_evidence(result), *_model_error(result)]
    steps = counted(refit.iterations, "iteration")
    meaning = f"{steps} after the robust estimator."
    if refit.reason:
        meaning = f"The initial model was kept: {refit.reason}."
    return [*facts, Fact("refit", refit.method, meaning)]


def _evidence(result: PairResult) -> list[Fact]:
    """Whether the matches show a plane or a scene in depth, if they decided it."""
    if result.finding is None or result.evidence is None:
        return []
    share, expected = result.evidence.off_plane, result.evidence.expected_off
    return [
        Fact(
            "what the images show",
            result.finding,
            f"Of the matches on their epipolar lines, {share:.0%} lie off the plane; "
            f"in a planar scene, {expected:.0%} would.",
        )
    ]


def _model_error(result: PairResult) -> list[Fact]:
    """How far off the model probably is, if it is right."""
    certainty, motion = _certainty(result), result.motion
    name, key = "standard error of the epipolar lines", "median_line_std_px"
    meaning = "Median over the matches of the line's standard deviation at the match."
    if result.kind == "homography":
        name, key = "expected corner error", "expected_corner_error_px"
        meaning = (
            "Expected error of the first image's corners, averaged over the four, if "
            "the homography is right."
        )
    error = certainty[key]
    facts = [Fact(name, "–" if error is None else f"{error:.2f} px", meaning)]
    if motion is not None:
        axis, direction = (
            ", ".join(f"{v + 0.0:.3f}" for v in vector)
            for vector in (motion.axis, motion.direction)
        )
        facts += [
            Fact(
                "rotation of the camera",
                f"{motion.rotation_deg:.2f}°{_deg(motion.rotation_std_deg)}",
                f"About the axis ({axis}): x to the right, y down, z forward.",
            ),
            Fact(
                "direction of the motion",
                f"({direction}){_deg(motion.direction_std_deg)}",
                "From the second camera to the first. Two images do not determine the "
                "distance.",
            ),
        ]
    return facts


def _deg(std: float | None) -> str:
    return "" if std is None else f" ± {std:.2g}°"
