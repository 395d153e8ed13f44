"""Pairs that go through a network together have the matches that each has alone."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import network_parity as parity  # noqa: E402
from semisure.matchers._batches import first_layers  # noqa: E402
from semisure.types import Matches  # noqa: E402

Pairs = list[tuple[np.ndarray, np.ndarray]]


@pytest.fixture(scope="module")
def pairs() -> Pairs:
    """Four pairs of four images: one is in three pairs, one has a size of its own."""
    rng = np.random.default_rng(3)
    noise = torch.from_numpy(rng.random((3, 3, 18, 24)).astype(np.float32))
    large = torch.nn.functional.interpolate(noise, size=(144, 192), mode="bicubic")
    pictures = (255 * large.clamp(0, 1)).byte().permute(0, 2, 3, 1).numpy()
    first, second, third = (picture[:96, :128].copy() for picture in pictures)
    moved, taller = pictures[0, 6:102, 9:137].copy(), pictures[1, :128, :96].copy()
    return [(first, moved), (first, second), (third, taller), (moved, first)]


@pytest.fixture(scope="module", params=parity.NETWORKS)
def matcher(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    return parity.random_matcher(request.param, tmp_path_factory.mktemp("weights"))


def share_found(one: Matches, other: Matches) -> float:
    """How many matches are in the other too, points and stds within 0.01 px."""
    rows = [
        np.hstack([m.source, m.target, m.coarse_std, m.fine_std]) for m in (one, other)
    ]
    apart = np.abs(rows[0][:, None] - rows[1]).max(axis=2)
    return float((apart.min(axis=1, initial=np.inf) < 0.01).mean())


@pytest.mark.slow
def test_pairs_matched_together_have_the_matches_of_each_alone(
    matcher, pairs: Pairs
) -> None:
    alone = [matcher(*pair) for pair in pairs]
    together = matcher.match_many(pairs)
    assert sum(len(matches) for matches in alone) > 25
    for one, other in zip(alone, together, strict=True):
        assert one.source_size == other.source_size
        assert one.target_size == other.target_size
        # Where two cells are equally good, rounding decides between them.
        assert share_found(one, other) > 0.95
        assert share_found(other, one) > 0.95


def test_no_pair_is_no_error(matcher) -> None:
    assert matcher.match_many([]) == []


def test_an_image_of_several_pairs_goes_through_the_first_layers_once() -> None:
    seen: list[int] = []

    def double(images: torch.Tensor) -> list[torch.Tensor]:
        seen.append(len(images))
        return [2 * images]

    a, b, c = (torch.full((1, 1, 2, 2), float(k)) for k in range(3))
    wide = torch.full((1, 1, 2, 5), 7.0)
    first, second = first_layers(double, [a, a, b], [b, c, wide])
    assert sum(seen) == 4
    assert max(seen) <= 3  # no more at a time than there are pairs
    assert [float(m[0].max()) for m in first] == [0, 0, 2]
    assert [float(m[0].max()) for m in second] == [2, 4, 14]
    assert second[2][0].shape == (1, 1, 2, 5)
