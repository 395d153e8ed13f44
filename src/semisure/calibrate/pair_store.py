"""Finished pairs on disk, from which an interrupted calibration goes on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from semisure.__about__ import __version__
from semisure.errors import FileError, InputError
from semisure.io.atomic import write_json
from semisure.io.files import load_arrays, matches_from, save_matches
from semisure.matchers import NamedMatcher, identity
from semisure.types import Matcher, Matches, PerAxis

Residuals = tuple[Matches, PerAxis]  # NaN where the truth is unknown


def without_truth(matches: Matches) -> Residuals:
    """Matches whose errors are unknown."""
    return matches, np.full_like(matches.target, np.nan)


def described(matcher: Matcher) -> str:
    """The matcher with its settings if it is a dataclass, else its name."""
    if isinstance(matcher, NamedMatcher):
        matcher = matcher.loaded()
    if is_dataclass(matcher):
        return repr(matcher)
    return str(getattr(matcher, "__qualname__", type(matcher).__name__))


def identified(matcher: Matcher) -> dict[str, str]:
    """What decides the matcher's answers, or a sentence for one that does not say."""
    decided_by = identity(matcher)
    if decided_by is None:
        raise InputError(
            "A cache must know what decides the matcher's answers, but "
            f"{described(matcher)} does not say: give it an attribute `fingerprint`, "
            "a text that changes with its weights and settings, or leave out the cache."
        )
    return decided_by


class PairStore:
    """A folder of pairs, named after everything that decides them; or nowhere."""

    def __init__(self, folder: Path | None, made_of: Mapping[str, Any]) -> None:
        self.folder = None
        if folder is None:
            return
        made_of = {**made_of, "semisure": __version__}
        text = json.dumps(made_of, sort_keys=True)
        self.folder = folder / hashlib.sha256(text.encode()).hexdigest()[:16]
        write_json(self.folder / "made_of.json", made_of)

    def _path(self, index: int) -> Path:
        assert self.folder is not None
        return self.folder / f"pair_{index:05d}.npz"

    def load(self, index: int) -> Residuals | None:
        """A stored pair, or None if there is none or its file is damaged."""
        if self.folder is None or not self._path(index).exists():
            return None
        try:
            arrays = load_arrays(self._path(index))
            return matches_from(arrays, self._path(index)), arrays["residual"]
        except (FileError, KeyError):
            return None

    def save(self, index: int, pair: Residuals) -> Residuals:
        """Store a pair, and return it."""
        if self.folder is not None:
            save_matches(pair[0], self._path(index), residual=pair[1])
        return pair
