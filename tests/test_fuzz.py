"""A few seconds of each campaign of `make fuzz`."""

from __future__ import annotations

import pytest

from fuzz.__main__ import CAMPAIGNS, run


@pytest.mark.slow
@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_a_short_attack_finds_nothing(campaign: str) -> None:
    words, findings = run(campaign, 3.0, seed=0)
    assert words.total() > 0
    assert findings == []
