"""Modules that version 0.1.0 documented under another name, which still works.

Each old name gives the new module itself and a DeprecationWarning. The names go in 1.0.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False  # not typing's: importing semisure takes a quarter of the time
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

MODULES = {
    "calibrate": "calibration",
    "colmap": "maps.colmap",
    "covariance": "refit.covariance",
    "datasets.finding": "datasets.layouts",
    "datasets.located": "datasets.query_maps",
    "files": "io.files",
    "hloc": "maps.hloc",
    "images": "io.images",
    "posefit": "refit.pose",
    "relative": "refit.relative",
    "variants": "error_laws",
    "world": "types.world",
}
_PREFIX = "semisure."


class _Alias:
    """A loader that gives another module than the one it was asked for."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new
        self.own: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        import warnings
        from importlib import import_module

        warnings.warn(
            f"{self.old} is now {self.new}; the old name goes in version 1.0.",
            DeprecationWarning,
            stacklevel=2,
        )
        module = import_module(self.new)
        self.own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        # The import system has put the alias's specification on it: give its own back.
        module.__spec__ = self.own


class _Finder:
    """What Python asks when a module of ours is nowhere to be found."""

    @staticmethod
    def find_spec(name: str, path: object, target: object = None) -> ModuleSpec | None:
        new = MODULES.get(name.removeprefix(_PREFIX))
        if new is None or not name.startswith(_PREFIX):
            return None
        from importlib.machinery import ModuleSpec

        loader: Any = _Alias(name, _PREFIX + new)
        return ModuleSpec(name, loader)


def install() -> None:
    """Let imports fall back on the table above; costs nothing until one does."""
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)
