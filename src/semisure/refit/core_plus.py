"""What ``core+`` adds to the paper's weights, for homographies and poses alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from semisure.mixture import ErrorLaw, ordered
from semisure.types import Matches, PerMatch, WorldMatches

MAX_ITERATIONS = 30
# What the last step moves corners or points by, at most. It ends closer than that, a
# millionth of a pixel or less, to where all further ones would lead.
TOLERANCE_PX = 2e-6
BLOCK_ROWS = 10_000  # a dozen arrays of (2, 10000) numbers are two megabytes
# No scene is exactly a plane, no lens exactly a pinhole: below this share of the
# image's diagonal a match can be surer of itself than the model can follow. Chosen on
# real pairs; where the homography is exact it costs a little, which
# benchmarks/model_floor.py prints.
MODEL_FLOOR = 4e-4


def equal_parts(count: int, most: int = BLOCK_ROWS) -> list[slice]:
    """Slices of about the same length that `count` rows are cut into.

    >>> equal_parts(7, most=3)
    [slice(0, 3, None), slice(3, 6, None), slice(6, 7, None)]
    """
    parts = -(-count // most)
    rows = -(-count // max(parts, 1))
    return [slice(i * rows, min((i + 1) * rows, count)) for i in range(parts)]


def floored(law: ErrorLaw, matches: Matches | WorldMatches) -> ErrorLaw:
    """The law with the model's own error added to the fine scale, in quadrature."""
    fine = law.fine_scale * law.fine_scale
    fine += floor2_of(matches)[:, None]
    return ordered(replace(law, fine_scale=np.sqrt(fine, out=fine)))


def floor2_of(matches: Matches | WorldMatches) -> PerMatch:
    """The model's own error, px², of each match or the same of all, (n,) or (1,)."""
    return np.asarray(MODEL_FLOOR**2 * (matches.refined_size**2).sum(axis=1))
