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

# ruff: noqa: I001 - names that are passed on, a statement for each module
from semisure.types.arrays import (
    Array as Array,
    BoolArray as BoolArray,
    CellMaps as CellMaps,
    Columns as Columns,
    FloatArray as FloatArray,
    Index as Index,
    IntArray as IntArray,
    Jacobian as Jacobian,
    Labels as Labels,
    Mask as Mask,
    Matrix as Matrix,
    Matrix3 as Matrix3,
    PerAxis as PerAxis,
    PerMatch as PerMatch,
    Points as Points,
    Points3 as Points3,
    Pose as Pose,
    Vector as Vector,
    Vector3 as Vector3,
)
from semisure.types.calibration import (
    LAW_NAMES as LAW_NAMES,
    AlongLines as AlongLines,
    Calibration as Calibration,
    LawName as LawName,
    PairSpread as PairSpread,
)
from semisure.types.checks import as_choice as as_choice
from semisure.types.display import Tick as Tick, silent as silent
from semisure.types.matches import (
    DEFAULT_FINE_WINDOW_PX as DEFAULT_FINE_WINDOW_PX,
    Cues as Cues,
    Matcher as Matcher,
    Matches as Matches,
    WorldMatches as WorldMatches,
)
from semisure.types.results import (
    Estimate as Estimate,
    Pair as Pair,
    Refit as Refit,
    RobustEstimator as RobustEstimator,
)
