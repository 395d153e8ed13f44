"""A network whose matches are refined on the full-size photos."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from semisure.io.images import Image
from semisure.matchers.full_size import FullSize
from semisure.types import Matcher, Matches

# What a refined std of 1 px is in each network's own: from shipped laws, else 1.
UNITS = {"xfeat-star": 0.85}


@dataclass(frozen=True, slots=True, kw_only=True)
class Refined:
    """`network`, and what it found refined on photos of any size.

    Photos that the network saw unreduced are refined too: networks round to a fraction
    of their cells, grey values do not.
    """

    network: Any
    refinement: FullSize

    @classmethod
    def of(cls, network: Matcher, name: str) -> Refined:
        """The network called `name`, refined by the usual settings."""
        return cls(network=network, refinement=FullSize(unit=UNITS.get(name, 1.0)))

    @property
    def weights(self) -> Path | None:
        """A file that the network uses instead of the official weights."""
        own: Path | None = self.network.weights
        return own

    def __call__(self, image0: Image, image1: Image) -> Matches:
        return self._refined(image0, image1, self.network(image0, image1))

    def match_many(self, pairs: Sequence[tuple[Image, Image]]) -> list[Matches]:
        """The matches of each pair, which the network sees together if it can."""
        many = getattr(self.network, "match_many", None)
        found = [self.network(*pair) for pair in pairs] if many is None else many(pairs)
        return [
            self._refined(*pair, matches)
            for pair, matches in zip(pairs, found, strict=True)
        ]

    def _refined(self, image0: Image, image1: Image, matches: Matches) -> Matches:
        seen = self._reduction(image0), self._reduction(image1)
        return self.refinement(image0, image1, matches, seen)

    def _reduction(self, image: Image) -> float:
        """How many px of the image's side made one of the network's."""
        longest = max(image.shape[:2])
        limit = self.network.max_side or longest
        return float(np.maximum(longest / limit, 1.0))
