"""Matchers by name; each is a file, imported when it is asked for.

A matcher is any callable of two uint8 images, (h, w) or (h, w, 3) RGB, that returns
:class:`semisure.types.Matches` in the images' own pixels.

==============  ====================  ==========  ========================
name            what                  licence     needs
==============  ====================  ==========  ========================
``daisy``       the embedded matcher  Apache-2.0  nothing
``xfeat-star``  XFeat* by kornia      Apache-2.0  extra ``torch``, weights
==============  ====================  ==========  ========================
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

from semisure.errors import InputError
from semisure.types import Matcher

MATCHER_NAMES: tuple[str, ...] = ("daisy", "xfeat-star")


def load_matcher(name: str = "daisy", *, max_side: int | None = None) -> Matcher:
    """The matcher called `name`; `max_side` limits the images it looks at, in px."""
    if name not in MATCHER_NAMES:
        raise InputError(
            f"matcher must be one of {', '.join(MATCHER_NAMES)}, but is {name!r}."
        )
    asked: dict[str, Any] = {} if max_side is None else {"max_side": max_side}
    if name == "xfeat-star":
        from semisure.matchers.xfeat import XFeatStar

        return XFeatStar(**asked)
    from semisure.matchers.daisy import Daisy

    return Daisy(**asked)


@dataclass(frozen=True, slots=True)
class MatcherStatus:
    """A matcher as `semisure matchers` lists it."""

    name: str
    licence: str
    size: int  # bytes of weights
    source: str
    status: str


def describe_matchers() -> list[MatcherStatus]:
    """Every matcher with its licence and whether it can run here, nothing loaded."""
    from semisure.matchers._weights import locate
    from semisure.matchers.xfeat import WEIGHTS

    rows = [MatcherStatus("daisy", "Apache-2.0", 0, "built in", "ready")]
    missing = [p for p in ("torch", "kornia") if importlib.util.find_spec(p) is None]
    found = locate(WEIGHTS)
    if missing:
        status = "needs: pip install 'semisure[torch]'"
    elif found is None:
        status = "weights are downloaded at first use"
    else:
        status = f"ready, weights in {found[1]}"
    source = WEIGHTS.url.split("/raw/")[0].removeprefix("https://")
    row = MatcherStatus("xfeat-star", WEIGHTS.licence, WEIGHTS.size, source, status)
    return [*rows, row]
