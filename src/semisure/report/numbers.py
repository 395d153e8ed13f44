"""The numbers of a pair, each with its meaning in words that need no paper."""

from __future__ import annotations

from typing import Any

import numpy as np

from semisure.pairs.models import MODEL_NAMES
from semisure.pairs.result import PairResult
from semisure.report import documents
from semisure.report.html import Fact

_CERTAINTY = {
    "homography": (
        (
            "expected corner error",
            "expected_corner_error_px",
            " px",
            "How far the homography, if it is right, probably misplaces the corners of "
            "the first image, on average over the four.",
        ),
    ),
    "fundamental": (
        (
            "standard error of the epipolar lines",
            "median_line_std_px",
            " px",
            "How far a line is off next to its match, in the median, if the lines "
            "are right.",
        ),
    ),
    "essential": (
        (
            "standard error of the epipolar lines",
            "median_line_std_px",
            " px",
            "How far a line is off next to its match, in the median, if the lines "
            "are right.",
        ),
    ),
}


def numbers(result: PairResult) -> list[Fact]:
    """All of them, the most asked for first."""
    document = documents.document(result)
    return [
        Fact("matches", f"{len(result.matches):,}", "Pairs of points by the matcher."),
        *_errors(result),
        *_shown(result),
        Fact(
            f"inliers of {document['estimator']}",
            f"{document['inliers']:,}",
            "Matches within its threshold of the initial model, before the refit.",
        ),
        Fact(
            "effective inliers (sum of weights)",
            f"{document['effective_matches']:,.0f}",
            "Each match counts by its weight ω, the probability that its coarse cell "
            "was right, given how well it agrees with the model.",
        ),
        *_motion(result),
        *_certainty(result, document),
        Fact("verdict", *_verdict(result)),
        Fact(
            "probability that this fit is accidental",
            _chance(result),
            f"How often random matches would support a {MODEL_NAMES[result.kind]} as "
            "well as these do.",
        ),
        *_refit(document),
    ]


def _errors(result: PairResult) -> list[Fact]:
    if not len(result.matches):
        return []
    half, most = result.pooled_px
    doubtful = float((result.failure > 0.5).mean())
    return [
        Fact(
            "median expected error",
            f"{np.median(result.expected_px):.2f} px",
            "Half of the matches expect less. A match's expected error is the mean of "
            "its error law, which a small chance of a gross error raises.",
        ),
        Fact(
            "half of the errors within",
            f"{half:.2f} px",
            "Of all errors in x and y: what one half should stay below.",
        ),
        Fact(
            "90 % of the errors within",
            f"{most:.2f} px",
            "Of all errors in x and y: what nine in ten should stay below.",
        ),
        Fact(
            "matches whose coarse cell is likely wrong",
            f"{doubtful:.1%}",
            "A semi-dense matcher first picks a coarse cell, then a point in it. In a "
            "wrong cell the point is off by many pixels.",
        ),
    ]


def _shown(result: PairResult) -> list[Fact]:
    facts = []
    if result.finding is not None:
        facts.append(
            Fact(
                "what the images show",
                result.finding,
                "Decided by the matches: does one plane explain them, or do they lie "
                "on epipolar lines only?",
            )
        )
    evidence = result.evidence
    if evidence is not None and result.related:
        facts.append(
            Fact(
                "matches off the plane",
                f"{evidence.off_plane:.0%}",
                "Of the matches that lie on their epipolar lines. One plane would "
                f"have {evidence.expected_off:.0%}.",
            )
        )
    return facts


def _motion(result: PairResult) -> list[Fact]:
    """Rotation and direction of a camera's motion, with their standard errors."""
    motion = result.motion if result.related else None
    if motion is None:
        return []
    turn, move = (
        "" if std is None else f" ± {std:.2g}°"
        for std in (motion.rotation_std_deg, motion.direction_std_deg)
    )
    axis, way = (
        ", ".join(f"{v + 0.0:.3f}" for v in vector)
        for vector in (motion.axis, motion.direction)
    )
    return [
        Fact(
            "rotation of the camera",
            f"{motion.rotation_deg:.2f}°{turn}",
            f"About the axis ({axis}): x to the right, y down, z forward.",
        ),
        Fact(
            "direction of the motion",
            f"({way}){move}",
            "Where the first camera stands, seen from the second. Two images do not "
            "show how far away that is.",
        ),
    ]


def _certainty(result: PairResult, document: dict[str, Any]) -> list[Fact]:
    facts = []
    for name, key, unit, meaning in _CERTAINTY[result.kind]:
        # An accidental model has no error to expect.
        value = document[key] if result.related else None
        shown = "–" if value is None else f"{value:.2f}{unit}"
        facts.append(Fact(name, shown, meaning))
    return facts


def _verdict(result: PairResult) -> tuple[str, str]:
    verdict = result.verdict
    if verdict.name == "unrelated":
        return verdict.name, "So few matches agree that chance alone explains them."
    right = f"The model is right with a probability of {verdict.probability:.1%}"
    reasons = "".join(f"; {reason}" for reason in verdict.reasons)
    return verdict.name, f"{right}{reasons}."


def _chance(result: PairResult) -> str:
    chance = result.model_failure
    return "below 0.0001" if chance < 1e-4 else f"{chance:.2g}"


def _refit(document: dict[str, Any]) -> list[Fact]:
    kept = document["kept_initial_because"]
    steps = document["iterations"]
    said = f"{steps} iteration{'' if steps == 1 else 's'} after the robust estimator."
    if kept:
        said = f"The initial model was kept: {kept}."
    return [Fact("refit", document["method"], said)]
