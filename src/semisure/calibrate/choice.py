"""Which calibration serves a matcher: the one given, the shipped, or its own."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from semisure.errors import InputError
from semisure.io.files import is_shipped, load_calibration
from semisure.matchers import has_official_weights, name_of
from semisure.types import Calibration, Matcher
from semisure.types.checks import require_kind

# What makes a calibration is loaded where one is made: most matchers have theirs.
if TYPE_CHECKING:
    from semisure.calibrate.first_use import FirstUse
    from semisure.calibrate.from_photos import SelfCalibration


def shipped_for(matcher: Matcher) -> Calibration | None:
    """The shipped calibration of a matcher of ours with its official weights."""
    name = name_of(matcher)
    if name is None or not is_shipped(name) or not has_official_weights(matcher):
        return None
    return load_calibration(name)


def calibration_for(
    matcher: Matcher,
    calibration: Calibration | SelfCalibration | str | PathLike[str] | None = None,
    *,
    force: bool = False,
    first_use: FirstUse | None = None,
) -> Calibration:
    """The calibration that is given, or else the matcher's own.

    One of another matcher is refused without `force`. A matcher of ours with its
    official weights may have a shipped one; any other is calibrated on first use.

    >>> from semisure.matchers import load_matcher
    >>> calibration_for(load_matcher("daisy")).matcher
    'daisy'
    """
    name = name_of(matcher)
    if calibration is None:
        return shipped_for(matcher) or _made_for(matcher, name, first_use)
    shown = "given"
    if isinstance(calibration, str | PathLike):
        shown, calibration = str(calibration), load_calibration(Path(calibration))
    elif not isinstance(calibration, Calibration):
        calibration = _found_by(calibration)
    foreign = None if name is None else foreign_sentence(shown, calibration, name)
    if foreign is not None and not force:
        raise InputError(
            f"{foreign} Leave it out, calibrate {name}, or force it (--force)."
        )
    return calibration


def _made_for(
    matcher: Matcher, name: str | None, first_use: FirstUse | None
) -> Calibration:
    """The calibration made on the matcher's first use."""
    from semisure.calibrate.first_use import FirstUse, first_use_law

    return first_use_law(matcher, name, first_use or FirstUse())


def _found_by(result: Any) -> Calibration:
    """The calibration that a self-calibration has found."""
    from semisure.calibrate.from_photos import SelfCalibration

    if not isinstance(result, SelfCalibration):
        advice = "Give a name, the path of a file, or a semisure.Calibration."
        require_kind("calibration", result, str | PathLike, advice)
    return result.calibration


def foreign_sentence(shown: str, calibration: Calibration, matcher: str) -> str | None:
    """Why a calibration is not a matcher's own; None where it may be."""
    if calibration.matcher in (matcher, "unknown"):
        return None
    return (
        f"The calibration {shown} is of {calibration.matcher}, not of {matcher}, so "
        "that its errors mean nothing here."
    )
