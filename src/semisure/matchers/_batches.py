"""Several pairs in one run of a network: what does not depend on the pair runs once.

The first layers see one image. An image that is in several pairs goes through them
once, and images of the same size go together. Attention sees the two images of a pair:
pairs whose images have the same sizes go through it together. What follows differs in
the number of matches, and is done pair by pair.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from semisure.io.images import Image
from semisure.matchers._network import Network
from semisure.matchers._view import View
from semisure.types import Matches

Views = tuple[View, View]
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PairNetwork(Network):
    """A network that sees two images; each subclass says how they look to it."""

    def __call__(self, image0: Image, image1: Image) -> Matches:
        (matches,) = self.match_many([(image0, image1)])
        return matches

    def match_many(self, pairs: Sequence[tuple[Image, Image]]) -> list[Matches]:
        """The matches of each pair, those of one call but for rounding.

        Memory grows with the number of pairs. It pays on graphics cards, and wherever
        pairs share images: the same array in several pairs is looked at once.
        """
        views: dict[int, View] = {}
        for image in (image for pair in pairs for image in pair):
            if id(image) not in views:
                views[id(image)] = self._view(image)
        seen = [(views[id(a)], views[id(b)]) for a, b in pairs]
        return by_size(self._together, seen)

    @abstractmethod
    def _view(self, image: Image) -> View:
        """The image at a size that the network takes."""

    @abstractmethod
    def _together(self, pairs: Sequence[Views]) -> list[Matches]:
        """The matches of pairs whose images have the same two sizes."""

    def pixels(
        self, pairs: Sequence[Views], channels: Callable[[View], Image]
    ) -> tuple[list[Any], list[Any]]:
        """Tensors (1, c, h, w) of all first and all second images, a view's once."""
        from semisure.matchers._cues import unit_tensor

        views = {id(view): view for pair in pairs for view in pair}
        tensors = {
            key: unit_tensor(channels(view), self.device) for key, view in views.items()
        }
        return (
            [tensors[id(view0)] for view0, _ in pairs],
            [tensors[id(view1)] for _, view1 in pairs],
        )


def by_size(
    run: Callable[[Sequence[Views]], list[T]], pairs: Sequence[Views]
) -> list[T]:
    """`run`'s answers in the order of the pairs; it gets those of the same sizes."""
    groups: dict[tuple[Any, ...], list[int]] = {}
    for k, pair in enumerate(pairs):
        groups.setdefault(tuple(view.image.shape for view in pair), []).append(k)
    answers: dict[int, T] = {}
    for group in groups.values():
        answers.update(zip(group, run([pairs[k] for k in group]), strict=True))
    return [answers[k] for k in range(len(pairs))]


def first_layers(
    run: Callable[[Any], Sequence[Any]], images0: Sequence[Any], images1: Sequence[Any]
) -> tuple[list[list[Any]], list[list[Any]]]:
    """`run`'s maps (1, …) of the first and of the second image of each pair.

    `run` takes images (k, c, h, w), at most as many as there are pairs; a tensor that
    is in several pairs is given to it once.
    """
    sizes: dict[tuple[int, ...], dict[int, Any]] = {}
    for image in (*images0, *images1):
        sizes.setdefault(tuple(image.shape), {})[id(image)] = image
    maps: dict[int, list[Any]] = {}
    for different in sizes.values():
        keys, most = list(different), len(images0)
        for start in range(0, len(keys), most):
            some = keys[start : start + most]
            found = run(stacked([different[key] for key in some]))
            for row, key in enumerate(some):
                maps[key] = [m[row : row + 1] for m in found]
    return [maps[id(i)] for i in images0], [maps[id(i)] for i in images1]


def stacked(tensors: Sequence[Any]) -> Any:
    """Tensors (1, …) as one (k, …); a single one as it is."""
    import torch

    return tensors[0] if len(tensors) == 1 else torch.cat(list(tensors))
