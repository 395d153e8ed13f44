"""What people see: numbers with their nouns, tables, pictures, progress."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from semisure.errors import MissingExtraError
from semisure.types.arrays import Array

if TYPE_CHECKING:
    from pandas import DataFrame

Tick: TypeAlias = Callable[[int, int], None]  # called with (done, total)
Begin: TypeAlias = Callable[[str], Tick]  # called with the name of each stage


def silent(done: int, total: int) -> None:
    """A tick that does nothing."""


def quietly(stage: str) -> Tick:
    """Begin a stage without showing it."""
    return silent


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


def as_dataframe(columns: Mapping[str, Array]) -> DataFrame:
    """The columns as a table of pandas, which is no dependency of semisure."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise MissingExtraError("pandas", "pandas", "to_dataframe()") from None
    return DataFrame(dict(columns))


def from_report(name: str) -> Any:
    """A function of `report`, the room that draws, loaded at the first picture.

    The only import from a room above: people expect `result.plot()`, and matplotlib
    must not be needed before.
    """
    return getattr(import_module("semisure.report.pair"), name)
