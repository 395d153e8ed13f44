"""What a bench returns: tables, the rows behind them, and figures to be drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from semisure.io.cache import Row
from semisure.types import Vector

Cell = str | int | float | None
Lines = list[list[Cell]]


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
    xlabel: str = ""
    ylabel: str = ""
    lines: Mapping[str, tuple[Vector | Sequence[str], Vector]]
    xscale: str = "linear"
    yscale: str = "linear"
    diagonal: bool = False  # draw y = x, where prediction equals observation
    counts: Mapping[str, Vector] = field(default_factory=dict)  # areas of markers
    radar: bool = False  # a spoke for each name


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PhotoPanel:
    """One photo, or two side by side, with what is drawn over them into axes."""

    title: str
    sizes: Sequence[tuple[int, int]]  # width, height of the photos
    draw: Callable[[Any], None]

    @property
    def height(self) -> float:
        """As a share of the width."""
        return max(h for _, h in self.sizes) / sum(w for w, _ in self.sizes)


AnyPanel = Panel | PhotoPanel


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Tables, the rows behind them, figures (a name and its panels), and remarks."""

    tables: Sequence[Table]
    rows: Sequence[Row] = ()
    figures: Mapping[str, Sequence[AnyPanel]] = field(default_factory=dict)
    columns: Mapping[str, int] = field(default_factory=dict)  # of panels, by figure
    notes: Sequence[str] = ()
    files: Mapping[str, bytes] = field(default_factory=dict)  # further ones, by name


def where(rows: Sequence[Row], **values: str) -> list[Row]:
    """The rows that hold these values.

    >>> where([{"matcher": "daisy"}, {"matcher": "edm"}], matcher="edm")
    [{'matcher': 'edm'}]
    """
    return [row for row in rows if all(row[k] == v for k, v in values.items())]
