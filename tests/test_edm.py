"""EDM: the official network's numbers, and cues equal to brute force on both sides."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

import network_parity as parity  # noqa: E402
from semisure.errors import FileError, InputError  # noqa: E402
from semisure.matchers._edm_net import TRAINING_ONLY, EdmNet  # noqa: E402
from semisure.matchers._stopwatch import seconds_on_cues  # noqa: E402
from semisure.matchers.edm import Edm, cues  # noqa: E402
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
    answer = parity.official("edm")
    settings = float(answer["threshold"]), float(answer["share"])
    with torch.inference_mode():
        (raw,) = network(*parity.images_of(size, 1), *settings)
        stds = cues(raw)
        logits = parity.check_matches(raw, answer, size, least=21)
    check_cues(raw, stds, logits)


def check_cues(raw, stds: dict, logits: np.ndarray) -> None:
    side = raw.side.numpy()
    assert 0 < side.mean() < 1
    over1 = parity.softmax_std(logits[raw.chosen.index0], raw.cells.size1, 8.0)
    over0 = parity.softmax_std(logits.T[raw.chosen.index1], raw.cells.size0, 8.0)
    brute = np.where(side[:, None] == 1, over1, over0)
    assert stds["coarse_std"].numpy() == pytest.approx(brute, abs=1e-5)
    heat, at = raw.heat.numpy(), np.linspace(-4, 4, 17)
    fine = np.sqrt(heat @ at**2 - (heat @ at) ** 2)
    assert stds["fine_std"].numpy() == pytest.approx(fine, abs=1e-5)
    # The side that is not refined stays on the grid.
    source, target = raw.source.numpy(), raw.target.numpy()
    fixed = np.where(side[:, None] == 1, source, target)
    assert (fixed % 8 == 0).all()
    assert (source % 8).max() > 0


def test_scores_choose_the_side_as_the_official_code_does() -> None:
    answer = parity.official("edm")
    first, second = np.split(answer["square_pred_score"], 2)
    network = parity.double_network(EdmNet(), "edm")
    with torch.inference_mode():
        images = parity.images_of("square", 1)
        (raw,) = network(*images, 0.0, float(answer["share"]))
    surer = np.sort(np.maximum(first, second))
    scores = np.sort(1 - raw.sigma.numpy().mean(axis=1) / 8)
    assert np.isin(np.round(scores, 9), np.round(surer, 9)).all()


def test_large_similarities_do_not_overflow() -> None:
    # In float32 the official exp gives inf / inf from a logit of 89 on.
    network = parity.double_network(EdmNet(), "edm").float()
    with torch.inference_mode():
        images = ([3 * i.float()] for (i,) in parity.images_of("square", 1))
        (raw,) = network(*images, 0.0, 1.0)
    assert (raw.cells.f0 @ raw.cells.f1.T).max() > 89
    assert torch.isfinite(raw.chosen.confidence).all()


def test_adapter_maps_back_to_the_images_own_pixels(checkpoint: Path) -> None:
    edm = Edm(weights=checkpoint, threshold=0.001, max_side=128)
    assert isinstance(edm, Matcher)
    matches, extras = edm.with_extras(*parity.photo_pair())
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
    native = extras["native_scale"]
    assert native.shape == matches.fine_std.shape
    assert (native > 0).all()
    assert (native < 8 * scale[matches.side]).all()


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


def test_the_clock_counts_both_cues(checkpoint: Path) -> None:
    """The spread of the coarse rows and that of the fine heat maps, each by itself."""
    before = seconds_on_cues()
    Edm(weights=checkpoint, threshold=0.001)(*parity.photo_pair())
    after = seconds_on_cues()
    assert after["coarse"] > before["coarse"]
    assert after["fine"] > before["fine"]
