"""Runs campaigns, case after case."""

from __future__ import annotations

import importlib
import shutil
import signal
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

import numpy as np

from semisure.errors import SemisureError

CAMPAIGNS = ("api", "geometry", "files", "checkpoints")
CASE_SECONDS = 10  # of this process's own time; more is a finding
MAX_FINDINGS = 20  # of a campaign; then it stops


@dataclass
class Outcome:
    """What came of a campaign."""

    calls: int = 0
    words: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


def run(campaign: str, seconds: float, seed: int) -> Outcome:
    """Attack for so long."""
    outcome, end = Outcome(), time.monotonic() + seconds
    prepare = getattr(importlib.import_module(f"fuzz.{campaign}"), "prepare", None)
    if prepare is not None:
        prepare()
    while time.monotonic() < end and len(outcome.findings) < MAX_FINDINGS:
        word, finding = attack_once(campaign, outcome.calls, seed)
        outcome.words[word] += 1
        if finding:
            outcome.findings.append(f"{campaign} case {outcome.calls}: {finding}")
        outcome.calls += 1
    return outcome


def attack_once(
    campaign: str, case: int, seed: int, *, loud: bool = False
) -> tuple[str, str]:
    """One case: a word for what came of it, and the finding if it is one.

    With `loud`, the traceback of what was raised is printed.
    """
    module = importlib.import_module(f"fuzz.{campaign}")
    rng = np.random.default_rng([seed, zlib.crc32(campaign.encode()), case])
    folder = Path(tempfile.mkdtemp(prefix=f"semisure-fuzz-{campaign}-{seed}-{case}-"))
    try:
        with _time_limit(), warnings.catch_warnings():
            warnings.simplefilter("error")
            return str(module.attack(rng, folder)), ""
    except Exception as error:  # noqa: BLE001 - whatever else it is, it is a finding
        if loud:
            traceback.print_exc()
        told = f"{type(error).__name__}: {str(error)[:200]}"
        if isinstance(error, SemisureError):
            lines = "\n" in str(error).strip() and campaign != "api"
            return ("finding", f"more than one line: {told}") if lines else _REFUSED
        place = traceback.extract_tb(error.__traceback__)[-1]
        return "finding", f"{told} ({Path(place.filename).name}:{place.lineno})"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


_REFUSED = ("refused", "")


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise TimeoutError in the block after ten seconds, where signals exist."""
    if sys.platform == "win32":
        yield
        return
    signal.signal(signal.SIGPROF, _late)
    signal.setitimer(signal.ITIMER_PROF, CASE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"no answer for {CASE_SECONDS} s")
