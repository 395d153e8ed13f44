"""``fit(optimiser="newton")`` against SciPy's Powell with the paper's settings.

    python benchmarks/fit_speed.py

Matches are drawn from a law with a tenth of coarse failures. Each measurement is a
process of its own: with one thread and with two for the libraries, and one that fits
10⁷ matches and says how much memory it took at most.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
from dataclasses import fields

import numpy as np

from clock import wanted
from semisure.law.fit_law import fit
from semisure.law.observations import Observations, observe
from semisure.synthetic import SyntheticMatcher, random_homography

PER_PAIR = 2000
MATCHES, MANY = 400_000, 10_000_000
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--measure", choices=["powell", "many"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure == "powell":
        against_powell()
    elif options.measure == "many":
        many()
    else:
        compare()


def compare() -> None:
    print(f"\nfits of {MATCHES:,} matches, {MATCHES // PER_PAIR} pairs")
    for threads in (1, 2):
        print(f"  {threads} thread(s): {_alone('powell', threads)}", flush=True)
    print(f"fit of {MANY:,} matches: {_alone('many', 2)}", flush=True)


def _alone(name: str, threads: int) -> str:
    """What another process prints that runs with so many threads."""
    environment = os.environ | {variable: str(threads) for variable in THREADS}
    done = subprocess.run(  # noqa: S603 - our own file
        [sys.executable, __file__, "--measure", name],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
    )
    return done.stdout.strip()


def observations(count: int) -> Observations:
    rng = np.random.default_rng(0)
    return observe(
        SyntheticMatcher().match(random_homography(rng), count=PER_PAIR, seed=i)
        for i in range(count // PER_PAIR)
    )


def against_powell() -> None:
    seen = observations(MATCHES)
    seconds = []
    for _ in range(5):
        start = time.process_time()
        _, newton = fit(seen)
        seconds.append(time.process_time() - start)
    start = time.process_time()
    _, powell = fit(seen, optimiser="powell")
    powell_seconds = time.process_time() - start
    ratio = powell_seconds / float(np.median(seconds))
    print(
        f"newton {np.median(seconds):.2f} s, {newton.iterations} steps, "
        f"NLL {newton.nll:.6f}; powell {powell_seconds:.1f} s, {powell.iterations} "
        f"steps, NLL {powell.nll:.6f}; {ratio:.0f} times faster "
        f"{wanted(ratio, 100, at_least=True)}"
    )


def many() -> None:
    """10⁷ rows from far fewer: drawing them all would take longer than the fit."""
    some = observations(MATCHES)
    times = MANY // MATCHES
    arrays = (np.tile(getattr(some, f.name).T, times).T for f in fields(some))
    seen = Observations(*arrays)
    for k in range(times):  # every copy has pairs of its own
        seen.pair[k * MATCHES : (k + 1) * MATCHES] += k * (MATCHES // PER_PAIR)
    start = time.process_time()
    _, report = fit(seen)
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{seconds:.1f} s {wanted(seconds, 12)}, peak {peak:.2f} GB "
        f"{wanted(peak, 1.5)}, NLL {report.nll:.6f}"
    )


if __name__ == "__main__":
    main()
