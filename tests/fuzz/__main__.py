"""`make fuzz`: all campaigns for so many seconds, then their findings."""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import sys
import tempfile
import time
import traceback
import warnings
import zlib
from collections import Counter
from pathlib import Path

import numpy as np

from semisure.errors import SemisureError

CAMPAIGNS = ("api", "geometry", "files")
CASE_SECONDS = 60  # then all ends with a traceback
MAX_FINDINGS = 20  # of a campaign, which then stops


def attack(campaign: str, case: int, seed: int) -> str:
    """One case: a word for its outcome. What it raises is a finding."""
    module = importlib.import_module(f"fuzz.{campaign}")
    rng = np.random.default_rng([seed, zlib.crc32(campaign.encode()), case])
    name = f"semisure-fuzz-{campaign}-{seed}-{case}-"  # a crash leaves this folder
    faulthandler.dump_traceback_later(CASE_SECONDS, exit=True)
    try:
        with tempfile.TemporaryDirectory(prefix=name) as folder:
            return str(module.attack(rng, Path(folder)))
    except SemisureError as error:
        if "\n" in str(error).strip() and campaign != "api":
            raise AssertionError(f"more than one line: {error}") from error
        return "refused"
    finally:
        faulthandler.cancel_dump_traceback_later()


def run(campaign: str, seconds: float, seed: int) -> tuple[Counter[str], list[str]]:
    """Attack for so long: how often each word came, and the findings."""
    words: Counter[str] = Counter()
    findings: list[str] = []
    end, case = time.monotonic() + seconds, 0
    while time.monotonic() < end and len(findings) < MAX_FINDINGS:
        try:
            words[attack(campaign, case, seed)] += 1
        except Exception as error:  # noqa: BLE001, whatever it is
            line = traceback.format_exception_only(error)[-1].strip()
            findings.append(f"{campaign}:{case} {line}")
        case += 1
    return words, findings


def main() -> int:
    """Run what was asked for; 1 if there were findings."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--case", help="this one again, as files:123")
    asked = parser.parse_args()
    warnings.simplefilter("error")
    if asked.case:
        campaign, _, case = asked.case.partition(":")
        print(attack(campaign, int(case), asked.seed))
        return 0
    failed = False
    for campaign in CAMPAIGNS:
        words, findings = run(campaign, asked.seconds / len(CAMPAIGNS), asked.seed)
        counts = ", ".join(f"{count:,} {word}" for word, count in words.items())
        print(f"{campaign}: {counts}; {len(findings)} findings", *findings, sep="\n  ")
        failed = failed or bool(findings)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
