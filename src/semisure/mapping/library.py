"""The one place of this room that imports pycolmap, and pyceres beside it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from semisure.errors import MissingExtraError


def pycolmap(purpose: str = "COLMAP's database") -> Any:
    """The library, or one sentence about how to get it."""
    try:
        import pycolmap as library
    except ImportError:
        raise MissingExtraError("pycolmap", "sfm", purpose) from None
    return library


def pyceres() -> Any:
    """Ceres for Python, with which pycolmap's terms can be put into a problem."""
    try:
        import pyceres as library
    except ImportError:
        raise MissingExtraError(
            "pyceres", "sfm", "Bundle adjustment with covariances"
        ) from None
    return library


def reprojection_term(*arguments: Any) -> Any:
    """``pycolmap.cost_functions.ReprojErrorCost``, which needs pyceres."""
    from pycolmap.cost_functions import ReprojErrorCost

    return ReprojErrorCost(*arguments)


@contextmanager
def quiet() -> Iterator[None]:
    """Without COLMAP's log, but for its errors."""
    log = pycolmap().logging
    before, log.minloglevel = log.minloglevel, int(log.ERROR)
    try:
        yield
    finally:
        log.minloglevel = before
