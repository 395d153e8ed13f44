"""Pairs divided for cross-validation; those that share an image stay together."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from typing import TypeVar

import numpy as np

from semisure.bench.exported import Exported
from semisure.errors import InputError
from semisure.types import Labels

Some = TypeVar("Some")
FOLDS = 5


def fold_of(exported: Sequence[Exported]) -> Labels:
    """The fold of each pair."""
    return folds([one.group for one in exported], FOLDS)


def folds(groups: Sequence[str], count: int) -> Labels:
    """The fold of each pair: groups stay whole, dealt out by their digest.

    >>> folds(["a", "a", "b"], 5).tolist()
    [1, 1, 0]
    """
    names = sorted(set(groups), key=lambda g: hashlib.sha256(g.encode()).digest())
    if len(names) < 2:
        raise InputError(
            f"Cross-validation needs pairs of at least 2 sequences, but got "
            f"{len(names)}; give a calibration file instead."
        )
    place = {name: k % count for k, name in enumerate(names)}
    return np.array([place[g] for g in groups], dtype=np.int64)


def halves(groups: Sequence[str]) -> Labels:
    """0 or 1 for each pair: groups stay whole, each goes to the smaller half.

    >>> halves(["a", "b", "b", "b", "c"]).tolist()
    [1, 0, 0, 0, 1]
    """
    size = Counter(groups)
    total, place = [0, 0], {}
    for name in sorted(size, key=lambda name: (-size[name], name)):
        place[name] = int(total[1] < total[0])
        total[place[name]] += size[name]
    return np.array([place[name] for name in groups], dtype=np.int64)


def inside(pairs: Sequence[Some], fold: Labels, k: int) -> list[Some]:
    """The pairs of fold `k`."""
    return [pair for pair, f in zip(pairs, fold, strict=True) if f == k]


def outside(pairs: Sequence[Some], fold: Labels, k: int) -> list[Some]:
    """The pairs of all other folds."""
    return [pair for pair, f in zip(pairs, fold, strict=True) if f != k]


def validated(exported: Sequence[Exported]) -> str:
    """How laws fitted on the same data are judged, for a remark."""
    count = min(FOLDS, len({one.group for one in exported}))
    return f"{count}-fold cross-validation by sequence or scene"
