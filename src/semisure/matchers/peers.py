"""SIFT for `bench peers`, until that bench is `benchmarks/peers.py` alone."""

from __future__ import annotations

import cv2
import numpy as np

from semisure.errors import InputError
from semisure.io.images import Image, as_grey
from semisure.io.sources import digest, sources_of
from semisure.types import Matcher, Matches, as_choice

PEER_NAMES = ("sift", "disk-lightglue", "aliked-lightglue")


class Sift:
    """SIFT, nearest neighbours that pass the ratio test."""

    def __call__(self, image0: Image, image1: Image) -> Matches:
        detector = cv2.SIFT.create(nfeatures=8000)
        (first, d0), (second, d1) = (
            detector.detectAndCompute(as_grey(image), None)  # type: ignore[call-overload]
            for image in (image0, image1)
        )
        two = (
            cv2.BFMatcher(cv2.NORM_L2).knnMatch(d0, d1, k=2) if len(second) > 1 else []
        )
        chosen = [m for m, n in two if m.distance < 0.8 * n.distance]
        source = np.array([first[m.queryIdx].pt for m in chosen]).reshape(-1, 2)
        target = np.array([second[m.trainIdx].pt for m in chosen]).reshape(-1, 2)
        ones = np.ones_like(source)
        sizes = image0.shape[1::-1], image1.shape[1::-1]
        return Matches(source, target, ones[:, 0], ones, ones, *sizes)


def check_peer(name: str) -> None:
    """Raise unless there is a peer of that name."""
    as_choice("peer", name, PEER_NAMES)


def load_peer(
    name: str, *, max_side: int | None = None, device: str | None = None
) -> Matcher:
    """The peer called `name`."""
    check_peer(name)
    if name != "sift":
        raise InputError(f"{name} is matched by benchmarks/peers.py alone.")
    return Sift()


def peer_fingerprint(name: str) -> dict[str, str]:
    """What decides a peer's answers."""
    return {"weights": "", "code": digest(sources_of(__name__))}
