"""Pairs of images that look alike, so that a thousand photos need no million pairs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from semisure.io.images import read_image
from semisure.matchers.daisy_cells import Projection
from semisure.matchers.similar import describe_image, most_alike
from semisure.types import Tick, silent
from semisure.types.pair_records import Names


def similar_pairs(
    folder: Path, names: Sequence[str], count: int, tick: Tick = silent
) -> list[Names]:
    """Each image with the `count` others most like it, every pair once.

    Images are described by the cells of the embedded matcher, whatever matcher comes
    after (:mod:`semisure.matchers.similar`).

    >>> import tempfile, cv2, numpy as np
    >>> folder, rng = Path(tempfile.mkdtemp()), np.random.default_rng(0)
    >>> for name in "ab":  # two scenes, each seen twice, 12 px apart
    ...     noise = rng.integers(0, 255, (140, 180)).astype("u1")
    ...     scene = cv2.GaussianBlur(noise, (0, 0), 4)
    ...     scene = cv2.normalize(scene, None, 0, 255, cv2.NORM_MINMAX)
    ...     for k in (0, 12):
    ...         _ = cv2.imwrite(str(folder / f"{name}{k}.png"), scene[:, k : k + 160])
    >>> similar_pairs(folder, ["a0.png", "a12.png", "b0.png", "b12.png"], 1)
    [('a0.png', 'a12.png'), ('b0.png', 'b12.png')]
    """
    projection = Projection.load()
    vectors = []
    for done, name in enumerate(names, start=1):
        vectors.append(describe_image(read_image(folder / name), projection))
        tick(done, len(names))
    return [(names[i], names[j]) for i, j in most_alike(vectors, count)]
