"""A few seconds of each campaign of `make fuzz`, and what earlier ones found."""

from __future__ import annotations

import pytest

from fuzz.runner import CAMPAIGNS, attack_once, run

SECONDS = {"kills": 4.0, "server": 6.0}


@pytest.mark.slow
@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_a_short_attack_finds_nothing(campaign: str) -> None:
    outcome = run(campaign, SECONDS.get(campaign, 5.0), seed=0)
    assert outcome.calls > 0
    assert outcome.findings == []


# Cases that once were findings: an overflow in a weight, in a covariance, a negative
# variance, a singular start, a ragged list, flags that are no list, a scale of 1e300.
FOUND = [("geometry", case) for case in (1335, 1758, 1864, 2308, 2514, 2618, 8084)] + [
    ("api", case) for case in (206, 342, 432, 843, 2717, 3447, 4042)
]


# A horizon, an epipole, a name with a backslash, HDF5 text that libhdf5 seeks for ever.
FOUND_LATER = [("api", 772), ("api", 30_328), ("geometry", 1708)] + [
    ("files", case) for case in (7867, 11_240, 16_797)
]


@pytest.mark.parametrize(("campaign", "case"), FOUND)
def test_what_was_found_once_stays_mended(campaign: str, case: int) -> None:
    assert attack_once(campaign, case, seed=0)[1] == ""


@pytest.mark.parametrize(("campaign", "case"), FOUND_LATER)
def test_what_was_found_later_stays_mended(campaign: str, case: int) -> None:
    assert attack_once(campaign, case, seed=5)[1] == ""


@pytest.mark.parametrize("case", [66_603, 131_651])
def test_a_pair_whose_digest_lost_its_name_is_damaged(case: int) -> None:
    """Found in an hour: several bits of an HDF5 file, one of them in that name."""
    pytest.importorskip("h5py", reason="needs the extra store")
    assert attack_once("files", case, seed=2028) == ("refused", "")


@pytest.mark.parametrize("case", [6843, 18_824])
def test_places_without_a_local_map_are_no_warning(case: int) -> None:
    """Found in an hour: a corner, or a match, where the homography has no inverse."""
    assert attack_once("geometry", case, seed=2028)[1] == ""


@pytest.mark.parametrize("case", [184, 1309, 36_831])
def test_a_field_that_takes_all_weight_off_determines_nothing(case: int) -> None:
    assert attack_once("geometry", case, seed=2030)[1] == ""


@pytest.mark.parametrize("case", [6573, 18_753])
def test_rounding_makes_no_negative_variance(case: int) -> None:
    """Weights of 1e-23: what is left of a covariance are the last digits."""
    assert attack_once("geometry", case, seed=2031)[1] == ""


def test_weights_too_small_to_determine_a_field_determine_no_covariance() -> None:
    """Found in an hour with another seed: a singular matrix."""
    assert attack_once("geometry", 398, seed=2026)[1] == ""
