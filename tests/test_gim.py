"""GIM-LoFTR: the official network's numbers, and cues equal to brute force."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import network_parity as parity  # noqa: E402
from semisure.errors import FileError, InputError  # noqa: E402
from semisure.matchers.gim import GimLoFTR, GimNet  # noqa: E402
from semisure.types import Matcher  # noqa: E402

checkpoint = parity.checkpoint_fixture("gim")


def test_tensors_are_the_official_checkpoints() -> None:
    own = {name: list(t.shape) for name, t in GimNet().state_dict().items()}
    assert own == parity.manifest("gim")
    assert sum(p.numel() for p in GimNet().parameters()) == 16_180_312


@pytest.mark.parametrize("size", parity.SIZES)
def test_matches_and_confidences_are_the_official_ones(size: str) -> None:
    network = parity.double_network(GimNet(), "gim")
    theirs = parity.official("gim")
    images = parity.images_of(size, 3)
    with torch.inference_mode():
        cells, *_ = network.features(*images)
        answer = network(*images, float(theirs["threshold"]))
        logits = parity.check_matches(answer, cells, theirs, size, least=15)
    # The coarse cue is the std of each row's softmax, by brute force.
    rows = logits[parity.numbers(answer["source"].numpy() + 0.5, cells.size0[1])]
    brute = parity.softmax_std(rows, cells.size1, 8.0)
    assert answer["coarse_std"].numpy() == pytest.approx(brute, abs=1e-5)
    # The official std is the sum over both axes, in half windows of 4 px.
    both = answer["fine_std"].sum(dim=1).numpy() / 4
    assert both == pytest.approx(theirs[f"{size}_std_sum"], abs=1e-5)


def test_adapter_maps_back_to_the_images_own_pixels(checkpoint: Path) -> None:
    gim = GimLoFTR(weights=checkpoint, threshold=0.01, max_side=128)
    assert isinstance(gim, Matcher)
    image0, image1 = parity.photo_pair()
    matches = gim(image0, image1)
    assert (matches.source_size, matches.target_size) == ((101, 150), (163, 99))
    assert len(matches) > 5
    assert (matches.side == 1).all()
    # 101 × 150 px are seen as 88 × 128, so image 0's points are on that grid.
    seen = (matches.source + 0.5) / np.array([101 / 88, 150 / 128])
    assert np.abs(seen / 8 - np.round(seen / 8)).max() < 1e-9
    assert seen.min() >= 16
    assert matches.fine_std.min() > 0
    # 163 × 99 px are seen as 128 × 80.
    scale = np.array([163 / 128, 99 / 80])
    assert matches.fine_window == pytest.approx(8 * scale.mean())
    # The cell is 8 px of the view, about a point of its grid.
    np.testing.assert_allclose(matches.cell[0, :, :2], np.diag(4 * scale))
    grid = (matches.cell[:, :, 2] + 0.5) / scale / 8
    assert np.abs(grid - np.round(grid)).max() < 1e-9
    assert matches.in_cell(matches.target).all()


def test_no_matches_is_an_answer(checkpoint: Path) -> None:
    gim = GimLoFTR(weights=checkpoint, threshold=1.0)
    small = [image[:96, :96] for image in parity.photo_pair()]
    assert len(gim(*small)) == 0


def test_grey_images_are_taken_and_others_refused(checkpoint: Path) -> None:
    gim = GimLoFTR(weights=checkpoint, threshold=0.0)
    image = parity.photo_pair()[0][:64, :64]
    assert len(gim(image[..., 0], image[..., :1])) == len(
        gim(image[..., [0] * 3], image[..., [0] * 3])
    )
    with pytest.raises(InputError, match="at least 40 px"):
        gim(image[:30], image)
    with pytest.raises(InputError, match="must be uint8"):
        gim(image / 255.0, image)


def test_other_checkpoints_are_refused_by_name(tmp_path: Path) -> None:
    name = "backbone.encode.conv1.weight"
    path = parity.save_seeded(tmp_path / "wrong.ckpt", "gim", **{name: None})
    with pytest.raises(FileError, match=f"lacks the tensor {name}"):
        GimLoFTR(weights=path)
