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
from dataclasses import asdict, dataclass, fields, is_dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from semisure.errors import InputError, MissingExtraError, next_step
from semisure.io.cache import cache_folder, digest, room, sha256
from semisure.io.files import is_shipped
from semisure.matchers.weights import WEIGHTS, locate, obtain
from semisure.types import Matcher, Matches, as_choice
from semisure.types.checks import as_integer


@dataclass(frozen=True, slots=True)
class _Entry:
    module: str
    kind: str
    package: str = "torch"
    refines_source: bool = False  # for all matches, or for some


_ENTRIES = {
    "daisy": _Entry("daisy", "Daisy"),
    "xfeat-star": _Entry("xfeat", "XFeatStar", "kornia", refines_source=True),
    "xfeat-star-raw": _Entry("xfeat", "RawXFeatStar", "kornia", refines_source=True),
    "loftr": _Entry("loftr", "LoFTR", "kornia"),
    "loftr-indoor": _Entry("loftr", "IndoorLoFTR", "kornia"),
    "loftr-indoor-new": _Entry("loftr", "NewIndoorLoFTR", "kornia"),
    "eloftr": _Entry("eloftr", "EfficientLoFTR", "transformers"),
    "gim-loftr": _Entry("gim", "GimLoFTR", "kornia"),
    "comatch": _Entry("comatch", "CoMatch"),
    "edm": _Entry("edm", "Edm", refines_source=True),
}

MATCHER_NAMES: tuple[str, ...] = tuple(_ENTRIES)

Refine = Literal["full", "none"]
REFINEMENTS: tuple[Refine, ...] = get_args(Refine)
_FULL = "+full"


def check_name(name: str) -> None:
    """Raise unless there is a matcher of that name, refined or not."""
    as_choice("matcher", _plain(name), MATCHER_NAMES)


def _plain(name: str) -> str:
    """A network's name without the suffix for refinement."""
    plain = str(name).removesuffix(_FULL)  # check_name rejects the rest
    return plain if plain in WEIGHTS else name


def refined_name(name: str, refine: str | None) -> str:
    """The name of the matcher with or without refinement on the full-size photos.

    >>> refined_name("xfeat-star", "full"), refined_name("daisy", "full")
    ('xfeat-star+full', 'daisy')
    """
    check_name(name)
    if refine is None:
        return name
    full = as_choice("refine", refine, REFINEMENTS) == "full"
    plain = _plain(name)
    return f"{plain}{_FULL}" if full and plain in WEIGHTS else plain


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
    refine: str | None = None,
) -> Matcher:
    """The matcher called `name`.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px; None leaves the matcher's own limit.
    device, weights
        For networks: a torch device, and a file instead of the official weights.
    refine
        ``full`` refines matches on the photos as they are, ``none`` leaves them where
        the matcher put them on reduced ones. By default only ``daisy`` refines them,
        where photos are larger than `max_side`. A refined network has its own law:
        ``load_calibration("xfeat-star+full")``.

    >>> import numpy as np
    >>> photo = np.random.default_rng(0).integers(0, 255, (96, 128), np.uint8)
    >>> matches = load_matcher("daisy", max_side=480)(photo, photo)
    >>> float(np.abs(matches.target - matches.source).max()) < 0.1
    True
    """
    name = refined_name(name, refine)
    plain = _plain(name)
    entry, network = _ENTRIES[plain], plain in WEIGHTS
    options: dict[str, Any] = {
        "max_side": None if max_side is None else checked_side(max_side),
        "device": device,
        "weights": None if weights is None else Path(weights),
        "refine": None if network else refine,
    }
    settings = {key: value for key, value in options.items() if value is not None}
    for option in ("device", "weights"):
        if option in settings and not network:
            raise InputError(f"{name} is not a network: it takes no {option}.")
    try:
        module = importlib.import_module(f"{__name__}.{entry.module}")
    except ImportError as error:
        package = (error.name or entry.package).partition(".")[0]
        raise MissingExtraError(package, "torch", plain) from None
    matcher: Matcher = getattr(module, entry.kind)(**settings)
    if name == plain:
        return matcher
    from semisure.matchers.full_size import Refined

    return Refined(network=matcher)


def checked_side(max_side: int) -> int:
    """The limit in px; raises if it is none."""
    if as_integer("max_side", max_side) < 1:
        raise InputError(f"max_side must be at least 1 px, but is {max_side}.")
    return int(max_side)


