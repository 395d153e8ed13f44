"""Frames of videos that OpenCV reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import cv2
import numpy as np

from semisure.io.images import Image

VIDEO_SUFFIXES = frozenset((".avi", ".m4v", ".mkv", ".mov", ".mp4", ".mpg", ".webm"))


def frames(path: Path, wanted: Callable[[int], bool]) -> Iterator[Image | None]:
    """One after the other, decoded where they are wanted, else None."""
    video = cv2.VideoCapture(str(path))
    try:
        for k in itertools.count():
            if not video.grab():
                break
            yield _decoded(video) if wanted(k) else None
    finally:
        video.release()


def _decoded(video: cv2.VideoCapture) -> Image | None:
    good, frame = video.retrieve()
    return np.ascontiguousarray(frame[:, :, ::-1], np.uint8) if good else None
