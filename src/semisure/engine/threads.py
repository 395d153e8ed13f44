"""Worker processes of one thread each."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# Libraries read these when they are loaded, so before a worker's first import.
ONE_THREAD = dict.fromkeys(
    ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1"
)


@contextmanager
def environment(values: Mapping[str, str]) -> Iterator[None]:
    """Processes that are started here see these variables."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def one_thread() -> None:
    """Tell OpenCV, which does not read the environment."""
    import cv2

    cv2.setNumThreads(1)
