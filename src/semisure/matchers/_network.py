"""What the adapters of networks share: settings, loading, and choices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal, get_args

from semisure.errors import InputError, MissingExtraError, in_short
from semisure.types.checks import as_choice

Precision = Literal["float32", "bfloat16", "float16"]
PRECISIONS: tuple[Precision, ...] = get_args(Precision)
FineStages = Literal["both", "second"]
FINE_STAGES: tuple[FineStages, ...] = ("both", "second")


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(ABC):
    """A matcher that runs a network; each subclass says how it is loaded and called.

    Parameters
    ----------
    max_side
        Larger images are reduced to this many px; None takes them as they are.
    device
        Any torch device.
    weights
        A file to use instead of the official weights.
    precision
        What convolutions and attention are computed in: ``bfloat16`` and ``float16``
        are faster on graphics cards that have them. Similarities, softmaxes and cues
        stay in single precision or better.
    channels_last
        Keep the weights in the order in which many graphics cards are faster.
    """

    max_side: int | None = 1280
    device: str = "cpu"
    weights: Path | None = None
    precision: Precision = "float32"
    channels_last: bool = False
    model: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_device(self.device)
        as_choice("precision", self.precision, PRECISIONS)
        model = self._load().eval().to(self.device)
        if self.channels_last:
            import torch

            model = model.to(memory_format=torch.channels_last)
        object.__setattr__(self, "model", model)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Without gradients, and in the network's precision."""
        import torch

        kind, dtype = torch.device(self.device).type, getattr(torch, self.precision)
        lower = self.precision != "float32"
        with torch.inference_mode(), torch.autocast(kind, dtype, enabled=lower):
            yield

    @abstractmethod
    def _load(self) -> Any:
        """The network with its weights, on the CPU."""


def _check_device(device: str) -> None:
    """Raise before anything is downloaded unless torch can compute there."""
    try:
        import torch
    except ImportError:  # the network itself says what it needs
        return
    try:
        torch.zeros(1, device=device).item()  # a meta tensor has no number
    except (RuntimeError, AssertionError, TypeError, ValueError) as error:
        reason = in_short(error).partition(". ")[0]
        raise InputError(
            f"device must be one that torch can use here, but {device!r} is none "
            f"({shorten(reason, 80)}). Use cpu."
        ) from None


@contextmanager
def imports_of(package: str, network: str) -> Iterator[None]:
    """Turn a failed import into the pip line that mends it."""
    try:
        yield
    except ImportError:
        raise MissingExtraError(package, "torch", network) from None
