"""How many overlapping pairs `match-pairs --similar N` finds among many images.

All images of the posed scenes are put into one heap, with photos of other things. An
image's partners are those that its scene's `pairs.csv` gives at least the overlap.
*found*: share of such pairs that are among the chosen ones; *right*: share of the
chosen pairs that have at least that overlap; *other scene*: share of the chosen pairs
that join different scenes. No image has more than N partners of its own choice, so that
not all pairs can be found where there are more: *possible* is the share that the N
best by true overlap would find.

    python benchmarks/similar.py ../shared/data
"""

from __future__ import annotations

import argparse
import csv
import time
from pathlib import Path

import numpy as np

from semisure.io.images import find_images, read_image
from semisure.matchers.daisy_cells import Projection
from semisure.matchers.similar import describe_image, most_alike
from semisure.types import Array

SCENES = (
    "posed/redkitchen",
    "posed/fountain-P11",
    "depth/multiview/castle-P19",
    "depth/multiview/rendered-table",
)
OVERLAPS = (0.6, 0.3)
Overlap = dict[frozenset[int], float]


def heap(data: Path) -> tuple[list[Path], list[str], Overlap]:
    """Images, their scenes, and the overlaps of pairs by places in the heap."""
    files: list[Path] = []
    scenes: list[str] = []
    overlap: Overlap = {}
    for scene in SCENES:
        place = {}
        for file in find_images(data / scene / "images"):
            place[file.name] = len(files)
            files.append(file)
            scenes.append(scene)
        with (data / scene / "pairs.csv").open() as rows:
            for row in csv.DictReader(rows):
                pair = frozenset((place[row["name0"]], place[row["name1"]]))
                overlap[pair] = float(row["overlap"])
    for file in find_images(data / "photos"):
        files.append(file)
        scenes.append("photos")
    return files, scenes, overlap


def possible(overlap: Overlap, count: int, size: int) -> set[frozenset[int]]:
    """Each image with its `count` partners of largest overlap."""
    table = np.zeros((size, size))
    for (i, j), share in ((tuple(pair), share) for pair, share in overlap.items()):
        table[i, j] = table[j, i] = share
    best = np.argsort(-table, axis=1)[:, :count]
    chosen = {frozenset((i, int(j))) for i in range(size) for j in best[i]}
    return {pair for pair in chosen if pair in overlap}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    data = parser.parse_args().data
    files, scenes, overlap = heap(data)
    projection = Projection.load()
    images = [read_image(file) for file in files]
    start = time.perf_counter()
    vectors: list[Array] = [describe_image(image, projection) for image in images]
    each = (time.perf_counter() - start) / len(files)
    posed = sum(scene != "photos" for scene in scenes)
    print(f"{len(files)} images, {posed} of them posed; {1e3 * each:.0f} ms an image")
    print("  N  pairs  other scene  overlap  there  possible  found  right")
    for count in (5, 10, 20, 40):
        chosen = {frozenset(pair) for pair in most_alike(vectors, count)}
        inside = {p for p in chosen if all(scenes[k] != "photos" for k in p)}
        across = np.mean([len({scenes[k] for k in pair}) > 1 for pair in inside])
        ideal = possible(overlap, count, len(files))
        for least in OVERLAPS:
            good = {pair for pair, share in overlap.items() if share >= least}
            print(
                f"{count:>3}{len(inside):>7}{100 * across:>11.1f} %"
                f"{least:>9}{len(good):>7}{100 * len(good & ideal) / len(good):>8.0f} %"
                f"{100 * len(good & chosen) / len(good):>5.0f} %"
                f"{100 * len(good & inside) / len(inside):>5.0f} %"
            )


if __name__ == "__main__":
    main()
