"""Make the law `xfeat-star+full` that comes with the package.

    python scripts/make_mosaics.py DATA/photos mosaics --part 0 --count 16 --single 48
    python scripts/calibrate_full_size.py xfeat-star mosaics xfeat-star+full.json

for `src/semisure/data/calibrations`. Refinement on full-size photos changes how precise
a right match is, not which cell was chosen: the gate and the coarse scales are those of
the network's own law for views of photos, and the two fine scales
are fitted here, to views of mosaics, which are reduced for the network, and of photos,
which are not. The law has no location: grey values know no systematic shift.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.optimize import minimize_scalar

import semisure
from semisure.calibrate.held_out import trial, tried
from semisure.calibrate.photos import (
    SelfCalSettings,
    described,
    match_views,
    usual_size,
    versions,
)
from semisure.io.images import find_images
from semisure.law import mixture
from semisure.law.observations import Observations, observe
from semisure.types import Calibration

WHOLE = 10_000  # px: no mosaic is reduced before the network does so
GAINS = np.log(1e-2), np.log(1e4)  # log of the fine gains that are tried


def with_fine_gain(law: Calibration, log_gain: float, axis: int) -> Calibration:
    gains = list(law.fine_var_gain)
    gains[axis] = float(np.exp(log_gain))
    return replace(law, fine_var_gain=(gains[0], gains[1]))


def fit_fine(observations: Observations, law: Calibration) -> Calibration:
    """The law whose fine gains, one after the other, describe the residuals best."""
    for axis in (0, 1):

        def cost(log_gain: float, law: Calibration = law, axis: int = axis) -> float:
            says = mixture.mixture_law(
                observations, with_fine_gain(law, log_gain, axis)
            )
            density = mixture.log_density(says, observations.residual)
            return -float(density[:, axis].mean())

        best = minimize_scalar(cost, bounds=GAINS, method="bounded")
        law = with_fine_gain(law, float(best.x), axis)
    return law


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("network")
    parser.add_argument("photos", type=Path)
    parser.add_argument("output", type=Path, help="File of the law.")
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--cache", type=Path, default=Path("full-size-views"))
    options = parser.parse_args()
    name = f"{options.network}+full"
    matcher = semisure.load_matcher(name)
    settings = SelfCalSettings(pairs=options.pairs, max_side=WHOLE)
    views = match_views(
        matcher, find_images(options.photos), settings, cache=options.cache
    )
    shipped = semisure.load_calibration(options.network)
    provenance = {
        "numbers": shipped.provenance["numbers"],
        "fine gains": "views of mosaics and photos, refined on the full-size images",
        "matcher": described(matcher),
        "views": len(views.fitted),
        **versions(),
    }
    law = replace(
        shipped,
        pairs=None,
        location=None,
        matcher=name,
        resolution=usual_size([matches for matches, _ in views.fitted]),
        provenance=provenance,
    )
    law = fit_fine(observe(views.fitted), law)
    trust = trial(observe(views.held_out), law)
    print(trust.verdict())
    print(f"50 / 90 % hold {100 * trust.inside_50:.0f} / {100 * trust.inside_90:.0f} %")
    semisure.save_calibration(tried(law, trust), options.output)


if __name__ == "__main__":
    main()
