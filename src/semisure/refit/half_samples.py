"""How far a relative pose moves if half of the image is left out.

The likelihood of lines is rugged: a match of a wrong cell agrees with some pose, and
where few agree, or nearly lie on a plane, peaks compete. A sandwich sees the one peak
that the fit stands on. So the fit is repeated on halves of the blocks of the image,
from where it stands. The offset δ of a half varies as the whole does, and the sandwich
counts as ν offsets:

    C ← (ν C + Σ δδᵀ) / (ν + number of halves)    wherever that is larger
"""

from __future__ import annotations

import numpy as np

from semisure.geometry import epipolar
from semisure.refit.across_lines import AcrossLines
from semisure.refit.climbing import climb
from semisure.refit.model_error import block_ids
from semisure.types import FloatArray, Labels, Matrix, Vector

SPLITS = 4  # of the blocks into two halves
SANDWICH = 2.0  # ν
STEPS = 5  # of each climb
BLOCK_PX = 48.0  # as in the sandwich
MANY = 1500.0  # so many matches that agree leave no second peak

View = AcrossLines[epipolar.CalibratedViews]


def widened(C: Matrix, view: View) -> Matrix:
    """The sandwich `C` with what halves of the matches say of the pose."""
    if not 0 < view.weight().sum() <= MANY:
        return C
    # Where C is the unit matrix: directions in which halves move farther are widened,
    # none is narrowed, since the halves are few and their climbs short.
    try:
        root = np.linalg.cholesky(C)
    except np.linalg.LinAlgError:  # a direction that nothing leaves open
        return C
    offsets = np.linalg.solve(root, half_offsets(view).T)
    count = SANDWICH + offsets.shape[1]
    moment = (SANDWICH * np.eye(len(C)) + offsets @ offsets.T) / count
    values, vectors = np.linalg.eigh(moment)
    wide = root @ (vectors * np.sqrt(np.maximum(values, 1.0)))
    return np.asarray(wide @ wide.T)


def half_offsets(view: View) -> FloatArray:
    """From the pose to that of each half, (2 · SPLITS, 5)."""
    block = block_ids(view.matches.refined, BLOCK_PX)
    count = int(block.max()) + 1
    rng = np.random.default_rng(count)  # the same pair, the same answer
    offsets = []
    for _ in range(SPLITS):
        first = rng.permutation(count) < count // 2
        offsets += [
            _offset(view, np.flatnonzero(half[block])) for half in (first, ~first)
        ]
    return np.array(offsets)


def _offset(view: View, rows: Labels) -> Vector:
    some, law = view.matches.take(rows), view.match_law.take(rows)
    half, _ = climb(AcrossLines.at(view.geometry, some, law), STEPS)
    return epipolar.tangent(view.geometry.P_01, half.geometry.P_01)
