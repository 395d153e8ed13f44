"""The verdict on a pair: whether its model is right, and the reasons for doubt.

The a-contrario test (:mod:`semisure.geometry.significance`) asks if chance explains
a model. Images that look alike agree with each other beyond chance and still show
different things. So the probability that a model is right is a logistic function of the
test's answer and of the signs of :mod:`semisure.geometry.support`. Its coefficients are
fitted to generated pairs, related, unrelated and self-similar, of one half of a
collection of photos (``python benchmarks/honest.py --fit``), and judged on the other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, log1p
from typing import Literal

from semisure.geometry.support import Support

Name = Literal["sound", "weak", "unrelated"]
SOUND = 0.9  # from this probability on
# Limits of the reasons that are given where the probability is lower.
FEW, NARROW, REPEATED, APART = 0.35, 0.35, 0.05, 0.85

# Of 1, log(1 − log false alarms), log repeated, logit together and log excess. How many
# agree, how sure the law is of them and how widely they lie add nothing for a plane.
OF_HOMOGRAPHY = (-4.43, 0.463, -1.17, 0.0, 0.0)
OF_LINES = (-17.3, 2.5, 0.0, 4.37, -4.49)
LEAST_REPEATED = 1e-3  # smaller shares of repeated matches are noise
LEAST_APART = 0.02  # the same of neighbours that move apart
LEAST_EXCESS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether to trust a pair's model."""

    name: Name
    probability: float  # that the model is right
    reasons: tuple[str, ...] = ()  # why it is weak

    def warning(self) -> str | None:
        """A sentence where the model is weak."""
        if self.name != "weak":
            return None
        return f"Weak: {'; '.join(self.reasons)}."


def features(log_alarms: float, support: Support) -> tuple[float, ...]:
    """The features of the logistic function."""
    together = (support.together + LEAST_APART) / (1 - support.together + LEAST_APART)
    return (
        1.0,
        log1p(max(0.0, -log_alarms)),
        log(support.repeated + LEAST_REPEATED),
        log(together),
        log(max(support.excess, LEAST_EXCESS)),
    )


def probability(log_alarms: float, support: Support, *, lines: bool) -> float:
    """The chance that a model is right; 0 where chance alone explains it."""
    if log_alarms >= 0:
        return 0.0
    coefficients = OF_LINES if lines else OF_HOMOGRAPHY
    terms = zip(coefficients, features(log_alarms, support), strict=True)
    return 1.0 / (1.0 + exp(-sum(c * feature for c, feature in terms)))


def judged(
    log_alarms: float, support: Support, *, lines: bool, off_plane: bool = False
) -> Verdict:
    """The verdict on a model that chance does not explain.

    >>> few = Support(share=0.08, repeated=0.7, spread=0.6)
    >>> verdict = judged(-57.0, few, lines=False)  # 43 of 532 matches, say
    >>> print(verdict.name, verdict.reasons[0], sep=": ")
    weak: only 8 % of the matches in view of both images agree
    """
    chance = probability(log_alarms, support, lines=lines)
    reasons = []
    if off_plane:
        reasons.append("many matches on their epipolar lines are off the plane")
    if chance < SOUND:
        reasons += _doubts(support, chance)
    name: Name = "weak" if reasons else "sound"
    return Verdict(name=name, probability=chance, reasons=tuple(reasons))


def _doubts(support: Support, chance: float) -> list[str]:
    doubts = []
    if support.share < FEW:
        few = f"only {100 * support.share:.0f} % of the matches"
        doubts.append(f"{few} in view of both images agree")
    if support.repeated > REPEATED:
        doubts.append("other shifts of the image have support too")
    if support.together < APART:
        doubts.append("neighbours that agree with the lines do not move together")
    if support.spread < NARROW:
        doubts.append("the matches that agree lie in one part of an image")
    return doubts or [f"the model is right with a chance of only {100 * chance:.0f} %"]
