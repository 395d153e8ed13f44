"""A store as two tables: a row a pair, and a row a match."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from semisure.io.atomic import appearing_whole
from semisure.types import PerMatch
from semisure.types.pair_records import PairRecord, PairSummary

PAIR_COLUMNS = (
    *("image0", "image1", "state", "matches", "probability", "kind"),
    *(f"m{row}{column}" for row in range(3) for column in range(4)),
    "reasons",
)
MATCH_COLUMNS = (
    *("image0", "image1", "x0", "y0", "x1", "y1", "confidence"),
    *("weight", "expected_px"),
)


def write_pairs(path: Path, pairs: Iterable[PairSummary]) -> None:
    """States, verdicts and models of all pairs."""
    _write(path, PAIR_COLUMNS, (_pair_row(pair) for pair in pairs))


def write_matches(path: Path, pairs: Iterable[PairRecord]) -> None:
    """All matches as the matcher gave them, and what is said of each."""
    _write(path, MATCH_COLUMNS, (row for pair in pairs for row in _match_rows(pair)))


def _write(path: Path, head: tuple[str, ...], rows: Iterable[list[Any]]) -> None:
    with appearing_whole(path) as part, part.open("w", encoding="utf-8") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(head)
        table.writerows(rows)


def _pair_row(pair: PairSummary) -> list[Any]:
    model = [""] * 12  # 3 × 3 or 3 × 4
    if pair.model is not None:
        for (row, column), value in np.ndenumerate(pair.model):
            model[4 * row + column] = f"{value:.17g}"
    chance = f"{pair.probability:.6g}"
    verdict = [pair.state, pair.match_count, chance, pair.kind or ""]
    return [*pair.names, *verdict, *model, " ".join(pair.reasons)]


def _match_rows(pair: PairRecord) -> Iterator[list[Any]]:
    assert pair.matches is not None
    raw = pair.matches
    judged = _or_unknown(pair.weight, len(raw)), _or_unknown(pair.expected_px, len(raw))
    numbers = np.column_stack([raw.source, raw.target, raw.confidence, *judged])
    for row in numbers.tolist():
        cells = ("" if np.isnan(value) else f"{value:.6g}" for value in row)
        yield [*pair.names, *cells]


def _or_unknown(values: PerMatch | None, count: int) -> PerMatch:
    return np.full(count, np.nan) if values is None else values
