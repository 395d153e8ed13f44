"""The report of a calibration: its test, its numbers, the command to repeat it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from semisure.report.html import Picture, Section, command_line, versions, write_report
from semisure.report.plots import light_and_dark, plot_reliability
from semisure.selfcal import SelfCalibration, Trust
from semisure.selfcal.held_out import TAIL_PX
from semisure.types import Calibration


def write_calibration_page(
    path: str | Path, result: SelfCalibration, *, flags: Mapping[str, Any]
) -> None:
    """Write everything about one self-calibration as one HTML file."""
    trust = result.trust
    light, dark = light_and_dark(plot_reliability(trust.expected, trust.observed))
    caption = (
        "Expected against observed error of what was held out, in bins of equal count."
    )
    sections = [
        Section(
            heading="Test on what was held out",
            table=_trial(trust),
            pictures=[Picture(light, caption, dark=dark)],
        ),
        Section(
            heading="The fit",
            text=result.report.summary(),
            table=result.report.rows(),
        ),
        Section(
            heading="The error law",
            text=f"Standard errors: {result.report.standard_error_kind}.",
            table=_parameters(result),
        ),
        *_skipped(result.skipped),
        Section(
            heading="How to repeat it",
            code=command_line("semisure calibrate", (), flags),
            table=[["", ""], *_provenance(result.calibration), *versions()],
        ),
    ]
    title = f"Calibration of {result.calibration.matcher}"
    verdict = " ".join(filter(None, (trust.verdict(), result.calibration.caution)))
    write_report(path, title, verdict, sections)


def _trial(trust: Trust) -> list[list[str]]:
    beyond = f"off by more than {TAIL_PX:.0f} px"
    return [
        ["", "predicted", "observed"],
        ["mean error", f"{trust.expected_px:.2f} px", f"{trust.observed_px:.2f} px"],
        [beyond, f"{trust.expected_beyond:.1%}", f"{trust.observed_beyond:.1%}"],
        ["inside the 50 % interval", "50.0%", f"{trust.inside_50:.1%}"],
        ["inside the 90 % interval", "90.0%", f"{trust.inside_90:.1%}"],
        ["rank correlation of the two", "", f"{trust.spearman:.2f}"],
        ["calibration error (ECE)", "", f"{trust.ece_px:.2f} px"],
        ["held-out pairs, matches", "", f"{trust.pairs:,}, {trust.matches:,}"],
    ]


def _parameters(result: SelfCalibration) -> list[list[str]]:
    calibration = result.calibration
    values = {**calibration.paper_symbols()}
    values |= dict(zip(("beta_x", "beta_y"), calibration.intercept, strict=True))
    errors = result.report.standard_errors
    rows = [["the paper's symbol", "value", "standard error"]]
    for name, value in values.items():
        number = "–" if value is None else f"{value:.5g}"
        rows.append([name, number, f"{errors[name]:.2g}" if name in errors else ""])
    return rows


def _skipped(skipped: tuple[str, ...]) -> list[Section]:
    if not skipped:
        return []
    return [Section(heading="Left out", code="\n".join(skipped))]


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
