"""Seconds per pair and peak memory of the embedded matcher, each size in a process.

python benchmarks/memory.py DATA/posed/fountain-P11/images
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from pathlib import Path

SIZES = ((640, 480), (1280, 960), (2048, 1536))
LIMITS_GB = (None, 1.0, 2.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--size", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.size:
        measure(options.photos, *map(int, options.size.split("x")))
        return
    for (width, height), limit in zip(SIZES, LIMITS_GB, strict=True):
        command = [sys.executable, __file__, str(options.photos)]
        done = subprocess.run(  # noqa: S603
            [*command, "--size", f"{width}x{height}"],
            capture_output=True,
            text=True,
            check=True,
        )
        wanted = f"  (wanted: under {limit:.0f} GB)" if limit else ""
        print(f"{width} x {height}: {done.stdout.strip()}{wanted}")


def measure(photos: Path, width: int, height: int) -> None:
    import cv2

    from semisure.io.images import find_images, read_image
    from semisure.matchers import load_matcher

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    images = [
        cv2.resize(read_image(path), (width, height), interpolation=cv2.INTER_AREA)
        for path in find_images(photos)[:2]
    ]
    matcher = load_matcher("daisy", max_side=max(width, height))
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        matches = matcher(*images)  # type: ignore[arg-type]
        seconds.append(time.perf_counter() - start)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        f"{min(seconds):6.2f} s, peak {peak / 2**20:.2f} GB "
        f"(before: {before / 2**20:.2f} GB), {len(matches):,} matches"
    )


if __name__ == "__main__":
    main()
