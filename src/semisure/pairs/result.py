"""The result of two images, and its summary in a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from semisure.geometry import homography as plane
from semisure.geometry.significance import log_alarms_of
from semisure.geometry.support import (
    Support,
    support_of_homography,
    support_of_lines,
)
from semisure.io.images import Image
from semisure.law import mixture
from semisure.law.error_laws import error_law
from semisure.law.mixture import ErrorLaw, abs_quantile, pooled_abs_quantile
from semisure.law.pair_law import (
    PairLaw,
    pair_law_by_lines,
    pair_law_by_residuals,
    predictive_law,
)
from semisure.pairs.models import (
    MODEL_NAMES,
    Cameras,
    Kind,
    Motion,
    lines_matrix,
    std_deg,
    view_of_lines,
)
from semisure.pairs.verdict import Verdict, judged
from semisure.refit.core import without_bias
from semisure.refit.corners import corner_variance, expected_corner_error
from semisure.refit.lines import AcrossLines
from semisure.refit.model_choice import Evidence
from semisure.types import (
    Calibration,
    Estimate,
    FloatArray,
    Matches,
    Matrix3,
    PerMatch,
    Pose,
    Refit,
)
from semisure.types.display import as_dataframe, counted, from_report

if TYPE_CHECKING:
    from pandas import DataFrame

UNRELATED = 0.5  # images are called so above this chance of an accidental model
PLANE = "one plane, or a camera that only turned"
DEPTH = "a scene in depth"
NOTHING = "unrelated images"


@dataclass(frozen=True, eq=False, kw_only=True)
class PairResult:
    """The matches of two images with their errors, and the model that they obey.

    `matches` are as the matcher gave them, and the errors are those of these points.
    To subtract their
    location, call ``semisure.without_bias(result.matches, result.calibration)``.

    >>> from semisure.pairs.estimation import refit_matches
    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=500)
    >>> result = refit_matches(matches, EXAMPLE_CALIBRATION)
    >>> result.kind, result.finding, result.expected_px.shape
    ('homography', 'one plane, or a camera that only turned', (500,))
    """

    matches: Matches
    calibration: Calibration
    estimate: Estimate
    refit: Refit
    model_failure: float  # chance that the model is accidental; 1 without one
    kind: Kind = "homography"  # of the model
    chosen: bool = False  # by the data, not by the caller
    evidence: Evidence | None = None  # for depth, where it was weighed
    cameras: Cameras | None = None  # intrinsics behind an essential matrix
    images: tuple[Image, Image] | None = None  # what was matched, for pictures

    @property
    def law(self) -> ErrorLaw:
        """The law of each match's error, adapted to the pair where that is possible."""
        if self.pair_law is None:
            return predictive_law(self.matches, self.calibration)
        return self.pair_law.law

    @property
    def blind_law(self) -> ErrorLaw:
        """The same from cues and pair alone, without each match's own residual."""
        return self.law if self.pair_law is None else self.pair_law.blind

    @cached_property
    def pair_law(self) -> PairLaw | None:
        """The law adapted to the pair, and how it differs from the matcher's.

        It needs a calibration that states how pairs differ, and a model with a
        covariance.
        """
        if self.calibration.pairs is None or not self.related:
            return None
        pair = self.matches, self.calibration
        view = self.lines_view()
        if view is not None:
            return pair_law_by_lines(*pair, view.lines, self.refit.matching_covariance)
        C = self.refit.covariance
        if C is None:
            return None
        assert self.H_01 is not None  # a related pair has one of the models
        unbiased, _ = without_bias(*pair)
        residual = plane.residual(self.H_01, unbiased)
        variance = corner_variance(C, self.H_01, unbiased)
        return pair_law_by_residuals(*pair, residual, variance)

    @cached_property
    def expected_px(self) -> PerMatch:
        """Expected error of each match."""
        return mixture.expected_abs_error(self.law)

    @cached_property
    def median_px(self) -> PerMatch:
        """The median error of each match, mean of x and y."""
        return abs_quantile(self.law, 0.5).mean(axis=1)

    @cached_property
    def within_90_px(self) -> PerMatch:
        """The 90 % quantile of the error of each match, mean of x and y."""
        return abs_quantile(self.law, 0.9).mean(axis=1)

    @cached_property
    def pooled_px(self) -> tuple[float, float]:
        """The limits of half, and of 90 %, of all errors in x and y together."""
        pooled = pooled_abs_quantile
        return pooled(self.law, 0.5), pooled(self.law, 0.9)

    @cached_property
    def failure(self) -> PerMatch:
        """Chance of each match that its coarse cell was wrong."""
        if self.pair_law is None:
            return mixture.coarse_failure(self.law)
        return self.pair_law.failure

    @property
    def related(self) -> bool:
        """True if a model shows that the two images have a scene in common."""
        return self.refit.model is not None and self.model_failure < UNRELATED

    @cached_property
    def verdict(self) -> Verdict:
        """Sound, weak and why, or unrelated: the one answer for people."""
        if not self.related:
            return Verdict(name="unrelated", probability=0.0)
        alarms = log_alarms_of(self.model_failure)
        support = self.support()
        lines = self.kind != "homography"
        depth = self.evidence is not None and self.evidence.depth
        return judged(alarms, support, lines=lines, off_plane=depth and not lines)

    def support(self) -> Support:
        """The evidence of the matches for and against the model."""
        weight = self.refit.weight
        if self.H_01 is None:
            law = predictive_law(self.matches, self.calibration)
            sure = mixture.expit(-law.tail_logit.T).prod(axis=0)
            return support_of_lines(self.matches, weight, sure)
        unbiased, _ = without_bias(self.matches, self.calibration)
        return support_of_homography(self.H_01, unbiased, weight)

    @property
    def finding(self) -> str | None:
        """What the images show, in words; None where the caller chose the model."""
        if not self.related:
            return NOTHING
        if not self.chosen:
            return None
        return PLANE if self.kind == "homography" else DEPTH

    @property
    def model(self) -> FloatArray | None:
        """The refitted model, of whichever `kind`; None where there is none."""
        return self.refit.model

    @property
    def H_01(self) -> Matrix3 | None:
        """The homography, if that is the model."""
        return self.refit.model if self.kind == "homography" else None

    @property
    def P_01(self) -> Pose | None:
        """The relative pose [R | t] with ‖t‖ = 1, if that is the model."""
        return self.refit.model if self.kind == "essential" else None

    @property
    def F_01(self) -> Matrix3 | None:
        """The fundamental matrix, of pixels, where the model has epipolar lines."""
        return lines_matrix(self.kind, self.refit.model, self.cameras)

    @property
    def pose_std_deg(self) -> tuple[float, float] | None:
        """Standard errors of a relative pose: rotation and direction of translation."""
        C = self.refit.covariance if self.kind == "essential" else None
        return None if C is None else std_deg(C)

    @cached_property
    def motion(self) -> Motion | None:
        """Rotation and direction of translation in degrees, if that is the model."""
        if self.P_01 is None:
            return None
        return Motion.of(self.P_01, self.refit.covariance)

    @cached_property
    def line_std_px(self) -> PerMatch | None:
        """Standard error of each match's epipolar line, next to the match."""
        C, view = self.refit.covariance, self.lines_view()
        if C is None or view is None:
            return None
        return np.sqrt(view.lines.variance(C))

    def lines_view(self) -> AcrossLines[Any] | None:
        """The matches, less their bias, against the model's lines if it has any."""
        unbiased, rest = without_bias(self.matches, self.calibration)
        law = error_law(unbiased, rest)
        return view_of_lines(self.kind, self.refit.model, unbiased, law, self.cameras)

    def columns(self) -> dict[str, PerMatch]:
        """Of each match: weight, expected error, its quantiles, chance of failure."""
        return {
            "weight": self.refit.weight,
            "expected_abs_error": self.expected_px,
            "median_abs_error": self.median_px,
            "within_90": self.within_90_px,
            "coarse_failure": self.failure,
        }

    def to_dataframe(self) -> DataFrame:
        """Matches with their errors as a table of pandas, one row a match."""
        return as_dataframe({**self.matches.columns(), **self.columns()})

    def plot(self) -> Any:
        """A matplotlib figure: images, and matches coloured by expected error."""
        return from_report("figure_of_pair")(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the result (.json), matches, errors (.npz, .csv) or a plot (.png)."""
        from_report("save_pair")(self, path)

    def __repr__(self) -> str:
        return f"PairResult({self.summary()})"

    def _repr_html_(self) -> str:
        return str(from_report("html_of_pair")(self))

    def summary(self) -> str:
        """One sentence for people."""
        law = self.calibration
        first_use = "first_use" in law.provenance
        origin = f"{law.matcher} was {law.origin}." if first_use else None
        sentences = (self._sentence(), self.verdict.warning(), origin)
        return " ".join(filter(None, sentences))

    def _sentence(self) -> str:
        n, name = counted(len(self.matches), "match", "matches"), MODEL_NAMES[self.kind]
        if self.refit.model is None:
            return f"No {name}: {self.refit.reason}."
        if not self.related:
            return (
                f"The images seem unrelated: {n}, of which so few agree that "
                f"chance alone explains them (probability {self.model_failure:.2f})."
            )
        half, most = self.pooled_px
        shown = "" if self.finding is None else f"; they show {self.finding}"
        sentence = (
            f"{n}: half of their errors within {half:.2f} px, 90 % within {most:.1f} px"
            f"{shown}. {name.capitalize()} from {self.refit.weight.sum():,.0f} "
            f"effective inliers (sum of weights){self._certainty()}."
        )
        if self.refit.reason is not None:
            sentence += f" The initial model was kept: {self.refit.reason}."
        return sentence

    def _certainty(self) -> str:
        """The uncertainty of the model, as part of a sentence."""
        C = self.refit.covariance
        if C is None:
            return ""
        if self.pose_std_deg is not None:
            turn, move = self.pose_std_deg
            text = f"standard errors {turn:.2g}° (rotation) and {move:.2g}° (direction)"
        elif self.line_std_px is not None:
            text = f"standard error of its lines {np.median(self.line_std_px):.2g} px"
        else:
            text = f"expected corner error {expected_corner_error(C):.2f} px"
        if self.verdict.name == "weak":  # the error of a wrong model has no bound
            text += f" if it is right (probability {self.verdict.probability:.2f})"
        return f", {text}"
