"""EfficientLoFTR: the network of transformers, our own coarse and fine heads.

That library's matching head pairs the wrong rows and loses the sub-pixel part, so only
its layers and names are used; the heads follow the original. Images may differ in size,
as the original allows and the library does not. The refined point is image 1's: the
first fine stage moves both points to a pixel of their windows, the second one image 1's
alone by a 3 × 3 heat map.

Half a pixel is taken off, as for LoFTR: the weights were trained with pixel centres at
(x + 0.5, y + 0.5).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from semisure.io.images import Image
from semisure.matchers._batches import (
    PairNetwork,
    Views,
    first_layers,
    stacked,
)
from semisure.matchers._network import FINE_STAGES, FineStages, imports_of
from semisure.matchers._view import View, assemble, grey, view_of
from semisure.matchers._weights import Weights, obtain
from semisure.types import FloatArray, Matches, as_choice

WEIGHTS = Weights(
    filename="eloftr.safetensors",
    licence="Apache-2.0",
    hub="zju-community/efficientloftr",
    hub_filename="model.safetensors",
    about=64_000_000,
)

STRIDE = 8  # px, of coarse cells, which are the fine windows too
MULTIPLE = 32  # px: attention aggregates 4 × 4 cells
BORDER = 2  # cells
TEMPERATURE = 0.1
TRAINED_SIDE = 832  # px
PIXEL_CHANNELS = 56  # of the 64 fine ones, for the first stage; the rest for the second
REGRESS_TEMPERATURE = 10.0
FINE_BATCH = 512  # matches; 64 × 100 similarities each
MIN_SIDE = (2 * BORDER + 1) * STRIDE


@dataclass(frozen=True, slots=True, kw_only=True)
class EfficientLoFTR(PairNetwork):
    """EfficientLoFTR; `eloftr(image0, image1)` gives matches refined in image 1.

    Images are resized so that both sides are multiples of 32.

    Parameters
    ----------
    threshold
        Least confidence of a match; the authors use 0.2, and 0.1 for MegaDepth.
    normalise_positions
        Scale positions to the size of the training images, as the authors' tests do.
    fine_stages
        The stages that the fine std covers: ``both``, their variances added, or the
        ``second`` alone, whose heat map is almost flat.
    max_side, device, weights
        As in :class:`~semisure.matchers._network.Network`.
    """

    threshold: float = 0.2
    normalise_positions: bool = True
    fine_stages: FineStages = "both"

    def _load(self) -> Any:
        as_choice("fine_stages", self.fine_stages, FINE_STAGES)
        with imports_of("transformers", "EfficientLoFTR"):
            from transformers import EfficientLoFTRConfig as Config
            from transformers import EfficientLoFTRForKeypointMatching as Matching

            from semisure.matchers._checkpoint import load_checkpoint
        path = obtain(WEIGHTS, self.weights)
        return load_checkpoint(Matching(Config()), path, rename=_library_name)

    def _view(self, image: Image) -> View:
        return view_of(image, self.max_side, multiple=MULTIPLE, min_side=MIN_SIDE)

    def _together(self, pairs: Sequence[Views]) -> list[Matches]:
        with self.running():
            found = _match(self, *self.pixels(pairs, grey))
        return [
            assemble(
                views, **arrays, fine_window=float(STRIDE), side=1, half_cell=STRIDE / 2
            )
            for views, arrays in zip(pairs, found, strict=True)
        ]


# Names of tensors in the original checkpoint, and in the library.
_RENAMED = (
    (r"^matcher\.", ""),
    (r"^backbone\.layer0\.", "efficientloftr.backbone.stages.0.blocks.0."),
    (r"^backbone\.layer(\d)\.(\d+)\.", r"efficientloftr.backbone.stages.\1.blocks.\2."),
    (r"\.rbr_dense\.", ".conv1."),
    (r"\.rbr_1x1\.", ".conv2."),
    (r"\.rbr_identity\.", ".identity."),
    (r"\.(conv[12])\.bn\.", r".\1.norm."),
    (r"^loftr_coarse\.", "efficientloftr.local_feature_transformer."),
    (r"\.aggregate\.", ".aggregation.q_aggregation."),
    (r"\.norm1\.", ".aggregation.norm."),
    (r"\.([qkv]_proj)\.", r".attention.\1."),
    (r"\.merge\.", ".attention.o_proj."),
    (r"\.mlp\.0\.", ".mlp.fc1."),
    (r"\.mlp\.2\.", ".mlp.fc2."),
    (r"\.norm2\.", ".mlp.layer_norm."),
    (r"^fine_preprocess\.layer3_outconv\.", "refinement_layer.out_conv."),
    (r"^fine_preprocess\.layer2_", "refinement_layer.out_conv_layers.0."),
    (r"^fine_preprocess\.layer1_", "refinement_layer.out_conv_layers.1."),
    (r"\.outconv\.", ".out_conv1."),
    (r"\.outconv2\.0\.", ".out_conv2."),
    (r"\.outconv2\.1\.", ".batch_norm."),
    (r"\.outconv2\.3\.", ".out_conv3."),
)


def _library_name(name: str) -> str:
    """The library's name of a tensor of the original checkpoint; its own stay."""
    if name.startswith(("efficientloftr.", "refinement_layer.")):
        return name
    for pattern, replacement in _RENAMED:
        name = re.sub(pattern, replacement, name)
    # Layers alternate there between self and cross attention; here a layer has both.
    attention = ("self_attention", "cross_attention")
    return re.sub(
        r"(transformer\.layers)\.(\d+)\.",
        lambda m: f"{m[1]}.{int(m[2]) // 2}.{attention[int(m[2]) % 2]}.",
        name,
    )


