"""EDM: the official network's numbers, and cues equal to brute force on both sides."""

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
from semisure.matchers._edm_net import TRAINING_ONLY, EdmNet  # noqa: E402
from semisure.matchers.edm import Edm, cues  # noqa: E402
from semisure.types import Matcher  # noqa: E402


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory) -> Path:
    return save_seeded(tmp_path_factory.mktemp("edm") / "seeded.ckpt", "edm")


def test_tensors_are_the_official_checkpoints_but_for_the_trainings_flow() -> None:
    own = {name: list(t.shape) for name, t in EdmNet().state_dict().items()}
    official = manifest("edm")
    flow = {n for n in official if n.startswith(TRAINING_ONLY)}
    assert own == {n: s for n, s in official.items() if n not in flow}
    assert len(flow) == 75
    assert all(n.startswith("fine_matching.flow.") for n in flow)


@pytest.mark.parametrize("pair", SIZES)
def test_matches_and_confidences_are_the_official_ones(pair: str) -> None:
    network = double_network(EdmNet(), "edm")
    known = np.load(FIXTURES / "edm.npz")
    with torch.inference_mode():
        images = seeded_pair(*SIZES[pair], 1, list(SIZES).index(pair))
        found = network(*images, float(known["threshold"]), float(known["share"]))
        logits = found.cells.f0 @ found.cells.f1.T
        confidence = torch.softmax(logits, 0) * torch.softmax(logits, 1)
        stds = cues(found)
    assert len(found.source) == len(known[f"{pair}_source"]) > 20
    assert np.abs(found.source.numpy() - known[f"{pair}_source"]).max() < 1e-4
    assert np.abs(found.target.numpy() - known[f"{pair}_target"]).max() < 1e-4
    m = found.chosen.confidence.numpy()
    assert m == pytest.approx(known[f"{pair}_confidence"], abs=1e-5)
    rows = confidence[known[f"{pair}_rows"]].numpy()
    assert np.abs(rows - known[f"{pair}_row_values"]).max() < 1e-5
    check_cues(found, stds, logits.numpy())


def check_cues(found, stds: dict, logits: np.ndarray) -> None:
    side = found.side.numpy()
    assert 0 < side.mean() < 1
    over1 = softmax_std(logits[found.chosen.index0], found.cells.size1, 8.0)
    over0 = softmax_std(logits.T[found.chosen.index1], found.cells.size0, 8.0)
    brute = np.where(side[:, None] == 1, over1, over0)
    assert stds["coarse_std"].numpy() == pytest.approx(brute, abs=1e-5)
    heat, at = found.heat.numpy(), np.linspace(-4, 4, 17)
    fine = np.sqrt(heat @ at**2 - (heat @ at) ** 2)
    assert stds["fine_std"].numpy() == pytest.approx(fine, abs=1e-5)
    # The side that is not refined stays on the grid.
    source, target = found.source.numpy(), found.target.numpy()
    fixed = np.where(side[:, None] == 1, source, target)
    assert (fixed % 8 == 0).all()
    assert (source % 8).max() > 0


def test_scores_choose_the_side_as_the_official_code_does() -> None:
    known = np.load(FIXTURES / "edm.npz")
    first, second = np.split(known["square_pred_score"], 2)
    network = double_network(EdmNet(), "edm")
    with torch.inference_mode():
        images = seeded_pair(*SIZES["square"], 1, 0)
        found = network(*images, 0.0, float(known["share"]))
    surer = np.sort(np.maximum(first, second))
    scores = np.sort(1 - found.sigma.numpy().mean(axis=1) / 8)
    assert np.isin(np.round(scores, 9), np.round(surer, 9)).all()


def test_large_similarities_do_not_overflow() -> None:
    # In float32 the official exp gives inf / inf from a logit of 89 on.
    network = double_network(EdmNet(), "edm").float()
    with torch.inference_mode():
        images = (3 * i.float() for i in seeded_pair(*SIZES["square"], 1, 0))
        found = network(*images, 0.0, 1.0)
    assert (found.cells.f0 @ found.cells.f1.T).max() > 89
    assert torch.isfinite(found.chosen.confidence).all()


def test_adapter_maps_back_to_the_images_own_pixels(checkpoint: Path) -> None:
    edm = Edm(weights=checkpoint, threshold=0.001, max_side=128)
    assert isinstance(edm, Matcher)
    matches, extras = edm.with_extras(*photo_pair())
    assert (matches.source_size, matches.target_size) == ((101, 150), (163, 99))
    assert set(matches.side) == {0, 1}
    # 101 × 150 px are seen as 96 × 128, and 163 × 99 as 128 × 64.
    scale = np.array([[101 / 96, 150 / 128], [163 / 128, 99 / 64]])
    fixed = np.where(matches.side[:, None] == 1, matches.source, matches.target)
    cells = (fixed + 0.5) / scale[1 - matches.side] / 8
    assert np.abs(cells - np.round(cells)).max() < 1e-9
    assert matches.fine_window == pytest.approx(8 * scale[matches.side].mean(axis=1))
    native = extras["native_scale"]
    assert native.shape == matches.fine_std.shape
    assert (native > 0).all()
    assert (native < 8 * scale[matches.side]).all()


def test_no_matches_is_an_answer(checkpoint: Path) -> None:
    image0, image1 = photo_pair()
    assert len(Edm(weights=checkpoint, threshold=1.0)(image0, image1)) == 0
    assert len(Edm(weights=checkpoint, share=0.0)(image0, image1)) == 0


def test_wrong_images_and_checkpoints_get_one_sentence(
    tmp_path: Path, checkpoint: Path
) -> None:
    image = photo_pair()[0]
    with pytest.raises(InputError, match="at least 32 px"):
        Edm(weights=checkpoint)(image[:31], image)
    name = "fine_matching.x_head.1.bias"
    path = save_seeded(tmp_path / "wrong.ckpt", "edm", **{name: torch.zeros(3)})
    with pytest.raises(FileError, match=r"x_head\.1\.bias in the shape \(3,\)"):
        Edm(weights=path)
