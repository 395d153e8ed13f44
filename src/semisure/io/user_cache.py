"""Where semisure keeps what it may fetch or compute again: weights, calibrations."""

from __future__ import annotations

import os
from pathlib import Path

CACHE_VARIABLE = "SEMISURE_CACHE"


def cache_folder() -> Path:
    """$SEMISURE_CACHE, or a folder in the user's cache."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen) if chosen else user_cache() / "semisure"


def user_cache() -> Path:
    """$XDG_CACHE_HOME, or ~/.cache."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
