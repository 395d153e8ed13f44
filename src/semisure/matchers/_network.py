"""What the adapters of networks share: settings, loading, and choices."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import shorten
from typing import Any, Literal

from semisure.errors import InputError, MissingExtraError, in_short

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
    """

    max_side: int | None = 1280
    device: str = "cpu"
    weights: Path | None = None
    model: Any = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_device(self.device)
        object.__setattr__(self, "model", self._load().eval().to(self.device))

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
