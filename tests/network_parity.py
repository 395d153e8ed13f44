"""What the parity tests of the networks share: weights, images, official answers.

The fixtures in `fixtures/` came from the official implementations, run once in float64
with these weights on these images; their code is not needed to test against them.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import ndimage

from semisure.matchers.cues import Cells

torch.set_num_threads(1)  # images this small make threads wait for each other

FIXTURES = Path(__file__).parent / "fixtures"


def manifest(name: str) -> dict[str, list[int]]:
    """Names and shapes of the official module's tensors."""
    return json.loads((FIXTURES / f"{name}_manifest.json").read_text(encoding="utf-8"))


def seeded_state(shapes: dict[str, list[int]]) -> dict[str, torch.Tensor]:
    """Random weights that depend on each tensor's name only, in float64."""
    return {name: _tensor(name, shape) for name, shape in shapes.items()}


def _tensor(name: str, shape: list[int]) -> torch.Tensor:
    rng = np.random.default_rng([0, zlib.crc32(name.encode())])
    if name.endswith("num_batches_tracked"):
        return torch.zeros((), dtype=torch.int64)
    if name.endswith("running_var"):
        values = rng.uniform(0.5, 1.5, shape)
    elif name.endswith("temperature"):
        values = {"temperature": 0.1, "local_regress_temperature": 1.0}[
            name.rsplit(".", 1)[1]
        ] * rng.uniform(0.8, 1.2, shape)
    elif len(shape) < 2:
        centre = 1.0 if name.endswith("weight") else 0.0
        values = centre + 0.2 * rng.standard_normal(shape)
    else:
        fan_in = np.prod(shape[1:])
        values = rng.standard_normal(shape) * np.sqrt(1.5 / fan_in)
        if name.startswith("fine_preprocess.layer1_outconv2.3"):
            values *= 4.0  # CoMatch's fine similarities would be nearly uniform
        if shape[1] > 3:  # else all cells share one large component and none match
            values -= values.mean(axis=tuple(range(1, len(shape))), keepdims=True)
    return torch.from_numpy(np.asarray(values, dtype=np.float64))


def checksum(state: dict[str, torch.Tensor]) -> int:
    """A CRC of the rounded weights: whether they are those of the fixtures."""
    total = 0
    for name in sorted(state):
        values = state[name].double().numpy()
        total = zlib.crc32(np.round(values * 1e9).astype(np.int64).tobytes(), total)
    return total


def seeded_pair(
    size0: tuple[int, int], size1: tuple[int, int], channels: int, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """A smooth texture and a shifted, slightly turned copy, (1, c, h, w) in [0, 1]."""
    rng = np.random.default_rng(seed)
    side = max(*size0, *size1) + 64
    texture = sum(
        scale * ndimage.gaussian_filter(rng.standard_normal((channels, side, side)), s)
        for s, scale in (((0, 1.5, 1.5), 1.0), ((0, 6.0, 6.0), 4.0))
    )
    texture = (texture - texture.min()) / np.ptp(texture)
    turn = 0.03
    matrix = np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    image0 = texture[:, 16 : 16 + size0[0], 16 : 16 + size0[1]]
    image1 = np.stack(
        [
            ndimage.affine_transform(
                plane, matrix, (21.4, 13.7), size1, order=1, mode="reflect"
            )
            for plane in texture
        ]
    )
    return tuple(torch.from_numpy(i.copy())[None] for i in (image0, image1))


SIZES = {  # height and width of image 0 and 1
    "square": ((96, 96), (96, 96)),
    "landscape": ((96, 160), (96, 160)),
    "mixed": ((128, 96), (96, 128)),
}


def double_network(
    network: torch.nn.Module, name: str, rename: Callable[[str], str] = str
) -> torch.nn.Module:
    """`network` in float64 with the seeded weights; `rename` gives its names."""
    state = seeded_state(manifest(name))
    assert checksum(state) == int(np.load(FIXTURES / f"{name}.npz")["checksum"])
    own, named = network.state_dict(), {rename(n): t for n, t in state.items()}
    network = network.double().eval()
    network.load_state_dict({n: named[n] for n in own})
    return network


def save_seeded(path: Path, name: str) -> Path:
    """A checkpoint in the official layout."""
    state = seeded_state(manifest(name)).items()
    single = {n: t.float() if t.is_floating_point() else t for n, t in state}
    torch.save({"state_dict": {f"matcher.{n}": t for n, t in single.items()}}, path)
    return path


def official(name: str) -> dict[str, np.ndarray]:
    """What the official implementation answered."""
    return dict(np.load(FIXTURES / f"{name}.npz"))


def images_of(size: str, channels: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The pair of images that the official network saw."""
    return seeded_pair(*SIZES[size], channels, list(SIZES).index(size))


def check_matches(
    answer: dict[str, torch.Tensor],
    cells: Cells,
    theirs: dict[str, np.ndarray],
    size: str,
    least: int,
) -> np.ndarray:
    """Points and confidences are the official ones; returns the coarse logits."""
    logits = cells.f0 @ cells.f1.T
    confidence = torch.softmax(logits, 0) * torch.softmax(logits, 1)
    assert len(answer["source"]) == len(theirs[f"{size}_source"]) >= least
    # Their origin is the image's corner.
    for side in ("source", "target"):
        ours = answer[side].numpy() + 0.5
        assert np.abs(ours - theirs[f"{size}_{side}"]).max() < 1e-4
    m = answer["confidence"].numpy()
    assert m == pytest.approx(theirs[f"{size}_confidence"], abs=1e-5)
    rows = confidence[theirs[f"{size}_rows"]].numpy()
    assert np.abs(rows - theirs[f"{size}_row_values"]).max() < 1e-5
    return logits.numpy()


def numbers(corner: np.ndarray, columns: int) -> np.ndarray:
    """The number of the cell, row by row, of which corners (m, 2) are given in px."""
    x, y = np.round(corner / 8).astype(int).T
    return y * columns + x


def softmax_std(logits: np.ndarray, size: tuple[int, int], step: float) -> np.ndarray:
    """Std (m, 2) px of a softmax over a grid, straight from its definition."""
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    y, x = np.divmod(np.arange(p.shape[1]), size[1])
    stds = []
    for at in (x * step, y * step):
        mean = p @ at
        stds.append(np.sqrt((p * (at - mean[:, None]) ** 2).sum(axis=1)))
    return np.stack(stds, axis=1)


def photo_pair() -> tuple[np.ndarray, np.ndarray]:
    """Two RGB images of odd and different sizes, portrait and landscape."""
    pair = seeded_pair((150, 101), (99, 163), 3, 0)
    return tuple(
        (255 * i[0].numpy().transpose(1, 2, 0)).round().astype(np.uint8) for i in pair
    )
