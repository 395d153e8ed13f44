"""The error laws of the paper's ablation, all as :class:`ErrorLaw`.

===================  =============================================================
``mixture``          the paper's law
``fine_only``        no tail: Laplace of the calibrated fine scale
``gaussian``         the same mixture of Gaussians instead of Laplace
``uncalibrated``     raw standard deviations as scales, 1 − m as tail mass
``no_confidence_gate``  the mixture with k_m = 0
``hard_gate``        each match wholly fine or wholly coarse, by the gate's sign
===================  =============================================================

The paper does not define the gate of its uncalibrated law; the matcher's own
confidence, read as the chance that the cell was right, is ours.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from semisure.law import mixture
from semisure.law.mixture import GAUSSIAN, ErrorLaw
from semisure.types import Calibration, Cues, LawName
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
    if not hasattr(cues, "fine_std"):  # whoever has them: matches, observations
        require_matches(cues)
    return _LAWS[calibration.law](cues, calibration)


def fine_only(cues: Cues, calibration: Calibration) -> ErrorLaw:
    """Laplace of the fine scale alone: what local confidence can say."""
    fine, coarse = mixture.scales(cues, calibration)
    shut = np.full_like(fine, -np.inf)
    return ErrorLaw(fine, coarse, shut, mixture.location(cues, calibration))


def gaussian(cues: Cues, calibration: Calibration) -> ErrorLaw:
    """The mixture with Gaussian components; scales are standard deviations."""
    law = mixture.mixture_law(cues, calibration)
    return ErrorLaw(
        law.fine_scale, law.coarse_scale, law.tail_logit, law.location, GAUSSIAN
    )


def uncalibrated(cues: Cues, calibration: Calibration) -> ErrorLaw:
    """Raw cues taken at their word: gains of 1 and a tail mass of 1 − m."""
    fine, coarse = mixture.scales(cues, calibration)
    # logit(1 − m) = log(1/m − 1) = log(expm1(−log m)); −inf at m = 1.
    with np.errstate(divide="ignore"):
        gate = np.log(np.expm1(cues.doubt))
    both = np.repeat(gate[:, None], 2, axis=1)
    return ErrorLaw(fine, coarse, both, mixture.location(cues, calibration))


def hard_gate(cues: Cues, calibration: Calibration) -> ErrorLaw:
    """Each axis wholly coarse where the gate is positive, else wholly fine."""
    law = mixture.mixture_law(cues, calibration)
    side = np.where(law.tail_logit > 0, np.inf, -np.inf)
    return ErrorLaw(law.fine_scale, law.coarse_scale, side, law.location)


_LAWS: dict[LawName, Callable[[Cues, Calibration], ErrorLaw]] = {
    "mixture": mixture.mixture_law,
    "fine_only": fine_only,
    "gaussian": gaussian,
    "uncalibrated": uncalibrated,
    "no_confidence_gate": mixture.mixture_law,
    "hard_gate": hard_gate,
}
