"""Where the calibrations of a bench come from.

Every bench compares the paper's law, which has no location, with ours, which may have
one. A law fitted with a location is never the paper's, not even without it: its other
parameters were fitted under another objective. Both laws are, in this order:

* given as files, the paper's by ``--faithful`` if the other has a location;
* fitted to the pairs of another folder, ``--calibrate-on``;
* shipped with the matcher;
* fitted to the other sequences of the same data.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from semisure.bench.arms import Calibrations
from semisure.bench.cross_validation import fold_of, outside, validated
from semisure.bench.exported import Exported
from semisure.bench.options import Options
from semisure.bench.true_errors import with_truth
from semisure.calibration import fit
from semisure.errors import InputError
from semisure.io.files import SHIPPED, load_calibration
from semisure.types import Calibration, LawName, Matches, PerAxis

# After the name of a shipped law: its twin, fitted to the same pairs without location.
FAITHFUL = "-faithful"


def law_fitted_to(
    exported: Sequence[Exported], *, law: LawName = "mixture", location: bool = False
) -> Calibration:
    """A calibration fitted to pairs with truth."""
    return fit([with_truth(e) for e in exported], law=law, location=location)[0]


def both_fitted_to(exported: Sequence[Exported]) -> Calibrations:
    """The paper's law and ours fitted to the same pairs with truth."""
    return _both([with_truth(e) for e in exported])


def _both(truths: Sequence[tuple[Matches, PerAxis]]) -> Calibrations:
    return Calibrations(fit(truths)[0], fit(truths, location=True)[0])


def is_shipped(name: str) -> bool:
    """True if a calibration of that name comes with the package."""
    return (SHIPPED / f"{name}.json").exists()


def check_given(options: Options) -> None:
    """Raise if the files that the user gave cannot serve: now, not after matching."""
    if options.calibration is not None:
        given(options, options.calibration)


def given(options: Options, name: str) -> tuple[Calibrations, str]:
    """Both laws from the files that the user gave, and which file serves which arm."""
    ours = load_calibration(name)
    faithful = options.faithful or _faithful_of(name, ours)
    if faithful is None:
        return Calibrations(ours, ours), f"calibration {Path(name).name}"
    paper = load_calibration(faithful)
    if paper.location is not None:
        raise InputError(
            f"--faithful must be a law without a location, but {faithful} has one; fit "
            "it without --location."
        )
    files = f"{Path(name).name} for core+, {Path(faithful).name} for the paper's arms"
    return Calibrations(paper, ours), f"calibration {files}"


def _faithful_of(name: str, ours: Calibration) -> str | None:
    """The shipped law that goes with a shipped one; None if `ours` serves as both."""
    if ours.location is None:
        return None
    if not Path(name).is_file() and is_shipped(f"{name}{FAITHFUL}"):
        return f"{name}{FAITHFUL}"
    raise InputError(
        f"{name} was fitted with a location, which the paper's law does not have: add "
        "--faithful FILE, a law fitted without --location, or give --calibrate-on "
        "FOLDER instead, which fits both."
    )


def shipped(matcher: str) -> Calibrations:
    """Both laws that come with a matcher; one serves as both if it has no location."""
    ours = load_calibration(matcher)
    faithful = f"{matcher}{FAITHFUL}"
    paper = load_calibration(faithful) if is_shipped(faithful) else ours
    return Calibrations(paper, ours)


def cross_validated(exported: Sequence[Exported]) -> list[Calibrations]:
    """Both laws for each pair, fitted to the sequences that do not hold it."""
    fold = fold_of(exported)
    truths = [with_truth(e) for e in exported]
    places = sorted(set(fold.tolist()))
    by_fold = {k: _both(outside(truths, fold, k)) for k in places}
    return [by_fold[k] for k in fold.tolist()]


def check_known(options: Options, matcher: str) -> None:
    """Raise if the calibrations would have to be fitted to data without truth."""
    source = options.calibration or options.calibrate_on
    if source is None and not is_shipped(matcher):
        raise InputError(
            f"There is no shipped calibration of {matcher}, and a map has no true "
            "errors to fit one to; give a file by --calibration, or other "
            "data by --calibrate-on."
        )


def chosen(
    options: Options, matcher: str, exported: Sequence[Exported]
) -> tuple[list[Calibrations], str]:
    """The calibrations for each pair, and a sentence on where they are from."""
    if options.calibration is not None:
        calibrations, files = given(options, options.calibration)
        return [calibrations] * len(exported), f"{matcher}: {files}."
    if is_shipped(matcher):
        remark = (
            f"{matcher}: the shipped calibration, from random views of photos, and for "
            "how pairs differ from scenes in depth."
        )
        return [shipped(matcher)] * len(exported), remark
    remark = (
        f"{matcher}: no shipped calibration; fitted on the other sequences "
        f"({validated(exported)})."
    )
    return cross_validated(exported), remark
