"""Random views of second images, where a data set has hardly any change of viewpoint.

The thermal pairs that can be had are aligned; MTV's are seen from different places. A
random homography of the second image, composed with the truth, stands in for that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from semisure.datasets.posed import PosedPair
from semisure.images import read_image, write_png
from semisure.types import Pair
from semisure.warps import random_view


def with_views(
    pairs: Sequence[Pair | PosedPair], count: int, seed: int, folder: Path
) -> list[Pair | PosedPair]:
    """`count` pairs for each, whose second image is drawn anew and kept in `folder`."""
    return [
        _view(pair, k, seed, folder)
        for pair in pairs
        if isinstance(pair, Pair)
        for k in range(count)
    ]


def _view(pair: Pair, k: int, seed: int, folder: Path) -> Pair:
    image = read_image(pair.image1)
    digest = hashlib.sha256(image.tobytes()).digest()
    # Of the image, not of its place in a list: a limit changes no view.
    rng = np.random.default_rng([seed, k, int.from_bytes(digest[:8], "big")])
    view, W = random_view(image, rng)
    key = hashlib.sha256(digest + json.dumps(W.tolist()).encode()).hexdigest()[:24]
    file = folder / f"{key}.png"
    if not file.exists():
        write_png(file, view)
    assert pair.H_01 is not None
    return Pair(
        name=f"{pair.name}_view{k}",
        image0=pair.image0,
        image1=file,
        H_01=W @ pair.H_01,
    )
