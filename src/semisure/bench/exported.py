"""A pair whose matches are in the cache, with its truth at the size of the matches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np

from semisure.datasets.posed import PosedPair
from semisure.geometry.homography import project
from semisure.io.files import load_arrays, matches_from
from semisure.types import Array, Matches, Matrix3, Pair, Points

AnyPair: TypeAlias = Pair | PosedPair
Size: TypeAlias = tuple[int, int]  # width, height


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Exported:
    """A pair whose matches are in the cache."""

    name: str
    group: str  # pairs that share an image: never split by cross-validation
    truth: Matrix3 | PosedPair | None  # between the images as they were matched
    sizes: tuple[Size, Size]  # of the images before
    file: Path
    seconds: float  # of matching, by the clock, when it was done
    processor_seconds: float  # the same, by the processor; NaN in older caches
    cue_seconds: tuple[float, float]  # of these, on the cues: coarse and fine
    images: tuple[Path, Path]
    size: Size | None  # that they were brought to

    def matches(self) -> Matches:
        return stored_matches(self.file)

    @property
    def H_01(self) -> Matrix3:
        """The true homography."""
        assert isinstance(self.truth, np.ndarray)
        return self.truth


def stored_matches(file: Path) -> Matches:
    """The matches in a file of the cache."""
    return matches_from(load_arrays(file), file)


def images_of(pair: AnyPair) -> tuple[Path, Path]:
    """The files of both images."""
    if isinstance(pair, Pair):
        return pair.image0, pair.image1
    return pair.camera0.image, pair.camera1.image


def group_of(pair: AnyPair) -> str:
    """The sequence of a planar pair; the whole scene of a posed one."""
    if isinstance(pair, Pair):
        return pair.group or "/".join(pair.image0.parts[-2:])
    return pair.scene


def resizing(before: Array, after: Array) -> Matrix3:
    """The map of pixel centres from one image size to another, (p + 0.5) s − 0.5.

    >>> resizing(np.array([100, 50]), np.array([200, 50])) @ [0, 0, 1]
    array([0.5, 0. , 1. ])
    """
    s = np.asarray(after, dtype=np.float64) / np.asarray(before, dtype=np.float64)
    H = np.diag([s[0], s[1], 1.0])
    H[:2, 2] = 0.5 * s - 0.5
    return H


def moved(points: Points, before: Size, after: Size) -> Points:
    """Points of an image of one size, in pixels of the same image at another."""
    return project(resizing(np.array(before), np.array(after)), points)
