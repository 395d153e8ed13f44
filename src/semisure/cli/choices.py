"""Options whose value is one of a few names: listed in --help, checked when parsed.

The names stand here once more so that help and completion load nothing; a test holds
them to the code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeVar

import typer

Value = TypeVar("Value", str, list[str], None)

MATCHERS = (
    "daisy",
    "xfeat-star",
    "xfeat-star-raw",
    "loftr",
    "loftr-indoor",
    "loftr-indoor-new",
    "eloftr",
    "gim-loftr",
    "comatch",
    "edm",
)
ESTIMATORS = (
    "ransac",
    "lo-ransac",
    "prosac",
    "gc-ransac",
    "magsac++",
    "poselib",
    "superansac",
)
POSE_ESTIMATORS = ("ransac", "lo-ransac", "magsac++", "poselib", "pycolmap")
METHODS = (
    "core+",
    "core",
    "core-guarded",
    "uniform",
    "binary",
    "huber",
    "laplace-laplace",
    "confidence",
    "fine-std",
    "fine-std-inliers",
    "fine-std-blind",
)
MODELS = ("auto", "homography", "fundamental", "essential")
LAWS = (
    "mixture",
    "fine_only",
    "gaussian",
    "uncalibrated",
    "no_confidence_gate",
    "hard_gate",
)
OPTIMISERS = ("newton", "powell")
ENGINES = ("local", "ray")
FORMATS = ("hloc", "colmap", "csv")
MAPPERS = ("incremental", "global")
GEOMETRIES = (*MODELS, "none")
DEVICES = ("cpu", "cuda", "mps")
REFINEMENTS = ("full", "none")
REFINED = tuple(f"{network}+full" for network in MATCHERS if network != "daisy")
PEERS = ("sift", "disk-lightglue", "aliked-lightglue")


def one_of(
    names: Sequence[str], words: str, *flags: str, also: Sequence[str] = ()
) -> Any:
    """An option that takes one of `names`; `words` say of what, for the help.

    Names in `also` are taken too, but neither listed nor completed.
    """
    return typer.Option(
        *flags,
        help=f"{words}: {listed(names)}.",
        metavar="NAME",
        callback=checked(names, also),
        autocompletion=completing(names),
    )


def listed(names: Sequence[str]) -> str:
    """Names for a sentence.

    >>> listed(("a", "b", "c"))
    'a, b or c'
    """
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def checked(names: Sequence[str], also: Sequence[str] = ()) -> Callable[[Value], Value]:
    """A callback that refuses, as wrong usage, what is none of `names` or `also`."""

    def check(value: Value) -> Value:
        given: list[str] = [value] if isinstance(value, str) else value or []
        for name in given:
            if name not in names and name not in also:
                raise typer.BadParameter(_refusal(name, names))
        return value

    return check


def _refusal(name: str, names: Sequence[str]) -> str:
    from semisure.types.checks import did_you_mean

    return f"{name!r} is not {listed(names)}.{did_you_mean(name, names)}"


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """What a shell asks for the names that begin with what was typed."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names if name.startswith(incomplete)]

    return complete


def positive(value: float | None) -> float | None:
    """A callback that refuses zero and less."""
    if value is not None and not value > 0:
        raise typer.BadParameter(f"it must be positive, but is {value:g}.")
    return value


def not_negative(value: int) -> int:
    """A callback that refuses less than zero."""
    if value < 0:
        raise typer.BadParameter(f"it must not be negative, but is {value}.")
    return value
