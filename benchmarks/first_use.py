"""What a law made on first use is worth, beside the shipped ones.

    python benchmarks/first_use.py PHOTOS --matcher daisy --matcher xfeat-star

A matcher is calibrated as on its first use: 60 random views of the 12 photos of
scikit-image. The law is then tried on a random view of every twelfth photo of PHOTOS,
beside the shipped law, whose numbers are from 150 or 200 views of 300 photos, with and
without what scenes in depth taught it. The law is kept in semisure's cache, as it would
be for a user.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from semisure.calibrate.choice import FirstUse, first_use_law
from semisure.calibrate.held_out import Trust, trial
from semisure.calibrate.photos import SelfCalSettings, match_views
from semisure.io.files import is_shipped, load_calibration
from semisure.io.images import find_images
from semisure.law.observations import Observations, observe
from semisure.matchers import load_matcher
from semisure.types import Calibration, Matcher

HEAD = (
    "matcher, law",
    "NLL",
    "inside 50 / 90 %",
    "mean error, predicted / observed px",
    "beyond 8 px, predicted / observed %",
)
EVERY, SEED = 12, 7  # photos; of the views, another than that of calibrations


def tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def laws(name: str, matcher: Matcher) -> dict[str, Calibration]:
    """The law of the first use, and those that are shipped."""
    made = {"first use": first_use_law(matcher, FirstUse(tell=tell))}
    if is_shipped(name):
        shipped = load_calibration(name)
        made |= {"shipped, planar": replace(shipped, pairs=None), "shipped": shipped}
    return made


def views(matcher: Matcher, photos: list[Path]) -> Observations:
    """A random view of each photo, matched, with its exact errors."""
    settings = SelfCalSettings(pairs=len(photos), seed=SEED)
    matched = match_views(matcher, photos, settings)
    return observe([*matched.fitted, *matched.held_out])


def cells(trust: Trust) -> list[str]:
    """The numbers of a trial, as the head of the table names them."""
    inside = trust.inside_50, trust.inside_90
    beyond = trust.expected_beyond, trust.observed_beyond
    return [
        f"{trust.nll:.3f}",
        " / ".join(f"{100 * share:.0f}" for share in inside),
        f"{trust.expected_px:.2f} / {trust.observed_px:.2f}",
        " / ".join(f"{100 * share:.1f}" for share in beyond),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description="A law made on first use, tried.")
    parser.add_argument("photos", type=Path)
    parser.add_argument("--matcher", action="append", default=None)
    given = parser.parse_args()
    photos = find_images(given.photos)[1::EVERY]
    print(f"| {' | '.join(HEAD)} |")
    print("|---|---|---|---|---|")
    for name in given.matcher or ["daisy", "xfeat-star"]:
        matcher = load_matcher(name)
        candidates = laws(name, matcher)
        observations = views(matcher, photos)
        for label, law in candidates.items():
            row = cells(trial(observations, law))
            print(f"| {name}, {label} | {' | '.join(row)} |")


if __name__ == "__main__":
    main()
