"""GIM-LoFTR: the official network's numbers, and cues equal to brute force."""

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
from semisure.matchers._gim_net import GimNet  # noqa: E402
from semisure.matchers.gim import WEIGHTS, GimLoFTR, cues  # noqa: E402
from semisure.types import Matcher  # noqa: E402


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    return save_seeded(tmp_path_factory.mktemp("gim") / "seeded.ckpt", "gim")


def test_tensors_are_the_official_checkpoints() -> None:
    own = {name: list(t.shape) for name, t in GimNet().state_dict().items()}
    assert own == manifest("gim")
    assert sum(p.numel() for p in GimNet().parameters()) == 16_180_312


@pytest.mark.parametrize("pair", SIZES)
def test_matches_and_confidences_are_the_official_ones(pair: str) -> None:
    network = double_network(GimNet(), "gim")
    known = np.load(FIXTURES / "gim.npz")
    with torch.inference_mode():
        images = seeded_pair(*SIZES[pair], 3, list(SIZES).index(pair))
        found = network(*images, float(known["threshold"]))
        logits = found.cells.f0 @ found.cells.f1.T
        confidence = torch.softmax(logits, 0) * torch.softmax(logits, 1)
        stds = cues(found)
    assert len(found.source) == len(known[f"{pair}_source"]) >= 15
    assert np.abs(found.source.numpy() - known[f"{pair}_source"]).max() < 1e-4
    assert np.abs(found.target.numpy() - known[f"{pair}_target"]).max() < 1e-4
    m = found.chosen.confidence.numpy()
    assert m == pytest.approx(known[f"{pair}_confidence"], abs=1e-5)
    rows = confidence[known[f"{pair}_rows"]].numpy()
    assert np.abs(rows - known[f"{pair}_row_values"]).max() < 1e-5
    # The official std is the sum over both axes, in half windows of 4 px.
    both = stds["fine_std"].sum(dim=1).numpy() / 4
    assert both == pytest.approx(known[f"{pair}_std_sum"], abs=1e-5)
    row_logits = logits[found.chosen.index0].numpy()
    brute = softmax_std(row_logits, found.cells.size1, 8.0)
    assert stds["coarse_std"].numpy() == pytest.approx(brute, abs=1e-5)


def test_adapter_maps_back_to_the_images_own_pixels(checkpoint: Path) -> None:
    gim = GimLoFTR(weights=checkpoint, threshold=0.01, max_side=128)
    assert isinstance(gim, Matcher)
    image0, image1 = photo_pair()
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
    assert matches.fine_window == pytest.approx(8 * (163 / 128 + 99 / 80) / 2)


def test_no_matches_is_an_answer(checkpoint: Path) -> None:
    gim = GimLoFTR(weights=checkpoint, threshold=1.0)
    small = [image[:96, :96] for image in photo_pair()]
    assert len(gim(*small)) == 0


def test_grey_images_are_taken_and_others_refused(checkpoint: Path) -> None:
    gim = GimLoFTR(weights=checkpoint, threshold=0.0)
    image = photo_pair()[0][:64, :64]
    assert len(gim(image[..., 0], image[..., :1])) == len(
        gim(image[..., [0] * 3], image[..., [0] * 3])
    )
    with pytest.raises(InputError, match="at least 40 px"):
        gim(image[:30], image)
    with pytest.raises(InputError, match="must be uint8"):
        gim(image / 255.0, image)


def test_other_checkpoints_are_refused_by_name(tmp_path: Path) -> None:
    name = "backbone.encode.conv1.weight"
    path = save_seeded(tmp_path / "wrong.ckpt", "gim", **{name: None})
    with pytest.raises(FileError, match=f"lacks the tensor {name}"):
        GimLoFTR(weights=path)
    assert "research" in WEIGHTS.licence
