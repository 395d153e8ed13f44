"""Pairs to learn from, matched by an engine, and kept for a run that goes on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from semisure.calibrate.pair_store import PairStore, Residuals
from semisure.engine import Engine, in_order
from semisure.types import Tick


@dataclass(frozen=True, slots=True)
class _Keeping:
    """A function whose pairs go to the store, where there is one, and else back."""

    function: Callable[[int], Residuals]
    store: PairStore

    def __call__(self, index: int) -> Residuals | None:
        if self.store.load(index) is not None:
            return None
        pair = self.store.save(index, self.function(index))
        return pair if self.store.folder is None else None


def kept_pairs(
    function: Callable[[int], Residuals],
    count: int,
    store: PairStore,
    engine: Engine,
    tick: Tick,
) -> list[Residuals]:
    """The pairs of 0, 1, … by `function`, those from the store that it has."""
    answers = in_order(engine, _Keeping(function, store), range(count), tick)
    return [answer or store.load(k) or function(k) for k, answer in enumerate(answers)]