@dataclass(frozen=True, slots=True)
class NamedMatcher:
    """A matcher as its name and settings, which can be sent to any process.

    Loaded once in each, when it is first called.

    >>> import pickle
    >>> matcher = pickle.loads(pickle.dumps(NamedMatcher("daisy", max_side=320)))
    >>> matcher.loaded().max_side
    320
    """

    name: str
    max_side: int | None = None
    device: str | None = None
    weights: Path | None = None
    refine: str | None = None

    def __call__(self, image0: NDArray[np.uint8], image1: NDArray[np.uint8]) -> Matches:
        return self.loaded()(image0, image1)

    def loaded(self) -> Matcher:
        """The matcher itself."""
        return _loaded(self)


@lru_cache(maxsize=2)
def _loaded(named: NamedMatcher) -> Matcher:
    return load_matcher(**asdict(named))


# ---- what decides a matcher's answers ------------------------------------------------


def fingerprint(name: str, weights: str | Path | None = None) -> dict[str, str]:
    """SHA-256 of what decides a matcher's answers: its weights and its code."""
    check_name(name)
    plain = _plain(name)
    code = [*room("matchers"), *room("types"), *room("io.images")]
    if plain in WEIGHTS:
        file = obtain(WEIGHTS[plain], weights)
    else:
        file = Path(__file__).parents[1] / "data" / "daisy.npz"
    return {"weights": digest([file]), "code": digest(code)}


def identity(matcher: Matcher) -> dict[str, str] | None:
    """What decides the answers of a loaded matcher; None if unknown.

    A built-in one: its settings except the device, its weights and code. Any other
    callable may have an attribute ``fingerprint``, a text that changes whenever its
    answers do.

    >>> sorted(identity(load_matcher("daisy")))
    ['code', 'settings', 'weights']
    >>> identity(lambda image0, image1: None) is None
    True
    """
    if isinstance(matcher, NamedMatcher):
        matcher = matcher.loaded()
    own = getattr(matcher, "fingerprint", None)
    if own is not None:
        return {"fingerprint": str(own)}
    name = name_of(matcher)
    if name is None:
        return None
    assert is_dataclass(matcher)
    settings = {
        field.name: str(getattr(matcher, field.name))
        for field in fields(matcher)
        if field.repr and field.name not in ("device", "weights")
    }
    weights = getattr(matcher, "weights", None)
    return {"settings": str(settings), **fingerprint(name, weights)}


def name_of(matcher: object) -> str | None:
    """The name of a loaded matcher; None if it is not built in.

    >>> name_of(load_matcher("daisy"))
    'daisy'
    """
    ours = f"{type(matcher).__module__}.".startswith(f"{__name__}.")
    name: str | None = getattr(matcher, "name", None)
    return name if ours else None


def has_official_weights(matcher: object) -> bool:
    """Whether a built-in matcher runs with the weights of its authors.

    A file that the user names may hold them, too.
    """
    name, file = name_of(matcher), getattr(matcher, "weights", None)
    if name is None or file is None:
        return name is not None
    return sha256(Path(file)) == WEIGHTS[_plain(name)].sha256


# ---- weights and listing -------------------------------------------------------------


def fetch_weights(name: str, *, accept_terms: bool = False) -> Path | None:
    """The verified weights file of a matcher, downloaded now if it must be.

    None where the matcher needs none. Some files may be fetched only by someone who
    accepts their terms (:func:`terms_of`).

    >>> fetch_weights("daisy") is None
    True
    """
    check_name(name)
    official = WEIGHTS.get(_plain(name))
    return None if official is None else obtain(official, accept_terms=accept_terms)


def terms_of(name: str) -> str:
    """The terms to accept before the weights are fetched; empty if there are none.

    >>> "research purposes only" in terms_of("gim-loftr")
    True
    """
    check_name(name)
    official = WEIGHTS.get(_plain(name))
    return "" if official is None or locate(official) else official.terms


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
    return [_describe(name, entry.package) for name, entry in _ENTRIES.items()]


def _describe(name: str, package: str) -> MatcherStatus:
    law = "shipped" if is_shipped(name) else "on first use"
    weights = WEIGHTS.get(name)
    if weights is None:
        return MatcherStatus(name, "Apache-2.0", 0, "built in", "ready", law)
    local = locate(weights)
    if not all(map(importlib.util.find_spec, ("torch", package))):
        status = f"not installed. {next_step(package, 'torch')}"
    elif local is not None:
        status = f"ready, weights in {local[1]}"
    elif weights.terms:
        status = f"not here; run `semisure fetch {name}`, which asks for your consent"
    elif weights.hub or weights.url:
        status = "downloaded at first use"
    else:
        status = "download by hand, then give the file as weights"
    size = weights.size if local is None else local[0].stat().st_size
    file = str(cache_folder() / weights.filename).replace(str(Path.home()), "~", 1)
    return MatcherStatus(name, weights.licence, size, weights.source, status, law, file)
