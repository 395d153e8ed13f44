"""CoMatch: the official network's numbers, and cues equal to brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import network_parity as parity  # noqa: E402
from semisure.errors import FileError, InputError  # noqa: E402
from semisure.matchers.comatch import CoMatch, CoMatchNet  # noqa: E402
from semisure.matchers.cues import cell_windows, mutual_cells  # noqa: E402
from semisure.types import Matcher  # noqa: E402

checkpoint = parity.checkpoint_fixture("comatch")


def test_tensors_are_the_official_checkpoints() -> None:
    own = {name: list(t.shape) for name, t in CoMatchNet().state_dict().items()}
    assert own == parity.manifest("comatch")
    assert sum(p.numel() for p in CoMatchNet().parameters()) == 12_009_413


@pytest.mark.parametrize("size", parity.SIZES)
def test_matches_and_confidences_are_the_official_ones(size: str) -> None:
    network = parity.double_network(CoMatchNet(), "comatch")
    theirs = parity.official("comatch")
    images, threshold = parity.images_of(size, 1), float(theirs["threshold"])
    with torch.inference_mode():
        features = network.features(*images)
        answer = network(*images, threshold)
        cells = features.cells
        logits = parity.check_matches(answer, cells, theirs, size, least=30)
        chosen = mutual_cells(cells, threshold=threshold, border=2)
    brute = parity.softmax_std(logits[chosen.index0], cells.size1, 8.0)
    assert answer["coarse_std"].numpy() == pytest.approx(brute, abs=1e-5)
    for k, covisible in enumerate((features.covisible0, features.covisible1)):
        official = theirs[f"{size}_covisible{k}"]
        assert covisible[0, 0].numpy() == pytest.approx(official, abs=1e-5)


def test_fine_cues_add_the_variances_of_both_stages() -> None:
    network = parity.double_network(CoMatchNet(), "comatch")
    with torch.inference_mode():
        features = network.features(*parity.images_of("square", 1))
        chosen = mutual_cells(features.cells, threshold=0.01, border=2)
        index0, index1 = chosen.index0[:5], chosen.index1[:5]
        fine = network.refine(features, index0, index1)
        windows = network.loftr_fine(
            cell_windows(features.fine0, index0, side=10, step=8, margin=1),
            cell_windows(features.fine1, index1, side=10, step=8, margin=1),
        )
    soften = 8**0.5 * network.fine_matching.local_regress_temperature.item()
    for k, (w0, w1) in enumerate(zip(*(w.numpy() for w in windows), strict=True)):
        similarity = w0[:, :56] @ w1[:, :56].T / 64
        p = np.exp(similarity)
        dual = p / p.sum(0) * (p / p.sum(1, keepdims=True))
        dual = dual.reshape(10, 10, 10, 10)[1:-1, 1:-1, 1:-1, 1:-1]
        y0, x0, y1, x1 = np.unravel_index(dual.argmax(), dual.shape)
        row = similarity.reshape(10, 10, 100)[y0 + 1, x0 + 1]
        # One pixel up and to the left, as the weights were trained.
        near = [
            np.roll(w.reshape(10, 10, 64), (1 - y, 1 - x), (0, 1))[:3, :3, 56:]
            for w, y, x in ((w0, y0, x0), (w1, y1, x1))
        ]
        middle = (near[0][1, 1] + near[1][1, 1]) / 2
        second = near[1].reshape(9, 8) @ middle / soften
        brute = np.hypot(
            parity.softmax_std(row[None], (10, 10), 1.0)[0],
            parity.softmax_std(second[None], (3, 3), 1.0)[0],
        )
        assert fine.std1[k].numpy() == pytest.approx(brute, abs=1e-5)
        step = fine.offset1[k].numpy() - (x1 - 3.5, y1 - 3.5)
        assert np.abs(step).max() < 1


def test_adapter_maps_back_to_the_images_own_pixels(checkpoint: Path) -> None:
    comatch = CoMatch(weights=checkpoint, threshold=0.001, max_side=160)
    assert isinstance(comatch, Matcher)
    matches = comatch(*parity.photo_pair())
    assert (matches.source_size, matches.target_size) == ((101, 150), (163, 99))
    assert len(matches) > 5
    assert (matches.side == 1).all()
    # 101 × 150 px are seen as 96 × 160, and 163 × 99 as 160 × 96.
    assert matches.fine_window == pytest.approx(8 * (163 / 160 + 99 / 96) / 2)
    grid = (matches.cell[:, :, 2] + 0.5) / np.array([163 / 160, 99 / 96]) / 8
    assert np.abs(grid - np.round(grid)).max() < 1e-9
    # From the outermost pixel, 3.5 px from the middle, a step of at most 1 px.
    away = np.abs(matches.target - matches.cell[:, :, 2])
    assert (away <= 4.5 * np.array([163 / 160, 99 / 96]) + 1e-9).all()
    for points, size in ((matches.source, (101, 150)), (matches.target, (163, 99))):
        assert (points > 10).all()
        assert (points < np.array(size) - 10).all()


def test_no_matches_is_an_answer(checkpoint: Path) -> None:
    assert not len(CoMatch(weights=checkpoint, threshold=1.0)(*parity.photo_pair()))


def test_wrong_images_and_checkpoints_get_one_sentence(
    tmp_path: Path, checkpoint: Path
) -> None:
    image = parity.photo_pair()[0]
    with pytest.raises(InputError, match="at least 64 px"):
        CoMatch(weights=checkpoint)(image[:63], image)
    name = "coarse_matching.temperature"
    path = parity.save_seeded(tmp_path / "wrong.ckpt", "comatch", **{name: None})
    with pytest.raises(FileError, match=f"lacks the tensor {name}"):
        CoMatch(weights=path)
