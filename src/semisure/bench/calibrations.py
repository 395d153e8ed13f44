"""Where the calibrations of a bench come from.

Every bench compares the paper's law, which has no location, with ours, which may have
one. A law fitted with a location is never the paper's, not even without it: its other
parameters were fitted under another objective. Both laws are, in this order:

* given as files, the paper's by ``--faithful`` if the other has a location;
* fitted to the pairs of another folder, ``--calibrate-on``: the paper's protocol;
* fitted to the other sequences of the same data, if ``--cross-validate`` asks for it;
* shipped with the matcher;
* cross-validated without being asked, and then each row of the table says so.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from semisure.bench.arms import Calibrations
from semisure.bench.options import Options
from semisure.errors import InputError
from semisure.io.files import is_shipped, load_calibration
from semisure.types import Calibration

# After the name of a shipped law: its twin, fitted to the same pairs without location.
FAITHFUL = "-faithful"


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


Source = Literal["given", "held out", "cross-validated", "shipped"]


def source_of(options: Options, matcher: str) -> Source:
    """Where both laws of a matcher come from."""
    if options.calibration is not None:
        return "given"
    if options.calibrate_on is not None:
        return "held out"
    if options.cross_validate or not is_shipped(matcher):
        return "cross-validated"
    return "shipped"


def labelled(matcher: str, source: Source) -> str:
    """The matcher's name for a row of a table; it says if the data were fitted to.

    >>> labelled("daisy", "shipped"), labelled("edm", "cross-validated")
    ('daisy', 'edm (law fitted on these data, cross-validated)')
    """
    if source == "cross-validated":
        return f"{matcher} (law fitted on these data, cross-validated)"
    return matcher


def check_known(options: Options, matcher: str) -> None:
    """Raise if the calibrations would have to be fitted to data without truth."""
    if source_of(options, matcher) == "cross-validated":
        raise InputError(
            f"A map has no true errors to fit {matcher}'s law to; give a file by "
            "--calibration, or other data by --calibrate-on, or leave out "
            "--cross-validate where a calibration is shipped."
        )


def unfitted(options: Options, matcher: str) -> tuple[Calibrations, str]:
    """Both laws where nothing is to be fitted, and where they are from."""
    if options.calibration is not None:
        calibrations, files = given(options, options.calibration)
        return calibrations, f"{matcher}: {files}."
    remark = (
        f"{matcher}: the shipped calibration, from random views of photos, and for "
        "how pairs differ from scenes in depth."
    )
    return shipped(matcher), remark
