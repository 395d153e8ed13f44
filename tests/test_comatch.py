"""CoMatch: the official network's numbers, and cues equal to brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import network_parity as parity  # noqa: E402
from semisure.errors import FileError, InputError  # noqa: E402
from semisure.matchers._comatch_net import CoMatchNet, _windows  # noqa: E402
from semisure.matchers._stopwatch import seconds_on_cues  # noqa: E402
from semisure.matchers.comatch import CoMatch, cues, extra_cues  # noqa: E402
from semisure.types import Matcher  # noqa: E402

checkpoint = parity.checkpoint_fixture("comatch")


def test_tensors_are_the_official_checkpoints() -> None:
    own = {name: list(t.shape) for name, t in CoMatchNet().state_dict().items()}
    assert own == parity.manifest("comatch")
    assert sum(p.numel() for p in CoMatchNet().parameters()) == 12_009_413


@pytest.mark.parametrize("size", parity.SIZES)
def test_matches_and_confidences_are_the_official_ones(size: str) -> None:
    network = parity.double_network(CoMatchNet(), "comatch")
    answer = parity.official("comatch")
    with torch.inference_mode():
        (raw,) = network(*parity.images_of(size, 1), float(answer["threshold"]))
        stds, extras = cues(raw), extra_cues(raw)
        logits = parity.check_matches(raw, answer, size, least=30)
    parity.check_coarse_std(raw, stds["coarse_std"], logits)
    for name in ("covisibility0", "covisibility1"):
        covisible = answer[f"{size}_covisible{name[-1]}"]
        assert extras[name].numpy() == pytest.approx(covisible, abs=1e-5)


def test_fine_cues_add_the_variances_of_both_stages() -> None:
    network = parity.double_network(CoMatchNet(), "comatch")
    with torch.inference_mode():
        (features,) = network.features(*parity.images_of("square", 1))
        (raw,) = network(*parity.images_of("square", 1), 0.01)
        index0, index1 = raw.chosen.index0[:5], raw.chosen.index1[:5]
        windows = network.loftr_fine(
            _windows(features.fine0, index0), _windows(features.fine1, index1)
        )
        stds, extras = cues(raw), extra_cues(raw)
    w0, w1 = (w[..., :56].numpy() for w in windows)
    for k in range(5):
        similarity = w0[k] @ w1[k].T / 64
        p = np.exp(similarity)
        dual = p / p.sum(0) * (p / p.sum(1, keepdims=True))
        dual = dual.reshape(10, 10, 10, 10)[1:-1, 1:-1, 1:-1, 1:-1]
        y0, x0, y1, x1 = np.unravel_index(dual.argmax(), dual.shape)
        over = similarity.reshape(10, 10, 10, 10)
        for logits, heat, std in (
            (over[y0 + 1, x0 + 1], raw.fine.heat1[k], stds["fine_std"][k]),
            (over[:, :, y1 + 1, x1 + 1], raw.fine.heat0[k], extras["source_std"][k]),
        ):
            first = parity.softmax_std(logits.reshape(1, -1), (10, 10), 1.0)[0]
            second = parity.softmax_std(np.log(heat.numpy())[None], (3, 3), 1.0)[0]
            brute = np.hypot(first, second)
            assert std.numpy() == pytest.approx(brute, abs=1e-5)
        y, x = divmod(int(index1[k]), features.cells.size1[1])
        pixel = np.array([8 * x + x1 - 3.5, 8 * y + y1 - 3.5])
        assert np.abs(raw.target[k].numpy() - pixel).max() < 1


def test_adapter_maps_back_to_the_images_own_pixels(checkpoint: Path) -> None:
    comatch = CoMatch(weights=checkpoint, threshold=0.001, max_side=160)
    assert isinstance(comatch, Matcher)
    matches, extras = comatch.with_extras(*parity.photo_pair())
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
    grid = (matches.cell[:, :, 2] + 0.5) / np.array([163 / 160, 99 / 96]) / 8
    assert np.abs(grid - np.round(grid)).max() < 1e-9
    # From the outermost pixel, 3.5 px from the middle, a step of at most 1 px.
    away = np.abs(matches.target - matches.cell[:, :, 2])
    assert (away <= 4.5 * np.array([163 / 160, 99 / 96]) + 1e-9).all()
    for points, size in ((matches.source, (101, 150)), (matches.target, (163, 99))):
        assert (points > 10).all()
        assert (points < np.array(size) - 10).all()


def test_an_image_matches_itself_at_the_same_place(checkpoint: Path) -> None:
    image = parity.photo_pair()[0]
    matches = CoMatch(weights=checkpoint, threshold=0.0)(image, image)
    assert len(matches) > 20
    # Only the second image's features see the first's, so not quite the same.
    gap = np.abs(matches.source - matches.target).max(axis=1)
    assert np.median(gap) < 8


def test_no_matches_is_an_answer(checkpoint: Path) -> None:
    matches, extras = CoMatch(weights=checkpoint, threshold=1.0).with_extras(
        *parity.photo_pair()
    )
    assert len(matches) == len(extras["covisibility"]) == 0


def test_wrong_images_and_checkpoints_get_one_sentence(
    tmp_path: Path, checkpoint: Path
) -> None:
    image = parity.photo_pair()[0]
    with pytest.raises(InputError, match="at least 64 px"):
        CoMatch(weights=checkpoint)(image[:63], image)
    with pytest.raises(InputError, match="fine_stages must be one of both, second"):
        CoMatch(weights=checkpoint, fine_stages="first")
    name = "coarse_matching.temperature"
    path = parity.save_seeded(tmp_path / "wrong.ckpt", "comatch", **{name: None})
    with pytest.raises(FileError, match=f"lacks the tensor {name}"):
        CoMatch(weights=path)


def test_the_clock_counts_both_cues(checkpoint: Path) -> None:
    """The spread of the coarse rows and that of the fine heat maps, each by itself."""
    before = seconds_on_cues()
    CoMatch(weights=checkpoint, threshold=0.001)(*parity.photo_pair())
    after = seconds_on_cues()
    assert after["coarse"] > before["coarse"]
    assert after["fine"] > before["fine"]
