"""True errors of the matches of a pair beside each uncertainty stated of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from semisure.bench import paper
from semisure.bench.arms import Calibrations
from semisure.bench.exported import Exported
from semisure.bench.native_files import read_native
from semisure.bench.true_errors import residual_of, with_truth
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.types import PerMatch

OURS = "expected error"
WITH_LOCATION = "expected error, with location"


@dataclass(frozen=True, slots=True, eq=False)
class OwnTask:
    """One pair of a matcher of ours."""

    exported: Exported
    calibrations: Calibrations


@dataclass(frozen=True, slots=True, eq=False)
class NativeTask:
    """One pair of another matcher, whose file is given."""

    exported: Exported
    file: Path
    seed: int


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """True errors of matches, px, and what each uncertainty says of them."""

    errors: PerMatch
    scores: dict[str, PerMatch]


def evaluate(task: OwnTask) -> Judged:
    """The expected error under both laws, and what the matcher says itself."""
    matches, r = with_truth(task.exported)
    both = task.calibrations
    scores = {
        OURS: mixture.expected_abs_error(error_law(matches, both.paper)),
        "confidence": matches.doubt,
        "fine std": matches.fine_std.mean(axis=1),
        "coarse std": matches.coarse_std.mean(axis=1),
    }
    if both.ours.location is not None:
        law = error_law(matches, both.ours)
        scores[WITH_LOCATION] = mixture.expected_abs_error(law)
    return Judged(np.linalg.norm(r, axis=1), scores)


def evaluate_native(task: NativeTask) -> Judged:
    """The uncertainty that a file states."""
    own = task.exported.matches()
    sizes = own.source_size, own.target_size
    matches, uncertainty = read_native(task.file, sizes)
    if len(matches) > paper.NATIVE_SAMPLE:
        rng = np.random.default_rng(task.seed)
        some = rng.choice(len(matches), paper.NATIVE_SAMPLE, replace=False)
        matches, uncertainty = matches.take(some), uncertainty[some]
    r = residual_of(task.exported, matches)
    finite = np.isfinite(r).all(axis=1)
    errors = np.linalg.norm(r[finite], axis=1)
    return Judged(errors, {"its own": uncertainty[finite]})
