"""What a bench returns, and its tables as text, CSV and JSON."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semisure.io.images import Image
from semisure.report.palettes import Palette
from semisure.types import Mask, Matches, PerAxis, PerMatch, Points, Vector

Cell = str | int | float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with its head; None is an empty cell, floats show `digits` decimals."""

    name: str  # of its files
    title: str
    head: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    digits: int = 2

    def shown(self, cell: Cell) -> str:
        if cell is None or (isinstance(cell, float) and np.isnan(cell)):
            return "–"
        return f"{cell:.{self.digits}f}" if isinstance(cell, float) else str(cell)

    def cells(self) -> list[list[str]]:
        """Head and rows as text."""
        body = [[self.shown(cell) for cell in row] for row in self.rows]
        return [list(self.head), *body]

    def text(self) -> str:
        """Aligned columns: the first to the left, numbers to the right."""
        lines = self.cells()
        widths = [max(len(line[k]) for line in lines) for k in range(len(self.head))]
        padded = [
            "  ".join(
                cell.ljust(width) if k == 0 else cell.rjust(width)
                for k, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in lines
        ]
        rule = "-" * max(map(len, padded))
        return "\n".join([self.title, padded[0], rule, *padded[1:], ""])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Panel:
    """One set of axes: lines by label, each x and y; bars where x are names."""

    title: str
    xlabel: str
    ylabel: str
    lines: Mapping[str, tuple[Vector | Sequence[str], Vector]]
    xscale: str = "linear"
    yscale: str = "linear"
    diagonal: bool = False  # draw y = x, where prediction equals observation
    counts: Mapping[str, Vector] = field(default_factory=dict)  # areas of markers


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Radar:
    """A spoke for each name, a closed line for each label."""

    title: str
    spokes: Sequence[str]
    lines: Mapping[str, Vector]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class MatchPanel:
    """Two images with their matches, coloured by expected error."""

    title: str
    image0: Image
    image1: Image
    matches: Matches
    expected: PerMatch  # px
    palette: Palette = "semisure"
    grey: Mask | None = None  # matches without a colour


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class EllipsePanel:
    """Ellipses about points of an image, `magnified` times."""

    title: str
    image: Image
    points: Points
    half_axes: PerAxis  # px
    expected: PerMatch  # px
    magnified: float


AnyPanel = Panel | Radar | MatchPanel | EllipsePanel


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Tables, the rows behind them, figures (a name and its panels), and remarks."""

    tables: Sequence[Table]
    rows: Sequence[dict[str, Any]] = ()
    figures: Mapping[str, Sequence[AnyPanel]] = field(default_factory=dict)
    columns: Mapping[str, int] = field(default_factory=dict)  # of panels, by figure
    notes: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)  # further ones, by name


def where(rows: Sequence[dict[str, Any]], **values: str) -> list[dict[str, Any]]:
    """The rows that hold these values.

    >>> where([{"matcher": "daisy"}, {"matcher": "edm"}], matcher="edm")
    [{'matcher': 'edm'}]
    """
    return [row for row in rows if all(row[k] == v for k, v in values.items())]


def as_csv(rows: Sequence[Sequence[Any]]) -> bytes:
    """Rows as CSV; None is an empty field, infinity is `inf`."""
    buffer = io.StringIO(newline="")
    csv.writer(buffer, lineterminator="\n").writerows(rows)
    return buffer.getvalue().encode()


def rows_as_csv(rows: Sequence[dict[str, Any]]) -> bytes:
    """Rows of named values, with a head of all names."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return as_csv([names, *([row.get(name) for name in names] for row in rows)])


def plain(value: Any) -> Any:
    """The value as JSON can hold it: NaN and infinity become null."""
    if isinstance(value, dict):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not np.isfinite(value):
        return None
    return value
