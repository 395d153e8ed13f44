"""Matchers by name; each is a file, imported when it is loaded.

A matcher is any callable of two uint8 images, (h, w) or (h, w, 3) RGB, that returns
:class:`semisure.types.Matches` in the images' own pixels.

====================  ===============================  ================  =============
name                  what                             refines           needs
====================  ===============================  ================  =============
``daisy``             the embedded matcher             image 1           nothing
``xfeat-star``        XFeat* by kornia                 image 0           extra `torch`
``xfeat-star-raw``    the same, cells' first pixels    image 0           extra `torch`
``loftr``             LoFTR by kornia, outdoor         image 1           extra `torch`
``loftr-indoor``      the same, indoor                 image 1           extra `torch`
``loftr-indoor-new``  the same, encoding fixed         image 1           extra `torch`
``eloftr``            EfficientLoFTR by transformers   image 1           extra `torch`
``gim-loftr``         GIM-LoFTR                        image 1           extra `torch`
``comatch``           CoMatch                          image 1           extra `torch`
``edm``               EDM                              either, by match  extra `torch`
====================  ===============================  ================  =============

A network's name with ``+full`` behind it, such as ``xfeat-star+full``, is the network
with its matches refined on the full-size photos; ``daisy`` does so by itself.
"""

from __future__ import annotations

import importlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

from semisure.errors import InputError, next_step
from semisure.io.files import is_shipped
from semisure.io.sources import digest, sha256, sources_of
from semisure.types import Matcher, Tick, as_choice
from semisure.types.checks import as_integer

if TYPE_CHECKING:
    from semisure.matchers._network import Precision
    from semisure.matchers._weights import Weights


@dataclass(frozen=True, slots=True)
class _Entry:
    module: str
    factory: str
    packages: tuple[str, ...] = ()
    variant: str = ""
    refines_source: bool = False  # for all matches, or for some

    def weights(self) -> Weights | None:
        if not self.packages:
            return None
        weights = importlib.import_module(f"{__name__}.{self.module}").WEIGHTS
        return weights[self.variant] if self.variant else weights


_KORNIA = ("torch", "kornia")
_ENTRIES = {
    "daisy": _Entry("daisy", "Daisy"),
    "xfeat-star": _Entry("xfeat", "XFeatStar", _KORNIA, refines_source=True),
    "xfeat-star-raw": _Entry("xfeat", "RawXFeatStar", _KORNIA, refines_source=True),
    "loftr": _Entry("loftr", "LoFTR", _KORNIA, "outdoor"),
    "loftr-indoor": _Entry("loftr", "LoFTR", _KORNIA, "indoor"),
    "loftr-indoor-new": _Entry("loftr", "LoFTR", _KORNIA, "indoor-new"),
    "eloftr": _Entry("eloftr", "EfficientLoFTR", ("torch", "transformers")),
    "gim-loftr": _Entry("gim", "GimLoFTR", ("torch",)),
    "comatch": _Entry("comatch", "CoMatch", ("torch",)),
    "edm": _Entry("edm", "Edm", ("torch",), refines_source=True),
}

MATCHER_NAMES: tuple[str, ...] = tuple(_ENTRIES)

Refine = Literal["full", "none"]
REFINEMENTS: tuple[Refine, ...] = get_args(Refine)
_FULL = "+full"


def check_name(name: str) -> None:
    """Raise unless there is a matcher of that name, refined or not."""
    as_choice("matcher", _plain(name), MATCHER_NAMES)


def _plain(name: str) -> str:
    """A network's name without what says that it is refined."""
    plain = str(name).removesuffix(_FULL)  # check_name tells what is no name
    return plain if plain in _ENTRIES and _ENTRIES[plain].packages else name


def refined_name(name: str, refine: str | None) -> str:
    """The name of the matcher with or without refinement on the full-size photos.

    >>> refined_name("xfeat-star", "full"), refined_name("daisy", "full")
    ('xfeat-star+full', 'daisy')
    """
    check_name(name)
    plain = _plain(name)
    if refine is None:
        return name
    full = as_choice("refine", refine, REFINEMENTS) == "full"
    return f"{plain}{_FULL}" if full and _ENTRIES[plain].packages else plain


