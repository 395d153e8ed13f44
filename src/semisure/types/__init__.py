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

from semisure.types.arrays import Array as Array
from semisure.types.arrays import BoolArray as BoolArray
from semisure.types.arrays import CellMaps as CellMaps
from semisure.types.arrays import Columns as Columns
from semisure.types.arrays import FloatArray as FloatArray
from semisure.types.arrays import Index as Index
from semisure.types.arrays import IntArray as IntArray
from semisure.types.arrays import Jacobian as Jacobian
from semisure.types.arrays import Labels as Labels
from semisure.types.arrays import Mask as Mask
from semisure.types.arrays import Matrix as Matrix
from semisure.types.arrays import Matrix3 as Matrix3
from semisure.types.arrays import PerAxis as PerAxis
from semisure.types.arrays import PerMatch as PerMatch
from semisure.types.arrays import Points as Points
from semisure.types.arrays import Points3 as Points3
from semisure.types.arrays import Pose as Pose
from semisure.types.arrays import Vector as Vector
from semisure.types.arrays import Vector3 as Vector3
from semisure.types.calibration import LAW_NAMES as LAW_NAMES
from semisure.types.calibration import AlongLines as AlongLines
from semisure.types.calibration import Calibration as Calibration
from semisure.types.calibration import LawName as LawName
from semisure.types.calibration import PairSpread as PairSpread
from semisure.types.checks import as_choice as as_choice
from semisure.types.display import Tick as Tick
from semisure.types.display import silent as silent
from semisure.types.matches import DEFAULT_FINE_WINDOW_PX as DEFAULT_FINE_WINDOW_PX
from semisure.types.matches import Cues as Cues
from semisure.types.matches import Matcher as Matcher
from semisure.types.matches import Matches as Matches
from semisure.types.matches import WorldMatches as WorldMatches
from semisure.types.results import Estimate as Estimate
from semisure.types.results import Pair as Pair
from semisure.types.results import Refit as Refit
from semisure.types.results import RobustEstimator as RobustEstimator
