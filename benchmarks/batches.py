"""Several pairs in one run of a network against one after the other, on the CPU.

    OMP_NUM_THREADS=1 python benchmarks/batches.py PHOTOS [--matcher loftr ...]

"Shared" is one photo with N others, as in `match-pairs --exhaustive`; "apart" are N
pairs of 2 N photos. Both ways take turns; the time is that of the processor. Networks
but XFeat* have seeded random weights, and refine every third cell.
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from clock import medians
from overhead import ARMS, NAMES
from semisure.io.images import Image, find_images, read_image

SIZE = 640, 480


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--matcher", nargs="*", default=NAMES, choices=NAMES)
    parser.add_argument("--pairs", type=int, default=4)
    options = parser.parse_args()
    n = options.pairs
    photos = [photo(path) for path in find_images(options.photos)[: 2 * n]]
    cases = {
        "shared": [(photos[0], other) for other in photos[1 : n + 1]],
        "apart": list(zip(photos[:n], photos[n:], strict=True)),
    }
    for name in options.matcher:
        matcher: Any = ARMS[name]()["with"]
        for case, pairs in cases.items():
            seconds = medians(
                {
                    "one by one": partial(one_by_one, matcher, pairs),
                    "together": partial(matcher.match_many, pairs),
                },
                repeats=3,
                warm_up=1,
            )
            alone, together = (s / n for s in seconds.values())
            print(
                f"{name}, {n} pairs {case}: {alone:.2f} s a pair one by one, "
                f"{together:.2f} s together ({together / alone:.2f})",
                flush=True,
            )


def photo(path: Path) -> Image:
    return np.asarray(cv2.resize(read_image(path), SIZE), np.uint8)


def one_by_one(matcher: Any, pairs: list[tuple[Image, Image]]) -> list[Any]:
    return [matcher(*pair) for pair in pairs]


if __name__ == "__main__":
    main()
