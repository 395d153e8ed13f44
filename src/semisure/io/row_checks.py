"""What a row of a store must hold: a store may be damaged, or come from a stranger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from semisure.errors import InputError
from semisure.types import as_choice
from semisure.types.pair_records import MODEL_KINDS, PAIR_STATES, PairRecord

_COLUMNS_OF_A_MODEL = {"homography": 3, "fundamental": 3, "essential": 4}
# Where a name goes, a control character would begin a line or end a string.
_CONTROLS = frozenset(map(chr, (*range(32), 127)))


def check_name(name: object) -> None:
    """Raise unless `name` is one that tables, lists and databases can hold.

    >>> check_name("query/night 1.jpg")
    >>> check_name("")
    Traceback (most recent call last):
    semisure.errors.InputError: An image must have a name, but has ''.
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"An image must have a name, but has {name!r}.")
    if _CONTROLS.intersection(name):
        raise InputError(
            "An image's name must be text without line breaks and other control "
            f"characters, but is {name[:80]!r}. Rename the image."
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InputError(
            f"An image's name must be UTF-8, but is {name[:80]!r}. Rename the image."
        ) from None


def check_summary(row: Mapping[str, Any]) -> None:
    """Raise unless what is said of a pair has the types and shapes it must have."""
    check_name(row["image0"])
    check_name(row["image1"])
    as_choice("state", row["state"], PAIR_STATES)
    _require(row, "match_count", isinstance(row["match_count"], int))
    for name in ("probability", "model_failure"):
        _require(row, name, isinstance(row[name], float))
    for name in ("digest0", "digest1"):
        _require(row, name, isinstance(row[name], str))
    _require(row, "reasons", all(isinstance(text, str) for text in row["reasons"]))
    if row["kind"] is not None:
        as_choice("kind", row["kind"], MODEL_KINDS)
        _check_model(row)


def _check_model(row: Mapping[str, Any]) -> None:
    model, cameras = row["model"], row["cameras"]
    if model is None:
        raise InputError(f"a {row['kind']} must have its numbers, but has none")
    good = model.shape == (3, _COLUMNS_OF_A_MODEL[row["kind"]])
    _require(row, "model", good and bool(np.isfinite(model).all()))
    if row["kind"] == "essential":
        _require(
            row, "cameras", cameras is not None and bool(np.isfinite(cameras).all())
        )


def check_judged(record: PairRecord) -> None:
    """Raise unless there is one number, finite and not negative, for each match."""
    count = 0 if record.matches is None else len(record.matches)
    for name in ("weight", "expected_px", "fine_scale"):
        values = getattr(record, name)
        if values is None:
            continue
        # NaN is not ≥ 0 either; an expected error may be unknown.
        good = np.isfinite(values) & (values >= 0) | (name == "expected_px")
        if len(values) != count or not good.all():
            raise InputError(
                f"{name} must be {count} finite numbers, one a match, from 0 on"
            )


def _require(row: Mapping[str, Any], name: str, good: bool) -> None:
    if not good:
        shown = " ".join(repr(row[name]).split())[:60]
        raise InputError(f"{name} cannot be {shown}")
