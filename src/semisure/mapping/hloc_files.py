"""Keypoints and the matches between them in hloc's files, as its own steps write them.

``features.h5`` has a group for each image: ``keypoints`` (k, 2), pixel centres at
integers, their ``score``, and of ours ``covariance`` (k, 2, 2) px². The attribute
``uncertainty`` of the keypoints, in px, scales the thresholds of hloc's verification.
``matches.h5`` has a group for each pair: ``matches0``, the keypoint of image 1 for each
keypoint of image 0, or −1, and ``matching_scores0``. Files appear whole, or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from semisure.errors import FileError, InputError, in_short
from semisure.io.atomic import appearing_whole
from semisure.io.hloc import UNREADABLE, numbers_in, opened_hdf5, pair_key
from semisure.mapping.keypoints import Keypoints
from semisure.types import Array, Labels, PerMatch, Points

LEAST_UNCERTAINTY_PX = 1.0  # hloc's own, for features that state none


class MatchedKeypoints(Protocol):
    """Two images and the keypoints matched between them."""

    @property
    def image0(self) -> str: ...
    @property
    def image1(self) -> str: ...
    @property
    def matches(self) -> Labels: ...  # (k, 2)
    @property
    def score(self) -> PerMatch: ...  # (k,)


def write_features(path: str | Path, keypoints: Mapping[str, Keypoints]) -> None:
    """Write the keypoints of images by name as a file of hloc's features.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "features.h5"
    >>> write_features(path, {"db/a.jpg": Keypoints.fixed(np.array([[3.0, 4.5]]))})
    >>> read_features(path)["db/a.jpg"].tolist()
    [[3.0, 4.5]]
    """
    with appearing_whole(Path(path)) as part, opened_hdf5(part, "w") as file:
        for name, found in keypoints.items():
            group = _new_group(file, name, name)
            points = group.create_dataset("keypoints", data=_small(found.points))
            points.attrs["uncertainty"] = _uncertainty(found)
            group.create_dataset("score", data=_small(found.votes))
            group.create_dataset("covariance", data=_small(found.covariance))


def check_hloc_names(names: Iterable[str]) -> None:
    """Raise if hloc's list of pairs could not tell where a name ends.

    >>> check_hloc_names(["db/a.jpg", "photo_1.jpg"])
    """
    for name in names:
        if name.split() != [name]:
            raise InputError(
                f"hloc's lists part names at blanks, but an image is called {name!r}. "
                "Rename it and match again, or export to colmap or csv."
            )


def _new_group(file: Any, key: str, what: str) -> Any:
    try:
        return file.create_group(key)
    except ValueError as error:  # such as of a/b and a-b, which hloc calls alike
        raise InputError(
            f"hloc's files cannot hold {what}: {in_short(error)}. Rename the images "
            "and match again, or export to colmap or csv."
        ) from None


def _small(array: Array) -> Array:
    return array.astype(np.float32)


def _uncertainty(keypoints: Keypoints) -> float:
    """The usual standard deviation per axis, but not below hloc's own."""
    variance = 0.5 * np.trace(keypoints.covariance, axis1=1, axis2=2)
    known = variance[np.isfinite(variance)]
    usual = float(np.sqrt(np.median(known))) if len(known) else 0.0
    return max(usual, LEAST_UNCERTAINTY_PX)


def read_features(path: str | Path) -> dict[str, Points]:
    """The keypoints (k, 2) px of all images of a file of hloc's features."""
    found: dict[str, Points] = {}

    def visit(name: str, entry: Any) -> None:
        if name.endswith("/keypoints") and hasattr(entry, "shape"):
            points = np.asarray(numbers_in(entry)[()], np.float64)
            found[name.removesuffix("/keypoints")] = points.reshape(-1, 2)

    with opened_hdf5(path, "r") as file:
        try:
            file.visititems(visit)
        except UNREADABLE as error:
            raise FileError(f"{path} holds no features of hloc's: {error}.") from None
    if not found:
        raise FileError(f"{path} holds no features of hloc's: no image has keypoints.")
    return found


def write_keypoint_matches(
    path: str | Path, pairs: Iterable[MatchedKeypoints]
) -> list[tuple[str, str]]:
    """Write pairs as a file of hloc's matches; returns their names in order."""
    names = []
    with appearing_whole(Path(path)) as part, opened_hdf5(part, "w") as file:
        for pair in pairs:
            key = pair_key(pair.image0, pair.image1)
            group = _new_group(file, key, f"{pair.image0} with {pair.image1}")
            matches0, scores0 = by_first(pair.matches, pair.score)
            # An entry for each keypoint, most of them −1: a tenth of it, compressed.
            packed = (
                {"compression": "gzip", "compression_opts": 1} if len(matches0) else {}
            )
            group.create_dataset("matches0", data=matches0, **packed)
            group.create_dataset("matching_scores0", data=scores0, **packed)
            names.append((pair.image0, pair.image1))
    return names


def by_first(matches: Labels, score: PerMatch) -> tuple[Array, Array]:
    """hloc's arrays: for each keypoint of image 0 its match, or −1, and the score.

    >>> matches0, scores0 = by_first(np.array([[0, 7], [2, 5]]), np.array([0.5, 0.25]))
    >>> matches0.tolist(), scores0.tolist()
    ([7, -1, 5], [0.5, 0.0, 0.25])
    """
    count = int(matches[:, 0].max()) + 1 if len(matches) else 0
    matches0 = np.full(count, -1, np.int32)
    scores0 = np.zeros(count, np.float16)
    matches0[matches[:, 0]] = matches[:, 1]
    scores0[matches[:, 0]] = score
    return matches0, scores0
