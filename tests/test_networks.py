"""GIM-LoFTR, CoMatch and EDM: the official numbers, and cues equal to brute force."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("kornia", minversion="0.9", reason="kornia 0.9 is not installed")

import network_parity as parity  # noqa: E402
from semisure.errors import InputError  # noqa: E402
from semisure.matchers import loftr  # noqa: E402
from semisure.matchers.comatch import CoMatch  # noqa: E402
from semisure.matchers.cues import cell_windows, mutual_cells  # noqa: E402
from semisure.matchers.edm import TRAINING_ONLY, Edm  # noqa: E402
from semisure.matchers.gim import GimLoFTR, library_name  # noqa: E402
from semisure.types import Matcher  # noqa: E402

KINDS: dict[str, Any] = {"gim": GimLoFTR, "comatch": CoMatch, "edm": Edm}
RENAMED = {"gim": library_name}


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("seeded")
    return {name: parity.save_seeded(folder / name, name) for name in KINDS}


@pytest.fixture(scope="module")
def doubles(checkpoints) -> dict[str, Any]:
    """The adapters with networks in float64, by the authors' settings."""
    adapters = {}
    for name, kind in KINDS.items():
        official = parity.official(name)
        threshold = float(official["threshold"])
        adapters[name] = kind(weights=checkpoints[name], threshold=threshold)
        rename = RENAMED.get(name, str)
        network = parity.double_network(kind.network(), name, rename)
        object.__setattr__(adapters[name], "model", network)
    return adapters


@pytest.mark.parametrize("name", KINDS)
def test_tensors_are_the_official_checkpoints(name: str) -> None:
    own = {n: list(t.shape) for n, t in KINDS[name].network().state_dict().items()}
    official = parity.manifest(name)
    flow = {n for n in official if n.startswith(TRAINING_ONLY)}
    rename = RENAMED.get(name, str)
    assert own == {rename(n): s for n, s in official.items() if n not in flow}
    assert len(flow) == (75 if name == "edm" else 0)


@pytest.mark.parametrize("size", parity.SIZES)
def test_gims_matches_and_cues_are_the_official_ones(doubles, size: str) -> None:
    gim, theirs = doubles["gim"], parity.official("gim")
    images = parity.images_of(size, 3)
    with torch.inference_mode():
        cells, *_ = loftr.features(gim.model, *images)
        answer = gim._match(*images)
        logits = parity.check_matches(answer, cells, theirs, size, least=15)
    rows = logits[parity.numbers(answer["source"].numpy() + 0.5, cells.size0[1])]
    brute = parity.softmax_std(rows, cells.size1, 8.0)
    assert answer["coarse_std"].numpy() == pytest.approx(brute, abs=1e-5)
    # The official std is the sum over both axes, in half windows of 4 px.
    both = answer["fine_std"].sum(dim=1).numpy() / 4
    assert both == pytest.approx(theirs[f"{size}_std_sum"], abs=1e-5)


@pytest.mark.parametrize("size", parity.SIZES)
def test_comatchs_matches_and_coarse_cue_are_the_official_ones(doubles, size) -> None:
    comatch, theirs = doubles["comatch"], parity.official("comatch")
    images = parity.images_of(size, 1)
    with torch.inference_mode():
        features = comatch.model.features(*images)
        answer, cells = comatch._match(*images), features.cells
        logits = parity.check_matches(answer, cells, theirs, size, least=30)
        chosen = mutual_cells(cells, threshold=comatch.threshold)
    brute = parity.softmax_std(logits[chosen.index0], cells.size1, 8.0)
    assert answer["coarse_std"].numpy() == pytest.approx(brute, abs=1e-5)


