"""EfficientLoFTR: the library's network, and heads as the original defines them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
transformers = pytest.importorskip("transformers", reason="transformers is missing")

import network_parity as parity  # noqa: E402
from semisure.io.images import Image  # noqa: E402
from semisure.matchers import eloftr as e  # noqa: E402
from semisure.matchers import load_matcher  # noqa: E402
from semisure.matchers.cues import cell_windows  # noqa: E402
from semisure.types import Matcher  # noqa: E402


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    model = transformers.EfficientLoFTRForKeypointMatching(
        transformers.EfficientLoFTRConfig()
    )
    for name, values in model.state_dict().items():
        if name.endswith("running_mean"):
            values.normal_(0.0, 0.1)
        elif values.dim() == 1 and values.is_floating_point():
            values.uniform_(0.5, 1.0)
    return model.eval()


@pytest.fixture(scope="module")
def weights(network, tmp_path_factory) -> Path:
    from safetensors.torch import save_file

    path = tmp_path_factory.mktemp("weights") / "random.safetensors"
    save_file(network.state_dict(), path)
    return path


def texture(height: int, width: int) -> Image:
    noise = np.random.default_rng(0).integers(0, 255, (24, 24, 3), np.uint8)
    image = cv2.resize(noise, (192, 192), interpolation=cv2.INTER_CUBIC)
    return np.asarray(image)[:height, :width]


def maps(size0=(16, 20), size1=(20, 12), seed: int = 0):
    """Coarse and fine maps of a landscape and a portrait that share some cells."""
    g = torch.Generator().manual_seed(seed)
    (h0, w0), (h1, w1) = size0, size1
    c0 = 1.6 * torch.randn(1, 256, h0, w0, generator=g)
    c1 = 1.6 * torch.randn(1, 256, h1, w1, generator=g)
    h, w = min(h0, h1), min(w0, w1)
    # Turned round, so that order is not preserved.
    c1[..., :h, :w] = 0.9 * c0[..., :h, :w].flip(2, 3) + 0.5 * c1[..., :h, :w]
    f0 = 1.5 * torch.randn(1, 64, 8 * h0, 8 * w0, generator=g)
    f1 = 1.5 * torch.randn(1, 64, 8 * h1, 8 * w1, generator=g)
    return [c0, c1], [f0, f1]


def reference(coarse, fine, threshold: float):
    """The original's definition, cell by cell, in float64 and with whole matrices."""
    (h0, w0), (h1, w1) = (c.shape[2:] for c in coarse)
    c0, c1 = (c[0].double().flatten(1).T.numpy() / 16 for c in coarse)
    f0, f1 = (f[0].double().numpy() for f in fine)
    similarity = c0 @ c1.T / 0.1
    rows = softmax(similarity, 1)
    dual = rows * softmax(similarity, 0)
    f1 = np.pad(f1, ((0, 0), (1, 1), (1, 1)))
    matches = []
    for i in range(len(c0)):
        j = dual[i].argmax()
        (y0, x0), (y1, x1) = divmod(i, w0), divmod(int(j), w1)
        inside = 2 <= y0 < h0 - 2 and 2 <= x0 < w0 - 2
        inside &= 2 <= y1 < h1 - 2 and 2 <= x1 < w1 - 2
        if not inside or dual[i, j] <= threshold or dual[:, j].argmax() != i:
            continue
        a = f0[:, 8 * y0 : 8 * y0 + 8, 8 * x0 : 8 * x0 + 8].reshape(64, -1).T
        b = f1[:, 8 * y1 : 8 * y1 + 10, 8 * x1 : 8 * x1 + 10].reshape(64, -1).T
        first = (a[:, :56] / 8) @ (b[:, :56] / 8).T
        row = softmax(first, 1)
        both = (row * softmax(first, 0)).reshape(64, 10, 10)[:, 1:-1, 1:-1]
        left, right = divmod(int(both.reshape(-1).argmax()), 64)
        second = (a[left, 56:] @ (b[:, 56:] / 8**0.5).T).reshape(10, 10)
        yr, xr = divmod(right, 8)
        steps = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1)]
        heat = softmax(np.array([second[yr + dy, xr + dx] for dy, dx in steps]) / 10, 0)
        x, y = np.array([dx for _, dx in steps]), np.array([dy for dy, _ in steps])
        k = np.arange(100)
        matches.append(
            {
                "source": (8 * x0 + left % 8 - 3.5, 8 * y0 + left // 8 - 3.5),
                "target": (
                    8 * x1 + xr - 3.5 + heat @ x,
                    8 * y1 + yr - 3.5 + heat @ y,
                ),
                "confidence": dual[i, j],
                "second": (std(heat, x), std(heat, y)),
                "first": (std(row[left], k % 10), std(row[left], k // 10)),
                "coarse_std": (
                    8 * std(rows[i], np.arange(len(c1)) % w1),
                    8 * std(rows[i], np.arange(len(c1)) // w1),
                ),
            }
        )
    return {name: np.array([f[name] for f in matches]) for name in matches[0]}


def softmax(values: np.ndarray, axis: int) -> np.ndarray:
    weight = np.exp(values - values.max(axis=axis, keepdims=True))
    return weight / weight.sum(axis=axis, keepdims=True)


def std(probability: np.ndarray, values: np.ndarray) -> float:
    mean = probability @ values
    return float(np.sqrt(probability @ (values - mean) ** 2))


def test_heads_are_the_originals(monkeypatch) -> None:
    monkeypatch.setattr("semisure.matchers.cues.FINE_BATCH", 11)
    coarse, fine = maps()
    heads = {k: t.numpy() for k, t in e._heads(coarse, fine, 0.1).items()}
    expected = reference(coarse, fine, 0.1)
    assert len(expected["source"]) == len(heads["source"]) > 50
    # The original's frame has its origin at the corner of the first pixel.
    assert np.abs(heads["source"] + 0.5 - expected["source"]).max() < 1e-4
    assert np.abs(heads["target"] + 0.5 - expected["target"]).max() < 1e-4
    assert heads["confidence"] == pytest.approx(expected["confidence"], abs=1e-5)
    assert heads["coarse_std"] == pytest.approx(
        expected["coarse_std"], rel=1e-5, abs=1e-5
    )
    fine_std = np.hypot(expected["second"], expected["first"])
    assert heads["fine_std"] == pytest.approx(fine_std, abs=1e-5)


def test_features_are_the_librarys(network) -> None:
    """Images of one size, and as large as trained: there the library is right."""
    images = [cv2.resize(texture(192, 192), (832, 64))[:, ::k] for k in (1, -1)]
    tensors = [torch.from_numpy(i[..., 0].copy())[None, None] / 255.0 for i in images]
    with torch.inference_mode():
        stacked = torch.stack([t.expand(1, 3, -1, -1)[0] for t in tensors])[None]
        features = network.efficientloftr(stacked).feature_maps
        windows = network.refinement_layer(features[0] / 16, features[1:])
        own = [network.efficientloftr.backbone(t) for t in tensors]
        coarse = e._transform(network, own[0][-1], own[1][-1])
        scale = features[0].abs().max()
        for k in (0, 1):
            assert (coarse[k][0] - features[0][0, k]).abs().max() < 1e-5 * scale
        fine = network.refinement_layer.forward_pyramid(coarse[1] / 16, own[1][-2::-1])
        index = torch.tensor([0, 17, 40, 8 * 104 - 1])
        own_windows = cell_windows(fine, index, side=10, margin=1)
        assert (
            own_windows - windows[1][0, index]
        ).abs().max() < 1e-4 * fine.abs().max()


def test_original_checkpoint_is_understood(network, weights: Path, tmp_path) -> None:
    """By its own names: one of each kind, written out."""
    pairs = {
        "backbone.layer0.rbr_dense.conv.weight": (
            "efficientloftr.backbone.stages.0.blocks.0.conv1.conv.weight"
        ),
        "matcher.backbone.layer3.13.rbr_1x1.bn.running_var": (
            "efficientloftr.backbone.stages.3.blocks.13.conv2.norm.running_var"
        ),
        "loftr_coarse.layers.5.aggregate.weight": (
            "efficientloftr.local_feature_transformer.layers.2.cross_attention."
            "aggregation.q_aggregation.weight"
        ),
        "loftr_coarse.layers.0.mlp.2.weight": (
            "efficientloftr.local_feature_transformer.layers.0.self_attention."
            "mlp.fc2.weight"
        ),
        "fine_preprocess.layer1_outconv2.1.num_batches_tracked": (
            "refinement_layer.out_conv_layers.1.batch_norm.num_batches_tracked"
        ),
    }
    state = network.state_dict()
    for theirs, ours in pairs.items():
        assert e._library_name(theirs) == ours
        assert ours in state
        assert e._library_name(ours) == ours


def test_any_size_is_mapped_back_to_its_own_pixels(weights: Path) -> None:
    """A portrait and a landscape whose sides are no multiples of 32."""
    eloftr = load_matcher("eloftr", weights=weights)
    assert isinstance(eloftr, Matcher)
    matches = replace(eloftr, threshold=0.0)(*parity.photo_pair())
    assert (matches.source_size, matches.target_size) == ((101, 150), (163, 99))
    assert (matches.side == 1).all()
    # 163 × 99 px are seen as 160 × 96.
    scale = np.array([163 / 160, 99 / 96])
    grid = (matches.cell[:, :, 2] + 0.5) / scale / 8
    assert np.abs(grid - np.round(grid)).max() < 1e-9
    away = np.abs(matches.target - matches.cell[:, :, 2])
    assert (away <= 4.5 * scale + 1e-9).all()
