"""Fixtures: one planted law, one planted pair."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from semisure.engine import Engine, EngineSettings, open_engine
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography
from semisure.types import Calibration, FloatArray, Matches

# The same examples everywhere, and no clock: machines are noisy.
settings.register_profile(
    "quiet",
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("quiet")


@pytest.fixture(autouse=True)
def _offline(
    monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No test fetches weights, or writes into the user's cache."""
    monkeypatch.setenv("SEMISURE_OFFLINE", "1")
    cache = tmp_path_factory.getbasetemp() / "cache"
    monkeypatch.setenv("SEMISURE_CACHE", str(cache))
    monkeypatch.setenv("SEMISURE_QUIET", "")  # which --quiet sets, for one test only


@pytest.fixture
def calibration() -> Calibration:
    return EXAMPLE_CALIBRATION


@pytest.fixture
def truth() -> FloatArray:
    return random_homography(np.random.default_rng(7))


@pytest.fixture
def planted(truth: FloatArray) -> tuple[Matches, FloatArray]:
    """1,500 matches under `truth` and their residuals."""
    return SyntheticMatcher().match(truth, count=1500, seed=7)


@pytest.fixture
def matches(planted: tuple[Matches, FloatArray]) -> Matches:
    return planted[0]


@pytest.fixture(scope="session")
def pool() -> Iterator[Engine]:
    """The worker process that all benches share."""
    with open_engine(EngineSettings(workers=1)) as made:
        yield made


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Matches and rows that benches share."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def sequences(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sequences of two pairs each."""
    from bench_trees import write_sequences

    return write_sequences(tmp_path_factory.mktemp("sequences"))


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """MegaDepth with both indexes, and two planar sequences."""
    from bench_trees import TRAINING, add_sequence, write_scene

    root = tmp_path_factory.mktemp("data")
    for scene in ("0015", "0022"):
        write_scene(root / "mega", scene)
    for scene in ("0001", "0002", "0015"):
        write_scene(root / "mega", scene, index=TRAINING)
    for k, name in enumerate(("i_a", "v_b")):
        add_sequence(root / "planar" / name, 40 + k)
    return root
