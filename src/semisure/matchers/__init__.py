"""Matchers by name; each is a file, imported when it is asked for.

A matcher is any callable of two uint8 images, (h, w) or (h, w, 3) RGB, that returns
:class:`semisure.types.Matches` in the images' own pixels.

====================  ===============================  ===============  =============
name                  what                             refines          needs
====================  ===============================  ===============  =============
``daisy``             the embedded matcher             image 1          nothing
``xfeat-star``        XFeat* by kornia                 image 0          extra `torch`
``loftr``             LoFTR by kornia, outdoor         image 1          extra `torch`
``loftr-indoor``      the same, indoor                 image 1          extra `torch`
``loftr-indoor-new``  the same, encoding mended        image 1          extra `torch`
``eloftr``            EfficientLoFTR by transformers   image 1          extra `torch`
``gim-loftr``         GIM-LoFTR                        image 1          extra `torch`
``comatch``           CoMatch                          image 1          extra `torch`
``edm``               EDM                              either, by match extra `torch`
====================  ===============================  ===============  =============
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semisure.errors import InputError, next_step
from semisure.io.sources import digest, sources_of
from semisure.types import Matcher

if TYPE_CHECKING:
    from semisure.matchers._weights import Weights


@dataclass(frozen=True, slots=True)
class _Entry:
    module: str
    factory: str
    packages: tuple[str, ...] = ()
    variant: str = ""
    refines_source: bool = False  # of every match, or of some

    def weights(self) -> Weights | None:
        if not self.packages:
            return None
        known = importlib.import_module(f"{__name__}.{self.module}").WEIGHTS
        return known[self.variant] if self.variant else known


_KORNIA = ("torch", "kornia")
_ENTRIES = {
    "daisy": _Entry("daisy", "Daisy"),
    "xfeat-star": _Entry("xfeat", "XFeatStar", _KORNIA, refines_source=True),
    "loftr": _Entry("loftr", "LoFTR", _KORNIA, "outdoor"),
    "loftr-indoor": _Entry("loftr", "LoFTR", _KORNIA, "indoor"),
    "loftr-indoor-new": _Entry("loftr", "LoFTR", _KORNIA, "indoor-new"),
    "eloftr": _Entry("eloftr", "EfficientLoFTR", ("torch", "transformers")),
    "gim-loftr": _Entry("gim", "GimLoFTR", ("torch",)),
    "comatch": _Entry("comatch", "CoMatch", ("torch",)),
    "edm": _Entry("edm", "Edm", ("torch",), refines_source=True),
}

MATCHER_NAMES: tuple[str, ...] = tuple(_ENTRIES)


def check_name(name: str) -> None:
    """Raise unless there is a matcher of that name."""
    if name not in _ENTRIES:
        raise InputError(
            f"matcher must be one of {', '.join(MATCHER_NAMES)}, but is {name!r}."
        )


def refines_source(name: str) -> bool:
    """True of matchers that refine points of image 0, not of image 1 alone."""
    check_name(name)
    return _ENTRIES[name].refines_source


def load_matcher(
    name: str = "daisy",
    *,
    max_side: int | None = None,
    device: str | None = None,
    weights: str | Path | None = None,
) -> Matcher:
    """The matcher called `name`.

    Parameters
    ----------
    max_side
        Limits the images it looks at, in px; None leaves the matcher's own limit.
    device, weights
        For networks: a torch device, and a file instead of the official weights.
    """
    check_name(name)
    entry = _ENTRIES[name]
    asked: dict[str, Any] = {
        "max_side": max_side,
        "device": device,
        "weights": None if weights is None else Path(weights),
        "variant": entry.variant or None,
    }
    settings = {key: value for key, value in asked.items() if value is not None}
    for needless in {"device", "weights"} & settings.keys():
        if not entry.packages:
            raise InputError(f"{name} is no network: it takes no {needless}.")
    module = importlib.import_module(f"{__name__}.{entry.module}")
    return getattr(module, entry.factory)(**settings)


def fingerprint(name: str, weights: str | Path | None = None) -> dict[str, str]:
    """SHA-256 of what a matcher's answers rest on: its weights, and its own code."""
    check_name(name)
    code = sources_of(f"{__name__}.{_ENTRIES[name].module}")
    return {"weights": digest([_weights_file(name, weights)]), "code": digest(code)}


def _weights_file(name: str, weights: str | Path | None) -> Path:
    from semisure.matchers._weights import obtain

    known = _ENTRIES[name].weights()
    if known is None:
        return Path(__file__).parents[1] / "data" / "daisy.npz"
    return obtain(known, weights)


@dataclass(frozen=True, slots=True)
class MatcherStatus:
    """A matcher as `semisure matchers` lists it."""

    name: str
    licence: str
    size: int  # bytes of weights; roughly, before they are fetched
    source: str
    status: str


def describe_matchers() -> list[MatcherStatus]:
    """Every matcher with its licence and whether it can run here, nothing loaded."""
    return [_describe(name, entry) for name, entry in _ENTRIES.items()]


def _usable(package: str) -> bool:
    if importlib.util.find_spec(package) is None:
        return False
    # The kornia that Python 3.10 can have lacks XFeat and any-size LoFTR.
    old = package == "kornia" and version(package).startswith("0.8.")
    return not old


def _describe(name: str, entry: _Entry) -> MatcherStatus:
    from semisure.matchers._weights import locate

    weights = entry.weights()
    if weights is None:
        return MatcherStatus(name, "Apache-2.0", 0, "built in", "ready")
    found = locate(weights)
    missing = [package for package in entry.packages if not _usable(package)]
    if missing:
        status = f"not installed. {next_step(missing[-1], 'torch')}"
    elif found is not None:
        status = f"ready, weights in {found[1]}"
    elif weights.address:
        status = "downloaded at first use"
    else:
        status = "fetch by hand, then --weights FILE"
    size = (
        found[0].stat().st_size if found is not None else weights.size or weights.about
    )
    return MatcherStatus(name, weights.licence, size, weights.source, status)
