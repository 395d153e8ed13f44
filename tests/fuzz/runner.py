"""Runs campaigns, each in a process of its own, so that a crash is a finding too."""

from __future__ import annotations

import importlib
import json
import os
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
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import FrameType

import numpy as np

CAMPAIGNS = ("api", "geometry", "files", "checkpoints")
CASE_SECONDS = 10  # of a process's own time; more is a finding
PATIENCE_SECONDS = 180  # on the clock, with the imports
MAX_FINDINGS = 20  # of a campaign; then it stops


@dataclass
class Outcome:
    """What came of a campaign."""

    calls: int = 0
    words: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    seconds: float = 0.0


def run(campaign: str, seconds: float, seed: int) -> Outcome:
    """Attack for so long; after a crash, go on with the next case."""
    outcome, start = Outcome(), time.monotonic()
    while (left := seconds - (time.monotonic() - start)) > 0:
        if len(outcome.findings) >= MAX_FINDINGS:
            break
        _in_process(campaign, outcome, left, seed)
    outcome.seconds = time.monotonic() - start
    return outcome


def _in_process(campaign: str, outcome: Outcome, seconds: float, seed: int) -> None:
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    arguments = (theirs, campaign, outcome.calls, seconds, seed)
    process = context.Process(target=_attack_for, args=arguments)
    process.start()
    theirs.close()
    try:
        while True:
            if not ours.poll(PATIENCE_SECONDS):  # stuck in a library, deaf to alarms
                process.kill()
            case, word, finding = json.loads(ours.recv_bytes())
            outcome.calls = case + 1
            outcome.words[word] += 1
            if finding:
                outcome.findings.append(f"{campaign} case {case}: {finding}")
            if len(outcome.findings) >= MAX_FINDINGS:
                process.kill()
                return
    except EOFError:
        process.join()
    if process.exitcode:
        crashed = outcome.calls
        outcome.findings.append(
            f"{campaign} case {crashed}: the process ended with {process.exitcode}"
        )
        outcome.calls, outcome.words["crash"] = crashed + 1, outcome.words["crash"] + 1


def _attack_for(
    pipe: Connection, campaign: str, case: int, seconds: float, seed: int
) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # libraries chat about nonsense
    end = time.monotonic() + seconds
    prepare = getattr(importlib.import_module(f"fuzz.{campaign}"), "prepare", None)
    if prepare is not None:
        prepare()
    while time.monotonic() < end:
        word, finding = attack_once(campaign, case, seed)
        pipe.send_bytes(json.dumps([case, word, finding]).encode())
        case += 1


def attack_once(
    campaign: str, case: int, seed: int, *, loud: bool = False
) -> tuple[str, str]:
    """One case: a word for what came of it, and the finding if it is one.

    With `loud`, the traceback of what was raised is printed.
    """
    from semisure.errors import SemisureError

    module = importlib.import_module(f"fuzz.{campaign}")
    rng = np.random.default_rng([seed, zlib.crc32(campaign.encode()), case])
    folder = Path(tempfile.mkdtemp(prefix="semisure-fuzz-"))
    try:
        with _time_limit(), warnings.catch_warnings():
            warnings.simplefilter("error")
            return str(module.attack(rng, folder)), ""
    except SemisureError as error:
        if loud:
            traceback.print_exc()
        if "\n" in str(error).strip() and campaign != "api":
            return "finding", f"more than one line: {str(error)[:200]!r}"
        return "refused", ""
    except Exception as error:  # noqa: BLE001 - whatever it is, it is a finding
        if loud:
            traceback.print_exc()
        place = traceback.extract_tb(error.__traceback__)[-1]
        told = f"{type(error).__name__}: {str(error)[:200]}"
        return "finding", f"{told} ({Path(place.filename).name}:{place.lineno})"
    finally:
        shutil.rmtree(folder, ignore_errors=True)


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
