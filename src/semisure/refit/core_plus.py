"""What ``core+`` adds to the paper's weights, for homographies and poses alike."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from semisure.mixture import ErrorLaw, ordered
from semisure.refit import weights
from semisure.types import Matches, PerAxis, PerMatch, WorldMatches

MAX_ITERATIONS = 30
# No scene is exactly a plane, no lens exactly a pinhole: below this share of the
# image's diagonal a match can be surer of itself than the model can follow. Chosen on
# real pairs; where the homography is exact it costs a little, which
# benchmarks/model_floor.py prints.
MODEL_FLOOR = 4e-4


def floored(law: ErrorLaw, matches: Matches | WorldMatches) -> ErrorLaw:
    """The law with the model's own error added to the fine scale, in quadrature."""
    diagonal = np.linalg.norm(matches.refined_size, axis=1, keepdims=True)
    fine = np.hypot(law.fine_scale, MODEL_FLOOR * diagonal)
    return ordered(replace(law, fine_scale=fine))


def whitened(law: ErrorLaw, residual: PerAxis) -> tuple[PerAxis, PerAxis, PerMatch]:
    """Residuals to fit, their weights per axis ω / (sᶠ √(r² + sᶠ²)), and ω.

    1 / √(r² + sᶠ²) is the fine Laplace law's own robustness, rounded at zero.
    """
    weight = weights.core(law, residual)
    # Matches of weight 0 may be at FAR_PX, whose square would be infinite.
    centred = np.where(weight[:, None] > 0, residual - law.location, 0.0)
    softened = law.fine_scale * np.hypot(centred, law.fine_scale)
    return centred, weight[:, None] / softened, weight
