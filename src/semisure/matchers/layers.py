"""Layers that the networks of LoFTR's family share, by their checkpoints' names."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn


def conv(inputs: int, outputs: int, kernel: int = 1, stride: int = 1) -> nn.Conv2d:
    """A convolution without bias that keeps the size up to its stride."""
    return nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


def doubled(x: Tensor) -> Tensor:
    """The map (1, c, h, w) at twice its size, by bilinear interpolation."""
    return nn.functional.interpolate(x, scale_factor=2.0, mode="bilinear")


class BasicBlock(nn.Module):
    """Two 3 × 3 convolutions beside the identity."""

    def __init__(self, inputs: int, outputs: int, stride: int = 1) -> None:
        super().__init__()
        self.conv1 = conv(inputs, outputs, 3, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = conv(outputs, outputs, 3)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = shortcut(inputs, outputs, stride) if stride > 1 else None

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y))
        y += x if self.downsample is None else self.downsample(x)
        return y.relu_()


class Bottleneck(nn.Module):
    """1 × 1, 3 × 3 and 1 × 1 convolutions beside the identity; the stride is inside."""

    def __init__(self, inputs: int, width: int, stride: int = 1) -> None:
        super().__init__()
        outputs = 4 * width
        self.conv1 = conv(inputs, width)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = conv(width, width, 3, stride)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = conv(width, outputs)
        self.bn3 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.downsample = None if same else shortcut(inputs, outputs, stride)

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn1(self.conv1(x)).relu_()
        y = self.bn2(self.conv2(y)).relu_()
        y = self.bn3(self.conv3(y))
        y += x if self.downsample is None else self.downsample(x)
        return y.relu_()


def shortcut(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """The identity where the shape changes."""
    return nn.Sequential(conv(inputs, outputs, 1, stride), nn.BatchNorm2d(outputs))


def basic_stage(inputs: int, outputs: int, stride: int) -> nn.Sequential:
    """Two basic blocks, the first with the stride."""
    return nn.Sequential(
        BasicBlock(inputs, outputs, stride), BasicBlock(outputs, outputs)
    )


class Stem(nn.Module):
    """A 7 × 7 convolution, then basic stages; all but the first halve the size."""

    def __init__(self, channels: int, dims: tuple[int, ...]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, dims[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(dims[0])
        self.depth = len(dims)
        for k, outputs in enumerate(dims):
            inputs = dims[max(k - 1, 0)]
            stage = basic_stage(inputs, outputs, 1 if k == 0 else 2)
            self.add_module(f"layer{k + 1}", stage)

    def pyramid(self, image: Tensor) -> list[Tensor]:
        """Features at 1/2, 1/4, … of the image."""
        x = self.bn1(self.conv1(image)).relu_()
        maps = []
        for k in range(self.depth):
            x = self.get_submodule(f"layer{k + 1}")(x)
            maps.append(x)
        return maps


# ---- attention -----------------------------------------------------------------------

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]

TRAINED_SIDE = 832  # px
ROTARY_CELL = 32  # px between the places that know their position


def full_attention(
    query: Tensor, key: Tensor, value: Tensor, scale: float | None = None
) -> Tensor:
    """Scaled dot-product attention; all arguments (n, cells, heads, d)."""
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    attended = nn.functional.scaled_dot_product_attention(q, k, v, scale=scale)
    return attended.transpose(1, 2)


class Projections(nn.Module):
    """Query, key, value and merge: what every attention layer has."""

    def __init__(self, dim: int, heads: int, attention: Attention) -> None:
        super().__init__()
        self.heads, self.attention = heads, attention
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.merge = nn.Linear(dim, dim, bias=False)
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)

    def attend(self, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """The merged message (n, cells, dim) of projected inputs (n, cells, dim)."""
        n, _, dim = query.shape
        q, k, v = (
            x.view(n, x.shape[1], self.heads, dim // self.heads)
            for x in (query, key, value)
        )
        return self.merge(self.attention(q, k, v).flatten(-2))


class EncoderLayer(Projections):
    """LoFTR's layer on sequences (n, cells, dim)."""

    def __init__(self, dim: int, heads: int, attention: Attention) -> None:
        super().__init__(dim, heads, attention)
        self.mlp = nn.Sequential(
            nn.Linear(2 * dim, 2 * dim, bias=False),
            nn.ReLU(inplace=True),
            nn.Linear(2 * dim, dim, bias=False),
        )

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        query, key, value = self.q_proj(x), self.k_proj(source), self.v_proj(source)
        message = self.norm1(self.attend(query, key, value))
        return x + self.norm2(self.mlp(torch.cat([x, message], dim=-1)))


def rotated(x: Tensor, rounded: bool = True) -> Tensor:
    """`x` (n, h, w, c) turned by its position: rows and columns take turns.

    The longer side is mapped onto the one that training saw, as the authors' tests do.
    `rounded` tables have half precision, as they had in training.
    """
    _, height, width, channels = x.shape
    long_side = ROTARY_CELL * max(height, width)
    pace = torch.arange(channels // 4, dtype=torch.float32, device=x.device)
    pace = torch.exp(pace * (-math.log(10000.0) / (channels // 4)))
    row, column = (
        torch.arange(1.0, n + 1, device=x.device)[:, None] * TRAINED_SIDE / long_side
        for n in (height, width)
    )
    angle = x.new_empty((height, width, channels // 4, 2), dtype=torch.float32)
    angle[..., 0], angle[..., 1] = (row * pace)[:, None], (column * pace)[None]
    sine, cosine = (
        (table.half() if rounded else table)
        .to(x.dtype)
        .flatten(2)
        .repeat_interleave(2, dim=-1)
        for table in (angle.sin(), angle.cos())
    )
    across = torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)
    return x * cosine + across * sine
