"""How the types look at a prompt, in a notebook and as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from semisure.errors import MissingExtraError
from semisure.types.arrays import Array, FloatArray

if TYPE_CHECKING:
    from pandas import DataFrame

SHOWN_ROWS = 5  # of a table in a notebook


def counted(count: float, one: str, many: str | None = None) -> str:
    """A number with its noun.

    >>> counted(1, "match", "matches"), counted(1234, "match", "matches")
    ('1 match', '1,234 matches')
    >>> counted(2, "view")
    '2 views'
    """
    whole = f"{count:,.0f}"
    return f"{whole} {one if whole == '1' else many or one + 's'}"


def size_text(size: tuple[int, int]) -> str:
    """Width and height for people."""
    return f"{size[0]} × {size[1]}"


def matrix_text(array: Array) -> str:
    """A small matrix on lines of its own, with the digits that mean something."""
    return np.array2string(array, precision=8, suppress_small=False)


def html_table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table for a notebook; floats with five digits."""
    cells = "".join(f"<th>{escape(name)}</th>" for name in head)
    lines = [f"<tr>{cells}</tr>"] if cells else []
    for row in rows:
        shown = "".join(f"<td>{escape(_cell(value))}</td>" for value in row)
        lines.append(f"<tr>{shown}</tr>")
    return f"<table>{''.join(lines)}</table>"


def escape(text: str) -> str:
    """Text as HTML has it."""
    import html  # with a table of all names of characters, for notebooks alone

    return html.escape(text)


def html_model(model: FloatArray | None) -> str:
    """A model's matrix as a table; nothing without one."""
    return "" if model is None else html_table((), model.tolist())


def html_of(title: str, *parts: str) -> str:
    """A title with tables or pictures below it."""
    return f"<div><p><b>{escape(title)}</b></p>{''.join(parts)}</div>"


def _cell(value: object) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def html_columns(columns: Mapping[str, Array]) -> str:
    """The first rows of columns, and how many more there are."""
    total = len(next(iter(columns.values()), ()))
    shown = (column[:SHOWN_ROWS].tolist() for column in columns.values())
    rows = zip(*shown, strict=True)
    more = f"<p>{total - SHOWN_ROWS:,} more</p>" if total > SHOWN_ROWS else ""
    return html_table(list(columns), rows) + more


def as_dataframe(columns: Mapping[str, Array]) -> DataFrame:
    """The columns as a table of pandas, which is no dependency of semisure."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise MissingExtraError("pandas", "pandas", "to_dataframe()") from None
    return DataFrame(dict(columns))


def from_report(name: str) -> Any:
    """A function of the room above that draws, loaded when a picture is asked for.

    The one place that reaches upwards: `result.plot()` is where people look for it,
    and matplotlib must not be loaded, nor needed, before.
    """
    return getattr(import_module("semisure.report.pair"), name)
