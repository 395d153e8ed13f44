"""What the two benches of poses share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SHIFTED = "base − shift"  # the estimator on matches less their location


def labels(roots: Sequence[Path]) -> list[str]:
    """A name for each folder: its own, with its parent's where two share it.

    >>> labels([Path("a/x"), Path("b/x"), Path("b/y")])
    ['a/x', 'b/x', 'y']
    """
    names = [root.name for root in roots]
    return [
        root.name if names.count(root.name) == 1 else "/".join(root.parts[-2:])
        for root in roots
    ]


def images_told(size: tuple[int, int] | None) -> str:
    """At what size images were matched, for a remark."""
    return "as they are" if size is None else f"at {size[0]} × {size[1]}"
