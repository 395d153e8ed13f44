"""CoMatch: the official network's numbers, and cues equal to brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from network_parity import (  # noqa: E402
    FIXTURES,
    SIZES,
    double_network,
    manifest,
    photo_pair,
    save_seeded,
    seeded_pair,
    softmax_std,
)
from semisure.errors import FileError, InputError  # noqa: E402
from semisure.matchers._comatch_net import CoMatchNet, _windows  # noqa: E402
from semisure.matchers.comatch import CoMatch, cues, extra_cues  # noqa: E402
from semisure.types import Matcher  # noqa: E402


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    return save_seeded(tmp_path_factory.mktemp("comatch") / "seeded.ckpt", "comatch")


def test_tensors_are_the_official_checkpoints() -> None:
    own = {name: list(t.shape) for name, t in CoMatchNet().state_dict().items()}
    assert own == manifest("comatch")
    assert sum(p.numel() for p in CoMatchNet().parameters()) == 12_009_413


@pytest.mark.parametrize("pair", SIZES)
def test_matches_and_confidences_are_the_official_ones(pair: str) -> None:
    network = double_network(CoMatchNet(), "comatch")
    known = np.load(FIXTURES / "comatch.npz")
    with torch.inference_mode():
        images = seeded_pair(*SIZES[pair], 1, list(SIZES).index(pair))
        found = network(*images, float(known["threshold"]))
        logits = found.cells.f0 @ found.cells.f1.T
        confidence = torch.softmax(logits, 0) * torch.softmax(logits, 1)
        stds, extras = cues(found), extra_cues(found)
    assert len(found.source) == len(known[f"{pair}_source"]) >= 30
    assert np.abs(found.source.numpy() - known[f"{pair}_source"]).max() < 1e-4
    assert np.abs(found.target.numpy() - known[f"{pair}_target"]).max() < 1e-4
    m = found.chosen.confidence.numpy()
    assert m == pytest.approx(known[f"{pair}_confidence"], abs=1e-5)
    rows = confidence[known[f"{pair}_rows"]].numpy()
    assert np.abs(rows - known[f"{pair}_row_values"]).max() < 1e-5
    for name in ("covisibility0", "covisibility1"):
        official = known[f"{pair}_covisible{name[-1]}"]
        assert extras[name].numpy() == pytest.approx(official, abs=1e-5)
    row_logits = logits[found.chosen.index0].numpy()
    brute = softmax_std(row_logits, found.cells.size1, 8.0)
    assert stds["coarse_std"].numpy() == pytest.approx(brute, abs=1e-5)


def test_fine_cues_add_the_variances_of_both_stages() -> None:
    network = double_network(CoMatchNet(), "comatch")
    with torch.inference_mode():
        cells, fine0, fine1 = network.features(*seeded_pair(*SIZES["square"], 1, 0))
        found = network(*seeded_pair(*SIZES["square"], 1, 0), 0.01)
        index0, index1 = found.chosen.index0[:5], found.chosen.index1[:5]
        windows = network.loftr_fine(_windows(fine0, index0), _windows(fine1, index1))
        stds, extras = cues(found), extra_cues(found)
    w0, w1 = (w[..., :56].numpy() for w in windows)
    for k in range(5):
        similarity = w0[k] @ w1[k].T / 64
        p = np.exp(similarity)
        dual = p / p.sum(0) * (p / p.sum(1, keepdims=True))
        dual = dual.reshape(10, 10, 10, 10)[1:-1, 1:-1, 1:-1, 1:-1]
        y0, x0, y1, x1 = np.unravel_index(dual.argmax(), dual.shape)
        over = similarity.reshape(10, 10, 10, 10)
        for given, heat, answer in (
            (over[y0 + 1, x0 + 1], found.fine.heat1[k], stds["fine_std"][k]),
            (over[:, :, y1 + 1, x1 + 1], found.fine.heat0[k], extras["source_std"][k]),
        ):
            first = softmax_std(given.reshape(1, -1), (10, 10), 1.0)[0]
            second = softmax_std(np.log(heat.numpy())[None], (3, 3), 1.0)[0]
            brute = np.hypot(first, second)
            assert answer.numpy() == pytest.approx(brute, abs=1e-5)
        y, x = divmod(int(index1[k]), cells.size1[1])
        pixel = np.array([8 * x + x1 - 3.5, 8 * y + y1 - 3.5])
        assert np.abs(found.target[k].numpy() - pixel).max() < 1


def test_adapter_maps_back_to_the_images_own_pixels(checkpoint: Path) -> None:
    comatch = CoMatch(weights=checkpoint, threshold=0.001, max_side=160)
    assert isinstance(comatch, Matcher)
    matches, extras = comatch.with_extras(*photo_pair())
    assert (matches.source_size, matches.target_size) == ((101, 150), (163, 99))
    assert len(matches) > 5
    assert (matches.side == 1).all()
    # 101 × 150 px are seen as 96 × 160, and 163 × 99 as 160 × 96.
    assert extras["covisibility0"].shape == (20, 12)
    assert extras["covisibility1"].shape == (12, 20)
    assert (
        extras["covisibility"].shape == extras["source_std"].shape == (len(matches), 2)
    )
    assert matches.fine_window == pytest.approx(8 * (163 / 160 + 99 / 96) / 2)
    for points, size in ((matches.source, (101, 150)), (matches.target, (163, 99))):
        assert (points > 10).all()
        assert (points < np.array(size) - 10).all()


def test_an_image_matches_itself_at_the_same_place(checkpoint: Path) -> None:
    image = photo_pair()[0]
    matches = CoMatch(weights=checkpoint, threshold=0.0)(image, image)
    assert len(matches) > 20
    # Only the second image's features see the first's, so not quite the same.
    gap = np.abs(matches.source - matches.target).max(axis=1)
    assert np.median(gap) < 8


def test_no_matches_is_an_answer(checkpoint: Path) -> None:
    matches, extras = CoMatch(weights=checkpoint, threshold=1.0).with_extras(
        *photo_pair()
    )
    assert len(matches) == len(extras["covisibility"]) == 0


def test_wrong_images_and_checkpoints_get_one_sentence(
    tmp_path: Path, checkpoint: Path
) -> None:
    image = photo_pair()[0]
    with pytest.raises(InputError, match="at least 64 px"):
        CoMatch(weights=checkpoint)(image[:63], image)
    with pytest.raises(InputError, match="fine_stages must be both or second"):
        CoMatch(weights=checkpoint, fine_stages="first")
    name = "coarse_matching.temperature"
    path = save_seeded(tmp_path / "wrong.ckpt", "comatch", **{name: None})
    with pytest.raises(FileError, match=f"lacks the tensor {name}"):
        CoMatch(weights=path)