def refines_source(name: str) -> bool:
    """Whether the matcher refines points of image 0, in some matches or in all."""
    check_name(name)
    return _ENTRIES[_plain(name)].refines_source


def load_matcher(
    name: str = "daisy",
    *,
    max_side: int | None = None,
    device: str | None = None,
    weights: str | Path | None = None,
    precision: Precision | None = None,
    channels_last: bool | None = None,
    refine: str | None = None,
) -> Matcher:
    """The matcher called `name`.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px; None leaves the matcher's own limit.
    device, weights
        For networks: a torch device, and a file instead of the official weights.
    precision, channels_last
        For networks on graphics cards: ``bfloat16`` or ``float16`` in place of
        ``float32``, and the memory order that many cards prefer.
    refine
        ``full`` refines matches on the photos as they are, ``none`` leaves them where
        the matcher put them on reduced ones. By default only ``daisy`` refines them,
        where photos are larger than `max_side`. A refined network has a law of its own:
        ``load_calibration("xfeat-star+full")``.

    >>> import numpy as np
    >>> photo = np.random.default_rng(0).integers(0, 255, (96, 128), np.uint8)
    >>> matches = load_matcher("daisy", max_side=480)(photo, photo)
    >>> float(np.abs(matches.target - matches.source).max()) < 0.1
    True
    """
    name = refined_name(name, refine)
    plain = _plain(name)
    entry = _ENTRIES[plain]
    options: dict[str, Any] = {
        "max_side": None if max_side is None else checked_side(max_side),
        "device": device,
        "weights": None if weights is None else Path(weights),
        "variant": entry.variant or None,
        "precision": precision,
        "channels_last": channels_last,
        "refine": None if entry.packages else refine,
    }
    settings = {key: value for key, value in options.items() if value is not None}
    for option in ("device", "weights", "precision", "channels_last"):
        if option in settings and not entry.packages:
            raise InputError(f"{name} is not a network: it takes no {option}.")
    module = importlib.import_module(f"{__name__}.{entry.module}")
    matcher: Matcher = getattr(module, entry.factory)(**settings)
    if name == plain:
        return matcher
    from semisure.matchers.refined import Refined

    return Refined.of(matcher, plain)


def checked_side(max_side: int) -> int:
    """A limit in px, or a sentence."""
    if as_integer("max_side", max_side) < 1:
        raise InputError(f"max_side must be at least 1 px, but is {max_side}.")
    return int(max_side)


def fingerprint(name: str, weights: str | Path | None = None) -> dict[str, str]:
    """SHA-256 of what decides a matcher's answers: its weights and its code."""
    check_name(name)
    plain = _plain(name)
    code = sources_of(f"{__name__}.{_ENTRIES[plain].module}")
    if name != plain:
        code = (*code, *sources_of(f"{__name__}.refined"))
    return {"weights": digest([_weights_file(plain, weights)]), "code": digest(code)}


def identity(matcher: Matcher) -> dict[str, str] | None:
    """What decides the answers of a loaded matcher; None where it does not say.

    One of ours: its settings, weights and code. Any other callable may say so itself by
    an attribute ``fingerprint``, a text that changes whenever its answers do.

    >>> sorted(identity(load_matcher("daisy")))
    ['code', 'settings', 'weights']
    >>> identity(lambda image0, image1: None) is None
    True
    """
    from semisure.matchers.named import NamedMatcher

    if isinstance(matcher, NamedMatcher):
        matcher = matcher.loaded()
    own = getattr(matcher, "fingerprint", None)
    if own is not None:
        return {"fingerprint": str(own)}
    name = name_of(matcher)
    if name is None:
        return None
    weights = getattr(matcher, "weights", None)
    return {"settings": repr(matcher), **fingerprint(name, weights)}


