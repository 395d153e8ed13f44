"""Attention as the LoFTR family has it: linear, full, and with rotary positions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import torch
from torch import Tensor, nn

Attention = Callable[[Tensor, Tensor, Tensor], Tensor]

_EPSILON = 1e-6  # the family's; keeps an empty sum of keys from dividing by zero
TRAINED_SIDE = 832  # px
ROTARY_CELL = 32  # px between the places that know their position


def linear_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Attention with the kernel elu + 1; all arguments (n, cells, heads, d)."""
    q, k = (nn.functional.elu(x) + 1.0 for x in (query, key))
    # The mean over values first, then times their number: fp16 would overflow.
    total = torch.einsum("nshd,nshv->nhdv", k, value / value.shape[1])
    norm = torch.einsum("nlhd,nhd->nlh", q, k.sum(dim=1)) + _EPSILON
    message = torch.einsum("nlhd,nhdv,nlh->nlhv", q, total, 1.0 / norm)
    return message * value.shape[1]


def full_attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Scaled dot-product attention; all arguments (n, cells, heads, d)."""
    q, k, v = (x.transpose(1, 2) for x in (query, key, value))
    return nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2)


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


def alternate(
    layers: Iterable[nn.Module], x0: Tensor, x1: Tensor
) -> tuple[Tensor, Tensor]:
    """Self, cross, self, cross …; image 1 looks at an image 0 already updated."""
    for k, layer in enumerate(layers):
        x0 = layer(x0, x1 if k % 2 else x0)
        x1 = layer(x1, x0 if k % 2 else x1)
    return x0, x1


class Stack(nn.Module):
    """Layers under the name `layers`, self and cross in turn."""

    def __init__(self, layers: Iterable[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(self, x0: Tensor, x1: Tensor) -> tuple[Tensor, Tensor]:
        return alternate(self.layers, x0, x1)


def rotated(x: Tensor) -> Tensor:
    """`x` (n, h, w, c) turned by its position: rows and columns take turns.

    The longer side is mapped onto the one that training saw, as the authors' tests do.
    The tables are rounded to half precision, as they were in training.
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
    sin, cos = (
        table(angle).half().to(x.dtype).flatten(2).repeat_interleave(2, dim=-1)
        for table in (torch.sin, torch.cos)
    )
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = torch.stack([-odd, even], dim=-1).flatten(-2)
    return x * cos + turned * sin
