"""EDM: the official network's numbers, and cues equal to brute force on both sides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import network_parity as parity  # noqa: E402
from semisure.errors import FileError, InputError  # noqa: E402
from semisure.matchers.edm import TRAINING_ONLY, Edm, EdmNet  # noqa: E402
from semisure.types import Matcher  # noqa: E402

checkpoint = parity.checkpoint_fixture("edm")


def test_tensors_are_the_official_checkpoints_but_for_the_trainings_flow() -> None:
    own = {name: list(t.shape) for name, t in EdmNet().state_dict().items()}
    official = parity.manifest("edm")
    flow = {n for n in official if n.startswith(TRAINING_ONLY)}
    assert own == {n: s for n, s in official.items() if n not in flow}
    assert len(flow) == 75
    assert all(n.startswith("fine_matching.flow.") for n in flow)


@pytest.mark.parametrize("size", parity.SIZES)
def test_matches_and_confidences_are_the_official_ones(size: str) -> None:
    network = parity.double_network(EdmNet(), "edm")
    theirs = parity.official("edm")
    images = parity.images_of(size, 1)
    with torch.inference_mode():
        cells, fine0, fine1 = network.features(*images)
        answer = network(*images, float(theirs["threshold"]), float(theirs["share"]))
        logits = parity.check_matches(answer, cells, theirs, size, least=21)
        # The side that is not refined stays on the grid, the other is in its cell.
        source, target, cell, side = (
            answer[name].numpy() for name in ("source", "target", "cell", "side")
        )
        corners = (
            np.where(side[:, None], fixed, moved) + 0.5
            for fixed, moved in ((source, cell), (cell, target))
        )
        index0, index1 = (
            parity.numbers(corner, s[1])
            for corner, s in zip(corners, (cells.size0, cells.size1), strict=True)
        )
        heat1, _ = network.fine_matching(fine0[index0], fine1[index1])
        heat0, _ = network.fine_matching(fine1[index1], fine0[index0])
    assert 0 < side.mean() < 1
    over1 = parity.softmax_std(logits[index0], cells.size1, 8.0)
    over0 = parity.softmax_std(logits.T[index1], cells.size0, 8.0)
    brute = np.where(side[:, None], over1, over0)
    assert answer["coarse_std"].numpy() == pytest.approx(brute, abs=1e-5)
    heat, at = np.where(side[:, None, None], heat1, heat0), np.linspace(-4, 4, 17)
    fine = np.sqrt(heat @ at**2 - (heat @ at) ** 2)
    assert answer["fine_std"].numpy() == pytest.approx(fine, abs=1e-5)


def test_large_similarities_do_not_overflow() -> None:
    # In float32 the official exp gives inf / inf from a logit of 89 on.
    network = parity.double_network(EdmNet(), "edm").float()
    images = [3 * image.float() for image in parity.images_of("square", 1)]
    with torch.inference_mode():
        cells, *_ = network.features(*images)
        answer = network(*images, 0.0, 1.0)
    assert (cells.f0 @ cells.f1.T).max() > 89
    assert torch.isfinite(answer["confidence"]).all()


def test_adapter_maps_back_to_the_images_own_pixels(checkpoint: Path) -> None:
    edm = Edm(weights=checkpoint, threshold=0.001, max_side=128)
    assert isinstance(edm, Matcher)
    matches = edm(*parity.photo_pair())
    assert (matches.source_size, matches.target_size) == ((101, 150), (163, 99))
    assert set(matches.side) == {0, 1}
    # 101 × 150 px are seen as 96 × 128, and 163 × 99 as 128 × 64.
    scale = np.array([[101 / 96, 150 / 128], [163 / 128, 99 / 64]])
    fixed = np.where(matches.side[:, None] == 1, matches.source, matches.target)
    cells = (fixed + 0.5) / scale[1 - matches.side] / 8
    assert np.abs(cells - np.round(cells)).max() < 1e-9
    assert matches.fine_window == pytest.approx(8 * scale[matches.side].mean(axis=1))
    grid = (matches.cell[:, :, 2] + 0.5) / scale[matches.side] / 8
    assert np.abs(grid - np.round(grid)).max() < 1e-9
    assert matches.in_cell(matches.refined).all()  # offsets reach the edges, no further


def test_no_matches_is_an_answer(checkpoint: Path) -> None:
    image0, image1 = parity.photo_pair()
    assert len(Edm(weights=checkpoint, threshold=1.0)(image0, image1)) == 0
    assert len(Edm(weights=checkpoint, share=0.0)(image0, image1)) == 0


def test_wrong_images_and_checkpoints_get_one_sentence(
    tmp_path: Path, checkpoint: Path
) -> None:
    image = parity.photo_pair()[0]
    with pytest.raises(InputError, match="at least 32 px"):
        Edm(weights=checkpoint)(image[:31], image)
    name = "fine_matching.x_head.1.bias"
    path = parity.save_seeded(tmp_path / "wrong.ckpt", "edm", **{name: torch.zeros(3)})
    with pytest.raises(FileError, match=r"x_head\.1\.bias in the shape \(3,\)"):
        Edm(weights=path)
