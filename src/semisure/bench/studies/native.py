"""Supplement B.5: how well an uncertainty singles out a matcher's large errors.

Each matcher is judged on its own matches: AUROC of the event that the true error ‖r‖₂
exceeds 8, 32, 64 or 128 px, and how often it does, at 1184 × 896 px. Beside the
expected error stands what a matcher says itself: its confidence, its fine and coarse
spread.

Other matchers take part by files, one folder each (``--native "RoMa v2=FOLDER"``), with
``PAIR.npz`` for each pair: ``source`` and ``target`` (n × 2 px, pixel centres at
integers), ``uncertainty`` (n, larger is less certain, any unit) and ``source_size``,
``target_size`` (width, height of the images those pixels belong to). Of more than 8,500
matches of a pair, 8,500 are drawn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from semisure import mixture
from semisure.bench import paper
from semisure.bench.match_cache import Exported, moved
from semisure.bench.outcome import Cell, Outcome, Panel, Table
from semisure.bench.study import Calibrations, Study, residual_of, with_truth
from semisure.error_laws import error_law
from semisure.errors import FileError, InputError
from semisure.io.files import load_arrays
from semisure.metrics import auroc
from semisure.types import Array, FloatArray, Matches

OURS = "expected error"
WITH_LOCATION = "expected error, with location"
Scores = dict[str, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """One pair of a matcher, or of another whose file is given."""

    exported: Exported
    laws: Calibrations | None = None
    file: Path | None = None
    seed: int = 0


def evaluate(task: Task) -> tuple[FloatArray, Scores]:
    """True errors (n,) px of the matches of a pair, and each uncertainty of them."""
    if task.file is not None:
        return _foreign(task, task.file)
    matches, r = with_truth(task.exported)
    assert task.laws is not None
    paper_law, our_law = (
        error_law(matches, c) for c in (task.laws.paper, task.laws.ours)
    )
    scores = {
        OURS: mixture.expected_abs_error(paper_law),
        "confidence": matches.doubt,
        "fine std": matches.fine_std.mean(axis=1),
        "coarse std": matches.coarse_std.mean(axis=1),
    }
    if task.laws.ours.location is not None:
        scores[WITH_LOCATION] = mixture.expected_abs_error(our_law)
    return np.linalg.norm(r, axis=1), scores


def _foreign(task: Task, file: Path) -> tuple[FloatArray, Scores]:
    matches, uncertainty = read_native(file, _size(task.exported))
    if len(matches) > paper.NATIVE_SAMPLE:
        rng = np.random.default_rng(task.seed)
        some = rng.choice(len(matches), paper.NATIVE_SAMPLE, replace=False)
        matches, uncertainty = matches.take(some), uncertainty[some]
    r = residual_of(task.exported, matches)
    kept = np.isfinite(r).all(axis=1)
    return np.linalg.norm(r[kept], axis=1), {"its own": uncertainty[kept]}


def _size(exported: Exported) -> tuple[tuple[int, int], tuple[int, int]]:
    matches = exported.matches()
    return matches.source_size, matches.target_size


def read_native(
    file: Path, sizes: tuple[tuple[int, int], tuple[int, int]]
) -> tuple[Matches, FloatArray]:
    """The matches of a file, brought to images of `sizes`, and their uncertainties."""
    if not file.is_file():
        raise FileError(
            f"There is no {file}: expected an NPZ with source, target, uncertainty, "
            "source_size and target_size for each pair."
        )
    arrays = load_arrays(file)
    names = ("source", "target", "uncertainty", "source_size", "target_size")
    missing = [name for name in names if name not in arrays]
    if missing:
        raise FileError(f"{file} lacks {', '.join(missing)}.")
    n = len(arrays["source"])
    try:
        given = Matches(
            source=arrays["source"],
            target=arrays["target"],
            confidence=np.ones(n),
            fine_std=np.ones((n, 2)),
            coarse_std=np.ones((n, 2)),
            source_size=arrays["source_size"],  # type: ignore[arg-type]
            target_size=arrays["target_size"],  # type: ignore[arg-type]
        )
    except InputError as error:
        raise FileError(f"{file} cannot be used: {error}") from None
    matches = replace(
        given,
        source=moved(given.source, given.source_size, sizes[0]),
        target=moved(given.target, given.target_size, sizes[1]),
        source_size=sizes[0],
        target_size=sizes[1],
    )
    return matches, _numbers(arrays["uncertainty"], n, file)


def _numbers(values: Array, n: int, file: Path) -> FloatArray:
    if values.shape != (n,) or not np.isfinite(values).all():
        raise FileError(
            f"{file} must hold {n} finite uncertainties, but they have shape "
            f"{values.shape} or are not finite."
        )
    return np.asarray(values, dtype=np.float64)


def native(study: Study) -> Outcome:
    """The table by matcher and uncertainty, and AUROC over the thresholds."""
    size = study.options.size or paper.NATIVE_SIZE
    printed: list[list[Cell]] = []
    for name, numbers in paper.NATIVE.items():
        printed.append([f"{name}, paper", "AUROC", *numbers[0], None])
        printed.append([f"{name}, paper", "errors", *numbers[1], None])
    rows: list[dict[str, Any]] = []
    panels, notes = [], []
    exported: Sequence[Exported] = ()
    for matcher in study.options.matchers:
        exported = study.exported(matcher, size)
        laws, said = study.calibrations(matcher, exported)
        tasks = [Task(e, law) for e, law in zip(exported, laws, strict=True)]
        found = study.map(evaluate, tasks, f"Errors, {matcher}")
        lines = _judge(matcher, exported, found, printed, rows)
        panels.append(_panel(matcher, lines))
        notes.append(said)
    for name, folder in study.options.native.items():
        seed = study.options.seed
        tasks = [
            Task(e, file=folder / f"{e.name}.npz", seed=seed + k)
            for k, e in enumerate(exported)
        ]
        found = study.map(evaluate, tasks, f"Errors, {name}")
        lines = _judge(name, exported, found, printed, rows)
        panels.append(_panel(name, lines))
    if not study.options.native:
        notes.append(
            "No other matcher's uncertainties were given: --native NAME=FOLDER."
        )
    table = Table(
        name="native",
        title=f"Large errors at {size[0]} × {size[1]}: AUROC (%) of an uncertainty, "
        "and their share (%); the paper's: supplement B.5, HPatches",
        head=["", "", *(f">{t}px" for t in paper.NATIVE_PX), "matches"],
        rows=printed,
    )
    return Outcome(tables=[table], rows=rows, figures={"native": panels}, notes=notes)


def _judge(
    name: str,
    exported: Sequence[Exported],
    found: Sequence[tuple[FloatArray, Scores]],
    printed: list[list[Cell]],
    rows: list[dict[str, Any]],
) -> Mapping[str, FloatArray]:
    """Adds a matcher's lines to the table, and its pairs to the rows."""
    errors = np.concatenate([e for e, _ in found])
    lines = {}
    for score in found[0][1]:
        values = np.concatenate([scores[score] for _, scores in found])
        areas = [100.0 * auroc(values, errors > t) for t in paper.NATIVE_PX]
        printed.append([name, score, *areas, len(errors)])
        lines[score] = np.array(areas)
    rates = [100.0 * float(np.mean(errors > t)) for t in paper.NATIVE_PX]
    printed.append([name, "errors", *rates, len(errors)])
    for one, (e, _) in zip(exported, found, strict=True):
        shares = {f"share >{t}px": _share(e, t) for t in paper.NATIVE_PX}
        rows.append({"matcher": name, "pair": one.name, "matches": len(e), **shares})
    return lines


def _share(errors: FloatArray, threshold: float) -> float | None:
    return float(np.mean(errors > threshold)) if len(errors) else None


def _panel(name: str, lines: Mapping[str, FloatArray]) -> Panel:
    x = np.array(paper.NATIVE_PX, dtype=np.float64)
    return Panel(
        title=name,
        xlabel="true error above, px",
        ylabel="AUROC, %",
        xscale="log",
        lines={label: (x, y) for label, y in lines.items()},
    )
