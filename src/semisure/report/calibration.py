"""The report of a calibration: its test, its numbers, how it was made."""

from __future__ import annotations

from pathlib import Path

from semisure.calibrate.held_out import TAIL_PX, Trust
from semisure.calibrate.photos import SelfCalibration
from semisure.report.html import Picture, Section, versions, write_report
from semisure.report.plots import plot_reliability, png
from semisure.types import Calibration


def write_calibration_page(path: str | Path, result: SelfCalibration) -> None:
    """Write everything about one self-calibration as one HTML file."""
    trust = result.trust
    curve = png(plot_reliability(trust.expected, trust.observed))
    caption = (
        "Expected against observed error of held-out matches, in bins of equal count."
    )
    sections = [
        Section(
            heading="Test on pairs that were held out",
            table=_trial(trust),
            pictures=[Picture(curve, caption)],
        ),
        Section(
            heading="The fit",
            text=result.report.summary(),
            table=result.report.rows(),
        ),
        Section(
            heading="The error law",
            table=_parameters(result),
        ),
        Section(heading="Left out", code="\n".join(result.skipped) or "nothing"),
        Section(
            heading="How it was made",
            table=[["", ""], *_provenance(result.calibration), *versions()],
        ),
    ]
    title = f"Calibration of {result.calibration.matcher}"
    verdict = " ".join(filter(None, (trust.verdict(), result.calibration.caution)))
    write_report(path, title, verdict, sections)


# What the paper's symbols mean, for the table of the law.
MEANINGS = {
    "a_x": "factor on the coarse variance, in x",
    "a_y": "factor on the coarse variance, in y",
    "b_x": "factor on the fine variance, in x",
    "b_y": "factor on the fine variance, in y",
    "k_s": "how much a wide coarse softmax raises the log odds of a wrong cell",
    "k_m": "how much a low confidence raises the log odds of a wrong cell",
    "t_x": "spread in x, % of the width, above which a wrong cell is more likely",
    "t_y": "spread in y, % of the height, above which a wrong cell is more likely",
    "t_m": "the same for −log confidence; fixed at 0, since only sums of the t matter",
    "beta_x": "log odds of a wrong cell in x where both cues are 0",
    "beta_y": "log odds of a wrong cell in y where both cues are 0",
}


def _trial(trust: Trust) -> list[list[str]]:
    beyond = f"off by more than {TAIL_PX:.0f} px"
    return [
        ["", "predicted", "observed"],
        ["mean error", f"{trust.expected_px:.2f} px", f"{trust.observed_px:.2f} px"],
        [beyond, f"{trust.expected_beyond:.1%}", f"{trust.observed_beyond:.1%}"],
        ["inside the 50 % interval", "50.0%", f"{trust.inside_50:.1%}"],
        ["inside the 90 % interval", "90.0%", f"{trust.inside_90:.1%}"],
        ["rank correlation of expected and observed", "", f"{trust.spearman:.2f}"],
        [
            "calibration error (ECE): mean gap between the two over bins",
            "",
            f"{trust.ece_px:.2f} px",
        ],
        ["held-out pairs, matches", "", f"{trust.pairs:,}, {trust.matches:,}"],
    ]


def _parameters(result: SelfCalibration) -> list[list[str]]:
    calibration = result.calibration
    values = {**calibration.paper_symbols()}
    values |= dict(zip(("beta_x", "beta_y"), calibration.intercept, strict=True))
    rows = [["the paper's symbol", "value", "meaning"]]
    for name, value in values.items():
        number = "–" if value is None else f"{value:.5g}"
        rows.append([name, number, MEANINGS.get(name, "")])
    return rows


def _provenance(calibration: Calibration) -> list[list[str]]:
    rows = []
    for name, value in calibration.provenance.items():
        if name in ("semisure", "numpy", "opencv"):  # listed with the other versions
            continue
        inner = value.items() if isinstance(value, dict) else [(None, value)]
        rows += [
            [name if key is None else f"{name}: {key}", str(v)] for key, v in inner
        ]
    return rows