def name_of(matcher: object) -> str | None:
    """The name of a loaded matcher; None where it is not one of ours.

    >>> name_of(load_matcher("daisy"))
    'daisy'
    """
    from semisure.matchers.named import NamedMatcher

    if isinstance(matcher, NamedMatcher):
        return matcher.name
    inner = getattr(matcher, "network", None)
    if inner is not None and type(matcher).__module__ == f"{__name__}.refined":
        plain = name_of(inner)
        return None if plain is None else f"{plain}{_FULL}"
    for name, entry in _ENTRIES.items():
        place = f"{__name__}.{entry.module}", entry.factory
        if (type(matcher).__module__, type(matcher).__name__) != place:
            continue
        if getattr(matcher, "variant", "") == entry.variant:
            return name
    return None


def has_official_weights(matcher: object) -> bool:
    """Whether a matcher of ours runs with the weights of its authors.

    A file that the user names is compared with the official one, where that is known.
    """
    name, file = name_of(matcher), getattr(matcher, "weights", None)
    official = None if name is None else _ENTRIES[_plain(name)].weights()
    if file is None or official is None:
        return name is not None
    from semisure.matchers._weights import locate

    given, local = sha256(Path(file)), locate(official)
    return given == official.sha256 or (local is not None and given == sha256(local[0]))


def _weights_file(name: str, weights: str | Path | None) -> Path:
    from semisure.matchers._weights import obtain

    official = _ENTRIES[_plain(name)].weights()
    if official is None:
        return Path(__file__).parents[1] / "data" / "daisy.npz"
    return obtain(official, weights)


def fetch_weights(
    name: str, *, accept_terms: bool = False, tick: Tick | None = None
) -> Path | None:
    """The verified weights file of a matcher, downloaded now if it must be.

    None where the matcher needs none. Some files may be fetched only by someone who
    accepts their terms (:func:`terms_of`).

    >>> fetch_weights("daisy") is None
    True
    """
    from semisure.matchers._weights import obtain

    check_name(name)
    official = _ENTRIES[_plain(name)].weights()
    if official is None:
        return None
    return obtain(official, tick=tick, accept_terms=accept_terms)


def terms_of(name: str) -> str:
    """What one must say yes to before the weights are fetched; empty if nothing.

    >>> "research purposes only" in terms_of("gim-loftr")
    True
    """
    from semisure.matchers._weights import locate

    check_name(name)
    official = _ENTRIES[_plain(name)].weights()
    if official is None or locate(official) is not None:
        return ""
    return official.terms


@dataclass(frozen=True, slots=True)
class MatcherStatus:
    """A matcher as `semisure matchers` lists it."""

    name: str
    licence: str
    size: int  # bytes of weights; approximate until they are downloaded
    source: str
    status: str
    calibration: str  # shipped, or made on first use
    file: str = ""  # where weights are looked for, ~ for the user's home


def describe_matchers() -> list[MatcherStatus]:
    """Every matcher with its licence and whether it can run here; loads none."""
    return [_describe(name, entry) for name, entry in _ENTRIES.items()]


def _usable(package: str) -> bool:
    if importlib.util.find_spec(package) is None:
        return False
    # The kornia that Python 3.10 can have lacks XFeat and any-size LoFTR.
    from importlib.metadata import version

    old = package == "kornia" and version(package).startswith("0.8.")
    return not old


def _describe(name: str, entry: _Entry) -> MatcherStatus:
    from semisure.io.cache import cache_folder
    from semisure.matchers._weights import has_sha256, locate

    weights = entry.weights()
    law = "shipped" if is_shipped(name) else "on first use"
    if weights is None:
        return MatcherStatus(name, "Apache-2.0", 0, "built in", "ready", law)
    local = locate(weights)
    missing = [package for package in entry.packages if not _usable(package)]
    if missing:
        status = f"not installed. {next_step(missing[-1], 'torch')}"
    elif local is not None:
        sure = weights.sha256 or weights.git_blob or has_sha256(local[0])
        status = f"ready, weights in {local[1]}{'' if sure else ', not verified'}"
    elif weights.terms:
        status = f"not here; run `semisure fetch {name}`, which asks for your consent"
    elif weights.address:
        status = "downloaded at first use"
    else:
        status = "download by hand, then --weights FILE"
    size = weights.size or weights.about
    if local is not None:
        size = local[0].stat().st_size
    file = str(cache_folder() / weights.filename).replace(str(Path.home()), "~", 1)
    about = weights.licence, size, weights.source, status, law
    return MatcherStatus(name, *about, file)
