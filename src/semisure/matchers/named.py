"""A matcher as its name and settings, which can be sent to any process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from semisure.matchers import load_matcher
from semisure.types import Matcher, Matches


@dataclass(frozen=True, slots=True)
class NamedMatcher:
    """Loaded once in each process, when it is first called.

    >>> import pickle
    >>> matcher = pickle.loads(pickle.dumps(NamedMatcher("daisy", max_side=320)))
    >>> matcher.loaded().max_side
    320
    """

    name: str
    max_side: int | None = None
    device: str | None = None
    weights: Path | None = None
    refine: str | None = None

    def __call__(self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]) -> Matches:
        return self.loaded()(image0, image1)

    def loaded(self) -> Matcher:
        """The matcher itself."""
        return _loaded(self, _state(self.weights))


def _state(file: Path | None) -> tuple[int, int] | None:
    """What tells a weights file from what it was before."""
    if file is None or not file.is_file():  # the matcher says what is wrong
        return None
    status = file.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=2)
def _loaded(named: NamedMatcher, weights: tuple[int, int] | None) -> Matcher:
    return load_matcher(
        named.name,
        max_side=named.max_side,
        device=named.device,
        weights=named.weights,
        refine=named.refine,
    )
