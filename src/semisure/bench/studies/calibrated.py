"""Beyond the paper: whether laws hold in scenes that they have not seen.

:mod:`semisure.bench.scene_laws` describes the laws. For each scene: the share of true
residuals, per axis, inside the central 50 and 90 % intervals; the shares beyond 8 px,
predicted and observed; expected over observed |error| in the middle eight deciles of
the expected one; NLL per axis. Images are matched as they are unless a size is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from semisure.bench.chances import BARS
from semisure.bench.data import matched_at
from semisure.bench.interval_scores import NUMBERS, bars
from semisure.bench.outcome import Cell, Outcome, Panel, Table, where
from semisure.bench.scene_laws import evaluate
from semisure.bench.scene_tasks import tasks_of
from semisure.bench.study import Study

Rows = Sequence[dict[str, Any]]
_OFF = ("50 %", "90 %")
_BARS = ("coverage", "tail", "deciles")
_IF_RIGHT = [f"{bar}, if right" for bar in _BARS]
_ON_ALL = [f"{bar}, all %" for bar in _BARS]


def calibrated(study: Study) -> Outcome:
    """By matcher and scene, a line for each law; then how many scenes meet the bars."""
    tasks = [task for name in study.options.matchers for task in tasks_of(study, name)]
    answers = study.rows(evaluate, tasks, "Judging laws")
    table = Table(
        name="calibrated",
        title="Laws judged on scenes: coverage (%), tail beyond 8 px (%), expected / "
        "observed |error| in the middle eight deciles, NLL",
        head=["", "law", *NUMBERS, "pairs", "matches"],
        rows=[_line(answer) for answer in answers],
    )
    bar_table = Table(
        name="calibrated_bars",
        title="Scenes where a law meets the bars: coverage within 7 / 4 points, tail "
        "within a third, deciles within 30 %; on how many a law that is right in the "
        "mean would, since neighbours err together, and how likely on all (%); largest "
        "departure from 50 and 90 % (points)",
        head=["", "law", *_BARS, *_IF_RIGHT, *_ON_ALL, *_OFF, "scenes"],
        rows=bar_lines(answers),
    )
    note = f"Images {matched_at(study.options.size)}."
    return Outcome(
        tables=[table, bar_table],
        rows=[row for answer in answers for row in answer["rows"]],
        figures={"calibrated": panels(answers)},
        notes=[note],
    )


def _line(answer: dict[str, Any]) -> list[Cell]:
    name = f"{answer['matcher']}, {answer['data']}"
    numbers = [answer[key] for key in NUMBERS]
    return [name, answer["law"], *numbers, len(answer["rows"]), answer["matches"]]


def bar_lines(answers: Rows) -> list[list[Cell]]:
    """For each matcher, kind of scene and law, how many scenes meet each bar."""
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for answer in answers:
        if answer["NLL"] is not None:
            kind = "scenes in depth" if answer["in_depth"] else "planes"
            key = f"{answer['matcher']}, {kind}", answer["law"]
            groups.setdefault(key, []).append(answer)
    lines: list[list[Cell]] = []
    for (name, law), mine in groups.items():
        met = [bars(answer) for answer in mine]
        counts = [sum(one.covers for one in met), sum(one.tail for one in met)]
        counts.append(sum(one.deciles for one in met))
        hope = np.array([[answer["if right"][bar] for bar in BARS] for answer in mine])
        right = [*hope.sum(axis=0).tolist(), *(100.0 * hope.prod(axis=0)).tolist()]
        largest = max(one.off_50 for one in met), max(one.off_90 for one in met)
        lines.append([name, law, *counts, *right, *largest, len(met)])
    return lines


def panels(answers: Rows) -> list[Panel]:
    """Observed over expected errors, a panel for each scene, a line for each law."""
    titles = dict.fromkeys((answer["matcher"], answer["data"]) for answer in answers)
    return [
        Panel(
            title=f"{matcher}, {data}",
            xlabel="expected error, px",
            ylabel="observed error, px",
            lines={
                answer["law"]: _deciles(answer)
                for answer in where(answers, matcher=matcher, data=data)
                if answer["matches"]
            },
            xscale="log",
            yscale="log",
            diagonal=True,
        )
        for matcher, data in titles
    ]


def _deciles(answer: dict[str, Any]) -> tuple[Any, Any]:
    deciles = answer["deciles"]
    return np.array(deciles["expected"]), np.array(deciles["observed"])
