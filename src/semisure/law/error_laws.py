"""The error laws of the paper's ablation, all as :class:`ErrorLaw`.

===================  =============================================================
``mixture``          the paper's law
``fine_only``        no tail: Laplace of the calibrated fine scale, what a
                     local confidence can express
``gaussian``         the same mixture of Gaussians instead of Laplace
``uncalibrated``     raw standard deviations as scales, 1 − m as tail mass
``no_confidence_gate``  the mixture with k_m = 0
``hard_gate``        each match wholly fine or wholly coarse, by the gate's sign
===================  =============================================================

The paper does not define the gate of its uncalibrated law; the matcher's own
confidence, read as the chance that the cell was right, is ours.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from semisure.law.families import GAUSSIAN
from semisure.law.mixture import ErrorLaw, mixture_law
from semisure.types import Calibration, Cues
from semisure.types.calibration import require_calibration
from semisure.types.matches import require_matches


def error_law(cues: Cues, calibration: Calibration) -> ErrorLaw:
    """The law of each match under `calibration`, whichever variant that is.

    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=4)
    >>> error_law(matches, EXAMPLE_CALIBRATION).fine_scale.shape
    (4, 2)
    """
    require_calibration(calibration)
    if not hasattr(cues, "fine_std"):  # which matches and observations have
        require_matches(cues)
    law = mixture_law(cues, calibration)
    if calibration.law == "fine_only":
        return replace(law, tail_logit=np.full_like(law.tail_logit, -np.inf))
    if calibration.law == "gaussian":
        return replace(law, family=GAUSSIAN)
    if calibration.law == "uncalibrated":
        # logit(1 − m) = log(1/m − 1) = log(expm1(−log m)); −inf at m = 1.
        with np.errstate(divide="ignore"):
            gate = np.log(np.expm1(cues.doubt))
        return replace(law, tail_logit=np.repeat(gate[:, None], 2, axis=1))
    if calibration.law == "hard_gate":
        side = np.where(law.tail_logit > 0, np.inf, -np.inf)
        return replace(law, tail_logit=side)
    return law