def _match(
    settings: EfficientLoFTR, images0: Sequence[Any], images1: Sequence[Any]
) -> list[dict[str, FloatArray]]:
    """Points and cues in the pixels of the views, of each pair."""
    from semisure.matchers._cues import as_arrays

    model = settings.model
    both = first_layers(model.efficientloftr.backbone, images0, images1)
    coarse = _transform(
        model,
        [stacked([m[-1] for m in maps]) for maps in both],
        normalise=settings.normalise_positions,
    )
    found = []
    for k, maps in enumerate(zip(*both, strict=True)):
        cells = [c[k : k + 1] for c in coarse]
        fine = [
            model.refinement_layer.forward_pyramid(c / c.shape[1] ** 0.5, m[-2::-1])
            for c, m in zip(cells, maps, strict=True)
        ]
        heads = _heads(cells, fine, settings.threshold, settings.fine_stages)
        found.append(as_arrays(heads))
    return found


def _heads(
    coarse: list[Any], fine: list[Any], threshold: float, stages: FineStages
) -> dict[str, Any]:
    """Matches and cues from coarse maps (1, 256, h, w), fine ones (1, 64, 8h, 8w)."""
    from semisure.matchers._cues import cell_corner
    from semisure.matchers._dual import mutual_cells

    size0, size1 = (tuple(c.shape[2:]) for c in coarse)
    f0, f1 = (c[0].flatten(1).T.contiguous() for c in coarse)
    f0 = f0 / (f0.shape[1] * TEMPERATURE)
    index0, index1, confidence, spread = mutual_cells(
        f0, f1, size0, size1, threshold=threshold, border=BORDER
    )
    moved0, moved1, fine_std = _refine(
        fine[0][0], fine[1][0], index0, index1, (size0[1], size1[1]), stages
    )
    cell = cell_corner(index1, size1[1], STRIDE) - 0.5
    return {
        "source": cell_corner(index0, size0[1], STRIDE) + moved0 - 0.5,
        "target": cell + moved1,
        "cell": cell,
        "confidence": confidence,
        "fine_std": fine_std,
        "coarse_std": STRIDE * spread,
    }


def _transform(model: Any, coarse: list[Any], *, normalise: bool) -> list[Any]:
    """Coarse maps (n, 256, h, w) after self and cross attention."""
    f0, f1 = coarse
    frequency = model.efficientloftr.rotary_emb.original_inv_freq
    rotation0, rotation1 = (_rotation(f, frequency, normalise) for f in coarse)
    for layer in model.efficientloftr.local_feature_transformer.layers:
        f0 = _attend(layer.self_attention, f0, f0, rotation0)
        f1 = _attend(layer.self_attention, f1, f1, rotation1)
        f0 = _attend(layer.cross_attention, f0, f1)
        f1 = _attend(layer.cross_attention, f1, f0)  # the new f0, as it was trained
    return [f0, f1]


