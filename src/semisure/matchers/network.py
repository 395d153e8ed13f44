"""What adapters of networks share: settings, loading, and views of the images."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from semisure.errors import InputError, in_short
from semisure.io.images import Image, as_grey, resized
from semisure.matchers.checkpoint import load_checkpoint
from semisure.matchers.own_cues import MIN_CONFIDENCE
from semisure.matchers.weights import WEIGHTS, obtain
from semisure.types import Labels, Matches, PerAxis, PerMatch, Points, Vector

# ---- views ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class View:
    """`image`, resized from `size` (width, height)."""

    image: Image
    size: tuple[int, int]

    @property
    def scale(self) -> Vector:
        """Own pixels per pixel of the view, (2,)."""
        return np.array(self.size) / np.array(self.image.shape[1::-1])

    def back(self, points: Points) -> Points:
        """Points of the view in the image's own pixels."""
        return (points + 0.5) * self.scale - 0.5


def view_of(
    image: Image, max_side: int | None, *, multiple: int = 1, min_side: int = 1
) -> View:
    """The image at no more than `max_side` px, both sides multiples of `multiple`.

    Rounded to the nearest multiple, each axis with its own scale: nothing is padded.
    """
    as_grey(image[:1])  # raises if it is not an image
    height, width = image.shape[:2]
    if min(height, width) < min_side:
        raise InputError(
            f"This matcher needs images of at least {min_side} px a side, but one has "
            f"{width} × {height}."
        )
    shrink = min(1.0, (max_side or max(height, width)) / max(height, width))
    limit = max(max_side // multiple, 1) if max_side else max(height, width)
    size = [
        min(max(round(shrink * n / multiple), 1), limit) * multiple
        for n in (width, height)
    ]
    return View(resized(image, (size[0], size[1])), (width, height))


def rgb(image: Image) -> Image:
    """The image as three channels, (h, w, 3); a grey one is repeated."""
    image = image.reshape(*image.shape[:2], -1)
    return np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image


def unit_tensor(image: Image, device: str) -> Tensor:
    """Pixels from 0 to 1, (1, channels, h, w)."""
    planes = image[None] if image.ndim == 2 else image.transpose(2, 0, 1)
    pixels = torch.from_numpy(np.ascontiguousarray(planes))[None]
    return pixels.to(device).float() / 255.0


def assemble(
    views: tuple[View, View],
    *,
    source: Points,
    target: Points,
    confidence: PerMatch,
    fine_std: PerAxis,
    coarse_std: PerAxis,
    cell: Points,
    fine_window: float | PerMatch = 8.0,
    side: int | Labels = 1,
) -> Matches:
    """Matches in the images' own pixels, from points and cues in those of the views.

    `cell` is the centre of the coarse cell on the refined side, which is as large as
    the fine window.
    """
    view0, view1 = views
    side = np.broadcast_to(side, confidence.shape).astype(np.int64)
    scale = np.stack([view0.scale, view1.scale])[side]
    window = np.broadcast_to(fine_window, confidence.shape)
    cells = np.zeros((len(cell), 2, 3))
    cells[:, [0, 1], [0, 1]] = window[:, None] / 2 * scale
    cells[:, :, 2] = np.where(side[:, None] == 1, view1.back(cell), view0.back(cell))
    return Matches(
        source=view0.back(source),
        target=view1.back(target),
        confidence=np.clip(confidence, MIN_CONFIDENCE, 1.0),
        fine_std=fine_std * scale,
        coarse_std=coarse_std * scale,
        fine_window=window * scale.mean(axis=1),
        source_size=view0.size,
        target_size=view1.size,
        side=side,
        cell=cells,
    )


# ---- networks ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(ABC):
    """A matcher that runs a network; subclasses name it and read its answer.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px; None takes them as they are.
    device
        Any torch device.
    weights
        A file to use instead of the official weights.
    """

    name: ClassVar[str]
    min_side: ClassVar[int]  # px
    multiple: ClassVar[int] = 1  # px, of both sides

    max_side: int | None = 1280
    device: str = "cpu"
    weights: Path | None = None
    model: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_device(self.device)  # before anything is downloaded
        model = self.load(obtain(WEIGHTS[self.name], self.weights))
        object.__setattr__(self, "model", model.eval().to(self.device))

    def __call__(self, image0: Image, image1: Image) -> Matches:
        view0, view1 = (
            view_of(
                image, self.max_side, multiple=self.multiple, min_side=self.min_side
            )
            for image in (image0, image1)
        )
        with torch.inference_mode():
            answer = self._match(
                unit_tensor(self.channels(view0.image), self.device),
                unit_tensor(self.channels(view1.image), self.device),
            )
        arrays: dict[str, Any] = {
            name: tensor.cpu().double().numpy() for name, tensor in answer.items()
        }
        return assemble((view0, view1), **arrays)

    def channels(self, image: Image) -> Image:
        """The image in the colours that the network sees."""
        return as_grey(image)

    @classmethod
    @abstractmethod
    def network(cls) -> Any:
        """The network with random weights, on the CPU."""

    def load(self, path: Path) -> Any:
        """The network with the weights in a file."""
        return load_checkpoint(self.network(), path)

    @abstractmethod
    def _match(self, image0: Tensor, image1: Tensor) -> dict[str, Tensor]:
        """What `assemble` needs, of images (1, c, h, w) in [0, 1]."""


def _check_device(device: str) -> None:
    try:
        torch.zeros(1, device=device).item()  # a meta tensor has no number
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = in_short(error).partition(". ")[0]
        raise InputError(
            f"device must be one that torch can use here, but {device!r} is none "
            f"({shorten(reason, 80)}). Use cpu."
        ) from None
