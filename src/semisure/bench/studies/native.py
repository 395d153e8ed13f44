"""Supplement B.5: how well an uncertainty singles out a matcher's large errors.

Each matcher is judged on its own matches: AUROC of the event that the true error ‖r‖₂
exceeds 8, 32, 64 or 128 px, and how often it does, at 1184 × 896 px. The
expected error is compared with the matcher's own confidence and spreads. Other
matchers take part by a folder (``native`` in ``--config``) with ``PAIR.npz`` for each
pair, which :func:`export_native` writes for any function that matches two images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from semisure.bench.exported import (
    Exported,
    Size,
    images_of,
    moved,
    residual_of,
    with_truth,
)
from semisure.bench.outcome import Lines, Outcome, Table
from semisure.bench.study import Study, Task
from semisure.datasets import evenly
from semisure.datasets.layouts import read_pairs
from semisure.errors import FileError, InputError
from semisure.io.cache import Row
from semisure.io.files import load_arrays, write_arrays
from semisure.io.images import Image, read_image, resized
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.metrics import auroc
from semisure.types import Matches, PerMatch
from semisure.types.checks import as_floats, as_size

# Supplement, tab:native_uncertainty: HPatches; AUROC (%) of large errors and their
# share (%), at 8, 32, 64, 128 px.
SIZE = (1184, 896)
LARGE_PX = (8, 32, 64, 128)
PAPER: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "PDC-Net+": ((89.73, 93.54, 94.19, 95.13), (9.58, 5.52, 4.21, 2.77)),
    "RoMa v2": ((95.82, 96.60, 96.49, 96.24), (8.52, 6.18, 5.43, 4.50)),
    "EfficientLoFTR": ((88.64, 95.73, 96.87, 97.88), (2.70, 0.51, 0.32, 0.20)),
}
SAMPLE = 8500  # of a dense matcher's matches of a pair
_ARRAYS = ("source", "target", "uncertainty", "source_size", "target_size")


@dataclass(frozen=True, slots=True, eq=False)
class Judged:
    """True errors of matches, px, and each uncertainty of them."""

    errors: PerMatch
    scores: dict[str, PerMatch]


def evaluate(task: Task) -> Judged:
    """The expected error under both laws, and the matcher's own cues."""
    both = task.calibrations
    matches, residual = with_truth(task.exported)
    scores = {
        "expected error": mixture.expected_abs_error(error_law(matches, both.paper)),
        "confidence": matches.doubt,
        "fine std": matches.fine_std.mean(axis=1),
        "coarse std": matches.coarse_std.mean(axis=1),
    }
    if both.ours.location is not None:
        law = error_law(matches, both.ours)
        scores["expected error, with location"] = mixture.expected_abs_error(law)
    return Judged(np.linalg.norm(residual, axis=1), scores)


def evaluate_native(task: tuple[Exported, Path]) -> Judged:
    """The uncertainty that another matcher's file states."""
    exported, file = task
    own = exported.matches()
    matches, uncertainty = read_native(file, (own.source_size, own.target_size))
    residual = residual_of(exported, matches)
    finite = np.isfinite(residual).all(axis=1)
    errors = np.linalg.norm(residual[finite], axis=1)
    return Judged(errors, {"its own": uncertainty[finite]})


def native(study: Study) -> Outcome:
    """The table by matcher and uncertainty."""
    options = study.options
    size = options.size or SIZE
    printed: Lines = []
    for name, (areas, shares) in PAPER.items():
        printed.append([f"{name}, paper", "AUROC", *areas, None])
        printed.append([f"{name}, paper", "errors", *shares, None])
    exported: Sequence[Exported] = ()
    rows: list[Row] = []
    for matcher, label, _ in study.by_matcher():
        exported = study.exported(matcher, size)
        tasks = study.tasks(matcher, exported)
        judged = study.map(evaluate, tasks, f"Errors, {matcher}")
        printed += _lines(label, judged)
        rows += [_row(label, *one) for one in zip(exported, judged, strict=True)]
    for name, folder in options.native.items():
        files = [(pair, folder / f"{pair.name}.npz") for pair in exported]
        judged = study.map(evaluate_native, files, f"Errors, {name}")
        printed += _lines(name, judged)
        rows += [_row(name, *one) for one in zip(exported, judged, strict=True)]
    if not options.native:
        study.note("No other matcher's uncertainties were given: native in --config.")
    table = Table(
        name="native",
        title=f"Large errors at {size[0]} × {size[1]}: AUROC (%) of an uncertainty, "
        "and their share (%); the paper's: supplement B.5, HPatches",
        head=["", "", *(f">{t}px" for t in LARGE_PX), "matches"],
        rows=printed,
    )
    return Outcome(tables=[table], rows=rows)


