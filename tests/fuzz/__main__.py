"""`make fuzz`: all campaigns for so many seconds, then what they found."""

from __future__ import annotations

import argparse
import sys

from fuzz.runner import CAMPAIGNS, attack_once, run


def main() -> int:
    """Run what was asked for; 1 if there were findings."""
    parser = argparse.ArgumentParser(prog="fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60, help="for all together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--campaign", choices=CAMPAIGNS, action="append")
    parser.add_argument("--case", type=int, help="this one again, with its traceback")
    asked = parser.parse_args()
    campaigns = asked.campaign or list(CAMPAIGNS)
    if asked.case is not None:
        word, finding = attack_once(campaigns[0], asked.case, asked.seed, loud=True)
        print(finding or word)
        return bool(finding)
    found = 0
    for campaign in campaigns:
        outcome = run(campaign, asked.seconds / len(campaigns), asked.seed)
        words = ", ".join(f"{count:,} {word}" for word, count in outcome.words.items())
        print(
            f"{campaign:<12} {outcome.calls:>8,} calls: {words}; "
            f"{len(outcome.findings)} findings",
            flush=True,
        )
        for finding in outcome.findings:
            print(f"  {finding}", flush=True)
        found += len(outcome.findings)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