def test_comatchs_fine_cues_add_the_variances_of_both_stages(doubles) -> None:
    network = doubles["comatch"].model
    with torch.inference_mode():
        features = network.features(*parity.images_of("square", 1))
        chosen = mutual_cells(features.cells, threshold=0.01)
        index0, index1 = chosen.index0[:5], chosen.index1[:5]
        fine = network.refine(features, index0, index1)
        windows = network.loftr_fine(
            cell_windows(features.fine0, index0, side=10, margin=1),
            cell_windows(features.fine1, index1, side=10, margin=1),
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


@pytest.mark.parametrize("size", parity.SIZES)
def test_edms_matches_and_cues_are_the_official_ones(doubles, size: str) -> None:
    edm, theirs = doubles["edm"], parity.official("edm")
    images = parity.images_of(size, 1)
    with torch.inference_mode():
        cells, fine0, fine1 = edm.model.features(*images)
        answer = edm._match(*images)
        logits = parity.check_matches(answer, cells, theirs, size, least=21)
        # The side that is not refined stays on the grid, the other is in its cell.
        source, target, cell, side = (
            answer[name].numpy() for name in ("source", "target", "cell", "side")
        )
        on1 = side[:, None]
        index0 = parity.numbers(np.where(on1, source, cell) + 0.5, cells.size0[1])
        index1 = parity.numbers(np.where(on1, cell, target) + 0.5, cells.size1[1])
        heat1, _ = edm.model.fine_matching(fine0[index0], fine1[index1])
        heat0, _ = edm.model.fine_matching(fine1[index1], fine0[index0])
    assert 0 < side.mean() < 1
    over1 = parity.softmax_std(logits[index0], cells.size1, 8.0)
    over0 = parity.softmax_std(logits.T[index1], cells.size0, 8.0)
    coarse = np.where(on1, over1, over0)
    assert answer["coarse_std"].numpy() == pytest.approx(coarse, abs=1e-5)
    heat, at = np.where(on1[..., None], heat1, heat0), np.linspace(-4, 4, 17)
    fine = np.sqrt(heat @ at**2 - (heat @ at) ** 2)
    assert answer["fine_std"].numpy() == pytest.approx(fine, abs=1e-5)


@pytest.mark.parametrize(
    ("name", "max_side", "threshold", "seen", "reach"),
    [
        ("gim", 128, 0.01, ((88, 128), (128, 80)), 4.0),
        # From the outermost pixel, 3.5 px from the middle, a step of at most 1 px.
        ("comatch", 160, 0.001, ((96, 160), (160, 96)), 4.5),
        ("edm", 128, 0.001, ((96, 128), (128, 64)), 4.0),
    ],
)
def test_adapters_map_back_to_the_images_own_pixels(
    checkpoints, name: str, max_side: int, threshold: float, seen, reach: float
) -> None:
    matcher = KINDS[name](
        weights=checkpoints[name], threshold=threshold, max_side=max_side
    )
    assert isinstance(matcher, Matcher)
    matches = matcher(*parity.photo_pair())
    assert (matches.source_size, matches.target_size) == ((101, 150), (163, 99))
    assert len(matches) > 5
    assert set(matches.side) == ({0, 1} if name == "edm" else {1})
    scale = np.array([(101, 150), (163, 99)]) / np.array(seen)
    own = scale[matches.side]
    assert matches.fine_window == pytest.approx(8 * own.mean(axis=1))
    on_grid = [(matches.cell[:, :, 2] + 0.5) / own / 8]
    if name != "comatch":  # which moves both points
        fixed = np.where(matches.side[:, None] == 1, matches.source, matches.target)
        on_grid.append((fixed + 0.5) / scale[1 - matches.side] / 8)
    for grid in on_grid:
        assert np.abs(grid - np.round(grid)).max() < 1e-9
    away = np.abs(matches.refined - matches.cell[:, :, 2])
    assert (away <= reach * own + 1e-9).all()
    assert matches.fine_std.min() > 0


@pytest.mark.parametrize("name", KINDS)
def test_no_match_grey_images_and_wrong_ones(checkpoints, name: str) -> None:
    matcher = KINDS[name](weights=checkpoints[name], threshold=1.0)
    small, other = (image[:96, :96] for image in parity.photo_pair())
    assert len(matcher(small, other)) == 0
    with pytest.raises(InputError, match=f"at least {matcher.min_side} px"):
        matcher(small[: matcher.min_side - 1], other)
    with pytest.raises(InputError, match="must be uint8"):
        matcher(small / 255.0, other)
    grey, least = small[..., 0], type(matcher)(weights=checkpoints[name], threshold=0.0)
    assert len(least(grey, grey[..., None])) == len(least(*2 * [small[..., [0] * 3]]))