def _lines(name: str, pairs: Sequence[Judged]) -> Lines:
    """AUROC of each uncertainty of a matcher, then the shares of large errors."""
    errors = np.concatenate([pair.errors for pair in pairs])
    lines: Lines = []
    for score in pairs[0].scores:
        values = np.concatenate([pair.scores[score] for pair in pairs])
        areas = [100.0 * auroc(values, errors > t) for t in LARGE_PX]
        lines.append([name, score, *areas, len(errors)])
    shares = [100.0 * float(np.mean(errors > t)) for t in LARGE_PX]
    return [*lines, [name, "errors", *shares, len(errors)]]


def _row(name: str, pair: Exported, judged: Judged) -> Row:
    """The shares of large errors of a pair."""
    errors = judged.errors
    shares = {
        f"share >{t}px": float(np.mean(errors > t)) if len(errors) else None
        for t in LARGE_PX
    }
    return {"matcher": name, "pair": pair.name, "matches": len(errors), **shares}


def read_native(file: Path, sizes: tuple[Size, Size]) -> tuple[Matches, PerMatch]:
    """The matches of a file, brought to images of `sizes`, and their uncertainties."""
    arrays = load_arrays(file)
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        raise FileError(f"{file} lacks {', '.join(missing)}.")
    n = len(arrays["source"])
    try:
        source, target = (as_floats(k, arrays[k], (n, 2)) for k in _ARRAYS[:2])
        uncertainty = as_floats("uncertainty", arrays["uncertainty"], (n,))
        before = [as_size(k, arrays[k]) for k in _ARRAYS[3:]]
        matches = Matches(
            source=moved(source, before[0], sizes[0]),
            target=moved(target, before[1], sizes[1]),
            confidence=np.ones(n),
            fine_std=np.ones((n, 2)),  # the file has no cues
            coarse_std=np.ones((n, 2)),
            source_size=sizes[0],
            target_size=sizes[1],
        )
    except InputError as error:
        raise FileError(f"{file} cannot be used: {error}") from None
    return matches, uncertainty


# Points of both images (n × 2 px, centres at integers), and an uncertainty for each, in
# any unit, larger for less certain matches.
NativeMatcher = Callable[[Image, Image], tuple[ArrayLike, ArrayLike, ArrayLike]]


def export_native(
    data: str | Path,
    folder: str | Path,
    match: NativeMatcher,
    *,
    size: Size = SIZE,
    sample: int = SAMPLE,
    limit: int | None = None,
    seed: int = 0,
) -> int:
    """Write a file for each pair of a data set, and return how many.

    Both images are resized to `size`; of more matches than `sample`, `sample` are drawn
    uniformly. Pairs whose file exists are not matched again.
    """
    pairs = evenly(read_pairs(data), limit)
    for k, pair in enumerate(pairs):
        file = Path(folder) / f"{pair.name}.npz"
        if file.is_file():
            continue
        images = [resized(read_image(path), size) for path in images_of(pair)]
        parts = [np.asarray(part) for part in match(*images)]
        rng = np.random.default_rng([seed, k])
        index = np.sort(rng.permutation(len(parts[0]))[:sample])
        arrays = [part[index] for part in parts] + [np.array(size)] * 2
        write_arrays(file, dict(zip(_ARRAYS, arrays, strict=True)))
    return len(pairs)
