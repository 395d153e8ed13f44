"""A few seconds of each campaign of `make fuzz`, and what earlier ones found."""

from __future__ import annotations

import pytest

from fuzz.runner import CAMPAIGNS, attack_once, run


@pytest.mark.slow
@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_a_short_attack_finds_nothing(campaign: str) -> None:
    outcome = run(campaign, 5.0, seed=0)
    assert outcome.calls > 0
    assert outcome.findings == []


# What once was a finding: an overflow in a weight or a covariance, a negative variance,
# a singular start, a ragged list, flags that are no list, a scale of 1e300; a horizon,
# an epipole, a name with a backslash, HDF5 text that libhdf5 seeks for ever; a place
# where the homography has no inverse; weights that determine nothing.
FOUND = {
    ("geometry", 0): (1335, 1758, 1864, 2308, 2514, 2618, 8084),
    ("api", 0): (206, 342, 432, 843, 2717, 3447, 4042),
    ("api", 5): (772, 30_328),
    ("geometry", 5): (1708,),
    ("files", 5): (7867, 11_240, 16_797),
    ("geometry", 2026): (398,),
    ("files", 2028): (66_603, 131_651),
    ("geometry", 2028): (6843, 18_824),
    ("geometry", 2030): (184, 1309, 36_831),
    ("geometry", 2031): (6573, 18_753),
}


@pytest.mark.parametrize(("campaign", "seed"), FOUND)
def test_what_was_found_once_stays_mended(campaign: str, seed: int) -> None:
    for case in FOUND[campaign, seed]:
        assert attack_once(campaign, case, seed=seed)[1] == "", case
