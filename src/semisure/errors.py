"""The exceptions of semisure.

::

    SemisureError
    ├── InputError          what you passed cannot be used (also a ValueError)
    │   └── FileError       a file is damaged, foreign, or from a newer semisure
    ├── FitError            a calibration could not be fitted to this data
    └── MissingExtraError   an optional package is not installed (also an ImportError)

A robust fit that finds no model is not an error but an outcome: see
:class:`semisure.types.Estimate`.
"""

from __future__ import annotations

import sys


class SemisureError(Exception):
    """Base of the tree above; its message is one sentence for the user.

    >>> issubclass(InputError, SemisureError)
    True
    """


class InputError(SemisureError, ValueError):
    """What must hold, what breaks it, what to do.

    >>> from semisure.estimators import RansacSettings
    >>> try:
    ...     RansacSettings(threshold_px=-1)
    ... except InputError as error:
    ...     print(error)
    threshold_px must be positive, but is -1.0.
    """


class FileError(InputError):
    """A file that is missing, damaged or of another kind."""


class FitError(SemisureError, RuntimeError):
    """A fit that is impossible with these data."""


class MissingExtraError(SemisureError, ImportError):
    """An optional dependency is missing; the message holds the pip line."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self._made_of = package, extra, purpose
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed. "
            f"{next_step(package, extra)}"
        )

    def __reduce__(self) -> tuple[type, tuple[str, str, str]]:
        """For worker processes, whose errors come back pickled."""
        return type(self), self._made_of


def in_short(error: BaseException) -> str:
    r"""A library's error message, to end a sentence of ours.

    >>> in_short(ValueError("It broke.\n  See the log."))
    'It broke. See the log'
    """
    words = " ".join(str(error).split())[:160].rstrip(". ")
    return words or type(error).__name__


def next_step(package: str, extra: str) -> str:
    """How to install a package of an extra."""
    if package == "kornia" and sys.version_info < (3, 11):
        return "Its version 0.9 needs Python 3.11 or newer."
    return f"Run: pip install 'semisure[{extra}]' (in a clone: '.[{extra}]')"
