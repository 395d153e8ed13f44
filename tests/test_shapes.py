"""The shapes that signatures promise, held to at every call of a whole story.

A profiler sees each call of the numpy rooms. Arguments, returned values and fields of
our dataclasses whose annotation names a shape must have it, with one letter meaning
one number throughout a call.
"""

from __future__ import annotations

import dataclasses
import inspect
import pkgutil
import sys
import typing
from collections import Counter
from importlib import import_module
from types import CodeType, FrameType, FunctionType
from typing import Annotated, Any, get_args, get_origin

import numpy as np

import semisure
from semisure.geometry import epipolar
from semisure.law.fit_law import fit
from semisure.metrics import auroc, corner_error, expected_calibration_error, spearman
from semisure.refit.relative import RELATIVE_METHODS, refit_relative
from semisure.refit.weights import REFIT_METHODS
from semisure.synthetic import (
    EXAMPLE_CALIBRATION,
    EXAMPLE_CAMERA,
    SyntheticMatcher,
    random_homography,
    random_pose,
)
from semisure.types import LAW_NAMES

ROOMS = ["types", "law", "refit", "geometry", "metrics", "synthetic"]


def fits(value: Any, hint: Any, letters: dict[str, int]) -> bool:
    """True unless `value` is an array of another shape than `hint` names."""
    if value is None or hint is Any:
        return True
    if get_origin(hint) is Annotated and isinstance(value, np.ndarray):
        names = get_args(hint)[1].split()
        if len(names) != value.ndim:
            return False
        for name, count in zip(names, value.shape, strict=True):
            wanted = int(name) if name.isdigit() else letters.setdefault(name, count)
            if wanted != count:
                return False
        return True
    if get_origin(hint) is tuple and isinstance(value, tuple):
        inner = get_args(hint)
        if len(inner) == len(value):
            pairs = zip(value, inner, strict=True)
            return all(fits(v, h, letters) for v, h in pairs)
    if get_origin(hint) in (typing.Union, type(int | None)):
        arrays = [h for h in get_args(hint) if get_origin(h) is Annotated]
        return all(fits(value, h, letters) for h in arrays)
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith(
        "semisure"
    ):
        own: dict[str, int] = {}
        hints = typing.get_type_hints(type(value), include_extras=True)
        return all(
            fits(getattr(value, f.name), hints[f.name], own)
            for f in dataclasses.fields(value)
        )
    return True


def functions() -> dict[CodeType, tuple[FunctionType, dict[str, Any]]]:
    """Every function and method of the rooms by its code, with its annotations."""
    by_code = {}
    for module in pkgutil.walk_packages(semisure.__path__, "semisure."):
        if module.name.split(".")[1] not in ROOMS:
            continue
        for thing in vars(import_module(module.name)).values():
            inside = vars(thing).values() if inspect.isclass(thing) else [thing]
            for one in inside:
                function = getattr(one, "fget", None) or getattr(one, "__func__", one)
                named = getattr(function, "__name__", "")
                # A constructor may be given one number for all matches.
                if isinstance(function, FunctionType) and named != "__init__":
                    hints = _hints(function)
                    if hints:
                        by_code[function.__code__] = function, hints
    return by_code


def _hints(function: FunctionType) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except NameError:  # imported for its types alone
        return {}


class Watch:
    """A profiler that notes each call whose shapes are not what they should be."""

    def __init__(self) -> None:
        self.functions = functions()
        self.letters: dict[FrameType, dict[str, int]] = {}
        self.calls: Counter[str] = Counter()
        self.wrong: set[str] = set()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "return") or frame.f_code not in self.functions:
            return
        function, hints = self.functions[frame.f_code]
        name = f"{function.__module__}.{function.__qualname__}"
        if event == "call":
            self.calls[name] += 1
            letters = self.letters[frame] = {}
            for parameter, value in frame.f_locals.items():
                hint = hints.get(parameter)
                if hint is not None and not fits(value, hint, letters):
                    self.wrong.add(f"{name}: {parameter} {np.shape(value)}")
        else:
            letters = self.letters.pop(frame, {})
            if "return" in hints and not fits(argument, hints["return"], letters):
                self.wrong.add(f"{name} -> {_shape(argument)}")


def _shape(value: Any) -> str:
    parts = value if isinstance(value, tuple) else (value,)
    return " ".join(str(np.shape(part)) for part in parts)


def story() -> None:
    """Fits, estimates, refits and judgements of all kinds, small."""
    matcher, law = SyntheticMatcher(), EXAMPLE_CALIBRATION
    truth = random_homography(np.random.default_rng(3))
    matches, residual = matcher.match(truth, count=240, seed=1)
    for name in LAW_NAMES:
        calibration, _ = fit([(matches, residual)], law=name)
        error_law = semisure.error_law(matches, calibration)
        semisure.coarse_success(error_law, residual)
    fit([(matches, residual)], location=True)
    located = dataclasses.replace(law, location=(0.1, -0.05))
    start = semisure.estimate_homography(matches, "ransac")
    both_sides = dataclasses.replace(matches, side=np.arange(len(matches)) % 2)
    for some in (matches, matches.swapped(), both_sides):
        for method in REFIT_METHODS:
            model = truth if some is not matches.swapped() else np.linalg.inv(truth)
            refit = semisure.refit_homography(some, located, model, method=method)
            corner_error(refit.model, truth, matches.source_size)
            if refit.covariance is not None:
                semisure.expected_corner_error(refit.covariance)
    assert start.model is not None
    pose = random_pose(np.random.default_rng(2))
    world, _ = matcher.match_world(pose, count=120)
    for method in REFIT_METHODS:
        refitted = semisure.refit_pose(
            world, EXAMPLE_CAMERA, located, pose, method=method
        )
        assert refitted.covariance is None or refitted.covariance.shape == (6, 6)
    K = np.array([[500.0, 0, 319.5], [0, 500.0, 239.5], [0, 0, 1]])
    P_01 = epipolar.checked_pose(np.column_stack([np.eye(3), [1.0, 0.1, 0.0]]))
    views, depth = matcher.match_views(P_01, K, count=160)
    for relative in RELATIVE_METHODS:
        metric = {"depth": depth, "baseline": 1.0}
        refit_relative(views, located, P_01, K, K, method=relative, **metric)
    expected = semisure.expected_abs_error(semisure.error_law(matches, law))
    observed = np.abs(residual).mean(axis=1)
    expected_calibration_error(expected, observed)
    spearman(expected, observed)
    auroc(expected, observed > 4.0)


def test_every_call_has_the_shapes_its_signature_names() -> None:
    watch, before = Watch(), sys.getprofile()
    sys.setprofile(watch)
    try:
        story()
    finally:
        sys.setprofile(before)
    assert sorted(watch.wrong) == []
    assert len(watch.calls) > 120  # functions of the rooms that the story passed
