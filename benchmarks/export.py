"""Time, memory, bytes and files of `semisure export` on a store of many pairs.

The store is made up: images are views of one plane, 640 × 480, each paired with the
next hundred, a hundred matches a pair. Each export runs in a process of its own.

    python benchmarks/export.py --pairs 1000 10000 100000 --work /tmp/export
"""

from __future__ import annotations

import argparse
import resource
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import numpy as np

from semisure.io.files import calibration_document
from semisure.io.store import Manifest, Store
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
from semisure.types import Matches, Matrix3
from semisure.types.pair_records import ImageRecord, PairRecord

PARTNERS, MATCHES, A_SHARD, SIZE = 100, 100, 64, (640, 480)
VIEWS = 32  # that images are taken from, so that the store is made quickly


def view(k: int) -> Matrix3:
    """From the plane to image `k`: turned and shifted a little, one of few ways."""
    rng = np.random.default_rng(k % VIEWS)
    angle, (x, y) = rng.uniform(-0.2, 0.2), rng.uniform(-40, 40, 2)
    c, s = np.cos(angle), np.sin(angle)
    return np.array([[c, -s, x], [s, c, y], [0, 0, 1]])


def name(k: int) -> str:
    return f"{k:06d}.jpg"


@cache
def matched(i: int, j: int) -> tuple[Matrix3, Matches]:
    H_01 = view(j) @ np.linalg.inv(view(i))
    return H_01, SyntheticMatcher().match(H_01, count=MATCHES, seed=VIEWS * i + j)[0]


def record(i: int, j: int) -> PairRecord:
    H_01, matches = matched(i % VIEWS, j % VIEWS)
    return PairRecord(
        image0=name(i),
        image1=name(j),
        state="sound",
        match_count=MATCHES,
        probability=1.0,
        kind="homography",
        model=H_01,
        matches=matches,
        weight=np.ones(MATCHES),
        expected_px=np.ones(MATCHES),
        fine_scale=0.9 * matches.fine_std,
    )


def made(folder: Path, pairs: int) -> Store:
    """A store of so many pairs; one that is there is used again."""
    recipe = {"calibration": calibration_document(EXAMPLE_CALIBRATION)}
    store = Store.made(folder, Manifest(recipe=recipe))
    count = max(pairs // PARTNERS, 2)
    listed = [
        (i, j) for i in range(count) for j in range(i + 1, i + 1 + PARTNERS)
    ][:pairs]  # fmt: skip
    images = {name(k) for pair in listed for k in pair}
    store.write_images(
        ImageRecord(
            name=k, width=SIZE[0], height=SIZE[1], sha256="", bytes=0, modified_ns=0
        )
        for k in images
    )
    if not store.shards():
        for start in range(0, len(listed), A_SHARD):
            batch = listed[start : start + A_SHARD]
            store.write([record(i, j) for i, j in batch])
    return store


def exported(store: Store, to: str, folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier run
    command = [sys.executable, "-m", "semisure", "export", str(store.folder)]
    command += ["--to", to, "--quiet", "-o", str(folder)]
    start = time.perf_counter()
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    subprocess.run(command, check=True)  # noqa: S603
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    files = [file for file in folder.rglob("*") if file.is_file()]
    size = sum(file.stat().st_size for file in files)
    print(
        f"  {to:<7}{time.perf_counter() - start:>9.1f} s"
        f"{used.ru_utime - before:>9.1f} s of CPU{size / 1e6:>9.1f} MB in {len(files)} "
        f"files, largest process so far {used.ru_maxrss / 1024:.0f} MB",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, nargs="+", default=[1000, 10_000])
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    for pairs in asked.pairs:
        start = time.perf_counter()
        store = made(asked.work / f"store-{pairs}", pairs)
        print(
            f"{pairs:,} pairs, {len(store.images()):,} images: "
            f"{store.total_bytes() / 1e6:.1f} MB in {len(store.shards()):,} shards, "
            f"made in {time.perf_counter() - start:.0f} s",
            flush=True,
        )
        for to in ("hloc", "colmap"):
            exported(store, to, asked.work / f"{to}-{pairs}")


if __name__ == "__main__":
    main()
