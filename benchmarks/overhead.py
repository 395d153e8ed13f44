"""What the cues cost: a matcher with them against the library's own call, in one run.

    python benchmarks/overhead.py PHOTOS

Wanted: at most 10 % of time and 64 MB of peak memory.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

SIZES = ((640, 480), (1280, 960))
REPEATS = 5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        arm, size = options.measure.split(":")
        measure(options.photos, arm, *map(int, size.split("x")))
        return
    command = [sys.executable, __file__, str(options.photos)]
    for width, height in SIZES:
        results = {}
        for arm in ("library", "with cues"):
            done = subprocess.run(  # noqa: S603 - our own file
                [*command, "--measure", f"{arm}:{width}x{height}"],
                capture_output=True,
                text=True,
                check=True,
            )
            seconds, megabytes = map(float, done.stdout.split())
            results[arm] = seconds, megabytes
        (bare_s, bare_mb), (cued_s, cued_mb) = results.values()
        print(
            f"xfeat-star {width} x {height}: {bare_s:.3f} s -> {cued_s:.3f} s "
            f"({100 * (cued_s / bare_s - 1):+.0f} %), peak {bare_mb:.0f} MB -> "
            f"{cued_mb:.0f} MB ({cued_mb - bare_mb:+.0f} MB)"
        )


def measure(photos: Path, arm: str, width: int, height: int) -> None:
    import cv2
    import numpy as np

    from embedded import bare
    from semisure.images import find_images, read_image
    from semisure.matchers.xfeat import XFeatStar

    images = [
        np.asarray(cv2.resize(read_image(path), (width, height)), np.uint8)
        for path in find_images(photos)[:2]
    ]
    xfeat = XFeatStar()
    match = xfeat if arm == "with cues" else bare(xfeat)
    match(*images)
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        match(*images)
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(min(seconds), peak)


if __name__ == "__main__":
    main()
