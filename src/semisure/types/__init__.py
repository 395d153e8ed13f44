"""The nouns of semisure and the one table of names.

========================  ==============================  ===========================
paper                     code                            unit, shape
========================  ==============================  ===========================
x, ŷ                      ``source``, ``target``          px, (n, 2); image 0, image 1
s̃ᶠ, s̃ᶜ                    ``fine_std``, ``coarse_std``    px, (n, 2), raw
sᶠ, sᶜ                    ``fine_scale``,                 px, (n, 2), calibrated scale
                          ``coarse_scale``                (Laplace: std is √2 times it)
b, a                      ``fine_var_gain``,              (2,), multiplies a variance:
                          ``coarse_var_gain``             scale = √gain · std
s̄ᶜ                        ``spread``                      % of the image side, (n, 2)
m, −log m                 ``confidence``, ``doubt``       (0, 1]; nats, (n,)
k_s, k_m                  ``spread_slope``,               logit per %, logit per nat
                          ``doubt_slope``
−k_s t_d − k_m t_m        ``intercept``                   logit, (2,)
α                         ``tail_prob``, ``tail_logit``   (n, 2)
r, r⁽⁰⁾                   ``residual``                    px, (n, 2), predicted − true
ω_d, ω                    ``coarse_success``, ``weight``  (n, 2), (n,)
e, E[e]                   ``abs_error``,                  px, (n,)
                          ``expected_abs_error``
θ₀, θ*                    ``initial``, ``model``          3 × 3, or [R | t], 3 × 4
========================  ==============================  ===========================

Pixels: integer coordinates are pixel centres, so resizing maps
``(p + 0.5) * s - 0.5``. ``H_01`` maps image 0 to image 1.
"""

from semisure.types.arrays import (
    Array,
    BoolArray,
    CellMaps,
    Columns,
    FloatArray,
    Index,
    IntArray,
    Jacobian,
    Labels,
    Mask,
    Matrix,
    Matrix3,
    PerAxis,
    PerMatch,
    Points,
    Points3,
    Pose,
    Vector,
    Vector3,
)
from semisure.types.calibration import (
    LAW_NAMES,
    AlongLines,
    Calibration,
    LawName,
    PairSpread,
)
from semisure.types.checks import as_choice
from semisure.types.display import Tick, silent
from semisure.types.matches import (
    DEFAULT_FINE_WINDOW_PX,
    Cues,
    Matcher,
    Matches,
    WorldMatches,
)
from semisure.types.results import Estimate, Pair, Refit, RobustEstimator

__all__ = [
    "DEFAULT_FINE_WINDOW_PX",
    "LAW_NAMES",
    "AlongLines",
    "Array",
    "BoolArray",
    "Calibration",
    "CellMaps",
    "Columns",
    "Cues",
    "Estimate",
    "FloatArray",
    "Index",
    "IntArray",
    "Jacobian",
    "Labels",
    "LawName",
    "Mask",
    "Matcher",
    "Matches",
    "Matrix",
    "Matrix3",
    "Pair",
    "PairSpread",
    "PerAxis",
    "PerMatch",
    "Points",
    "Points3",
    "Pose",
    "Refit",
    "RobustEstimator",
    "Tick",
    "Vector",
    "Vector3",
    "WorldMatches",
    "as_choice",
    "silent",
]
