"""Functions for workers, which find them by name: squares, deaths, naps, errors."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from semisure.errors import InputError


def square(number: int) -> int:
    return number * number


def square_unless_13(number: int) -> int:
    """13 kills whoever is asked."""
    if number == 13:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


class DiesOnce:
    """Kills its process the first time that `deadly` comes, and never again."""

    def __init__(self, folder: str, deadly: int) -> None:
        self.folder, self.deadly = folder, deadly

    def __call__(self, numbers: list[int]) -> list[int]:
        calls = Path(self.folder, f"calls_{numbers[0]}_{time.monotonic_ns()}")
        calls.write_text(str(len(numbers)))
        mark = Path(self.folder, "died")
        if self.deadly in numbers and not mark.exists():
            mark.touch()
            os._exit(7)
        return [number * number for number in numbers]


def refused(number: int) -> int:
    raise InputError(f"{number} must not be asked.")


class Unpicklable(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def broken(number: int) -> int:
    raise Unpicklable(number, 2)


def process(number: int) -> int:
    time.sleep(0.05)
    return os.getpid()


def threads(number: int) -> tuple[str, int]:
    import cv2

    return os.environ["OMP_NUM_THREADS"], cv2.getNumThreads()


def long_nap(number: int) -> int:
    time.sleep(600)
    return number


def dies_at_start(*arguments: object) -> None:
    os._exit(3)
