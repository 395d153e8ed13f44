"""Many pairs of images: which ones, matched by any engine, kept in a store.

A pair that cannot be matched is a row with a reason; unrelated images are marked so.
"""

from semisure.pairing.lists import (
    exhaustive_pairs,
    read_pairs,
    sequential_pairs,
    unique_pairs,
)
from semisure.pairing.run import PairsOutcome, match_pairs
from semisure.pairing.settings import PairSettings

__all__ = [
    "PairSettings",
    "PairsOutcome",
    "exhaustive_pairs",
    "match_pairs",
    "read_pairs",
    "sequential_pairs",
    "unique_pairs",
]
