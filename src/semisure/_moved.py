"""Modules that version 0.1.0 documented under another name, which still works.

Each old name gives the new module itself and a DeprecationWarning. The names go in 1.0.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_loader
from types import ModuleType

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


class _Alias(Loader):
    """Loads a module by giving another one."""

    def __init__(self, old: str, new: str) -> None:
        self.old, self.new = old, new
        self.own: ModuleSpec | None = None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
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


class _Finder(MetaPathFinder):
    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        new = MODULES.get(fullname.removeprefix(_PREFIX))
        if new is None or not fullname.startswith(_PREFIX):
            return None
        return spec_from_loader(fullname, _Alias(fullname, _PREFIX + new))


def install() -> None:
    """Let imports fall back on the table above; costs nothing until one does."""
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.append(_Finder())