def _rotation(coarse: Any, frequency: Any, normalise: bool) -> tuple[Any, Any]:
    """Cosine and sine (tokens, 256) of the rotary position encoding."""
    import torch

    rows, columns = (n // 4 for n in coarse.shape[2:])
    scale = 1.0
    if normalise:
        scale = TRAINED_SIDE / (STRIDE * max(coarse.shape[2:]))
    y = torch.arange(1, rows + 1, device=coarse.device) * scale
    x = torch.arange(1, columns + 1, device=coarse.device) * scale
    angle = coarse.new_empty(rows, columns, len(frequency), 2)
    angle[..., 0] = y[:, None, None] * frequency
    angle[..., 1] = x[None, :, None] * frequency
    angle = angle.view(rows * columns, -1).repeat_interleave(2, dim=-1)
    return angle.cos(), angle.sin()


def _attend(block: Any, hidden: Any, source: Any, rotation: Any = None) -> Any:
    """One block of aggregated attention from `hidden` (n, c, h, w) to `source`."""
    import torch
    from torch.nn.functional import interpolate, scaled_dot_product_attention

    query, key_value = block.aggregation(hidden, source)
    _, rows, columns, channels = query.shape
    query, key_value = query.flatten(1, 2), key_value.flatten(1, 2)
    layer = block.attention
    q, k, v = layer.q_proj(query), layer.k_proj(key_value), layer.v_proj(key_value)
    if rotation is not None:
        q, k = _rotated(q, *rotation), _rotated(k, *rotation)
    q, k, v = (t.unflatten(2, (-1, layer.head_dim)).transpose(1, 2) for t in (q, k, v))
    message = scaled_dot_product_attention(q, k, v, scale=layer.scaling)
    message = layer.o_proj(message.transpose(1, 2).flatten(2))
    message = message.mT.reshape(len(hidden), channels, rows, columns)
    message = interpolate(message, scale_factor=4, mode="bilinear", align_corners=False)
    both = torch.cat([hidden, message], dim=1).permute(0, 2, 3, 1)
    return hidden + block.mlp(both).permute(0, 3, 1, 2)


def _rotated(tokens: Any, cosine: Any, sine: Any) -> Any:
    """Pairs of channels turned by their angle."""
    import torch

    turned = torch.stack([-tokens[..., 1::2], tokens[..., ::2]], dim=-1).flatten(-2)
    return tokens * cosine + turned * sine


def _refine(
    fine0: Any,
    fine1: Any,
    index0: Any,
    index1: Any,
    columns: tuple[int, int],
    stages: FineStages,
) -> tuple[Any, Any, Any]:
    """How far both points move, and the std in image 1, each (m, 2) px."""
    import torch
    from torch.nn.functional import pad

    from semisure.matchers._cues import wide

    padded = pad(fine1, (1, 1, 1, 1))
    none = wide(fine0.new_zeros(0, 2))
    parts = [(none, none, none)]
    for start in range(0, len(index0), FINE_BATCH):
        batch = slice(start, start + FINE_BATCH)
        window0 = _windows(fine0, index0[batch], columns[0], STRIDE)
        window1 = _windows(padded, index1[batch], columns[1], STRIDE + 2)
        parts.append(_two_stages(window0, window1, stages))
    moved0, moved1, std = (torch.cat(part) for part in zip(*parts, strict=True))
    return moved0, moved1, std


def _windows(fine: Any, index: Any, columns: int, side: int) -> Any:
    """Windows (m, side², c) of a map (c, h, w) whose corners are the cells' corners."""
    import torch

    at = torch.arange(side, device=index.device)
    rows = (index // columns * STRIDE)[:, None] + at
    places = (index % columns * STRIDE)[:, None] + at
    windows = fine[:, rows[:, :, None], places[:, None, :]]  # (c, m, side, side)
    return windows.flatten(2).permute(1, 2, 0)


def _two_stages(w0: Any, w1: Any, stages: FineStages) -> tuple[Any, Any, Any]:
    """Moves of both points and std in image 1 from windows (m, 64, c), (m, 100, c)."""
    import torch

    from semisure.matchers._cues import grid_mean, grid_std, square, wide

    best0, best1, rows = _best_pixels(w0, w1)
    # The window's middle stands for the cell's corner: the network was trained so.
    grid = square(STRIDE, w0.device) - STRIDE // 2 + 0.5
    logits, step = _around_best(w0, w1, best0, best1)
    second = logits.softmax(dim=1)
    mean, std = grid_mean(second, step), grid_std(second, step)
    if stages == "both":
        every = torch.arange(len(w0), device=w0.device)
        around = square(STRIDE + 2, w0.device)
        first = grid_std(rows[every, best0], around)
        std = (std**2 + first**2).sqrt()
    return wide(grid[best0]), wide(grid[best1]) + mean, std


def _best_pixels(w0: Any, w1: Any) -> tuple[Any, Any, Any]:
    """First stage: pixels (m,) of both cells, and the softmax over image 1's window."""
    m, cells, channels = w0.shape
    wider = STRIDE + 2
    pixel0, pixel1 = (w[..., :PIXEL_CHANNELS] / channels**0.5 for w in (w0, w1))
    similarity = pixel0 @ pixel1.mT
    rows = similarity.softmax(dim=2)
    dual = similarity.softmax(dim=1) * rows
    dual = dual.view(m, cells, wider, wider)[..., 1:-1, 1:-1].flatten(1)
    best = dual.argmax(dim=1)
    return best // cells, best % cells, rows


def _around_best(w0: Any, w1: Any, best0: Any, best1: Any) -> tuple[Any, Any]:
    """Second stage: logits (m, 9) around image 1's pixel, and their steps (9, 2) px."""
    import torch

    from semisure.matchers._cues import square

    every, wider = torch.arange(len(w0), device=w0.device), STRIDE + 2
    step = square(3, w0.device) - 1
    # The original takes an index of the inner window for one of the wider: one pixel up
    # and left, and round the edge. The network was trained so, too.
    y, x = best1 // STRIDE, best1 % STRIDE
    near = (y[:, None] + step[:, 1]) % wider * wider + (x[:, None] + step[:, 0]) % wider
    second0, second1 = w0[..., PIXEL_CHANNELS:], w1[..., PIXEL_CHANNELS:]
    logits = torch.einsum(
        "mc,mrc->mr", second0[every, best0], second1[every[:, None], near]
    )
    return logits / second0.shape[-1] ** 0.5 / REGRESS_TEMPERATURE, step
