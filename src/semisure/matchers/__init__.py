"""Matchers by name; each is a file, imported when it is asked for.

A matcher is any callable of two uint8 images, (h, w) or (h, w, 3) RGB, that returns
:class:`semisure.types.Matches` in the images' own pixels.
"""

from __future__ import annotations

from semisure.errors import InputError
from semisure.types import Matcher

MATCHER_NAMES: tuple[str, ...] = ("daisy",)


def load_matcher(name: str = "daisy", *, max_side: int | None = None) -> Matcher:
    """The matcher called `name`; `max_side` limits the images it looks at, in px."""
    if name not in MATCHER_NAMES:
        raise InputError(
            f"matcher must be one of {', '.join(MATCHER_NAMES)}, but is {name!r}."
        )
    from semisure.matchers.daisy import Daisy

    return Daisy() if max_side is None else Daisy(max_side=max_side)
