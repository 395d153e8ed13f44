"""What the two benches of poses share: folders, pairs as they are, their export."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from semisure.bench.export import Exported, Job, Setup, export
from semisure.bench.parallel import Item
from semisure.bench.study import Study, is_posed
from semisure.datasets.aachen import is_aachen
from semisure.datasets.located import is_located
from semisure.datasets.posed import PosedPair
from semisure.errors import InputError
from semisure.matchers import fingerprint
from semisure.types import Pair

SHIFTED = "base − shift"  # the estimator on matches less their location


def is_map(root: Path) -> bool:
    """True for folders with a map to localise in."""
    return is_located(root) or is_aachen(root)


def has_depth(root: Path) -> bool:
    """True for posed folders whose images may have depth beside them."""
    listed = any((root / name).is_dir() for name in ("depth", "depth_768"))
    return is_posed(root) and (listed or any(root.glob("scene_info/*.npz")))


def evenly(items: Sequence[Item], limit: int | None) -> Sequence[Item]:
    """No more than `limit` of the items, taken evenly.

    >>> evenly("abcdefg", 3)
    ['a', 'c', 'e']
    """
    if limit is None or limit >= len(items):
        return items
    if limit < 1:
        raise InputError(f"limit must be at least 1, but is {limit}.")
    return [items[k * len(items) // limit] for k in range(limit)]


def labels(roots: Sequence[Path]) -> list[str]:
    """A name for each folder: its own, with its parent's where two share it.

    >>> labels([Path("a/x"), Path("b/x"), Path("b/y")])
    ['a/x', 'b/x', 'y']
    """
    names = [root.name for root in roots]
    return [
        root.name if names.count(root.name) == 1 else "/".join(root.parts[-2:])
        for root in roots
    ]


def matched(
    study: Study,
    matcher: str,
    pairs: Sequence[Pair | PosedPair],
    *,
    query_first: bool = False,
) -> list[Exported]:
    """The pairs, as they are unless a size was given, with their matches in the cache.

    With `query_first` the matcher is turned so that it refines image 0.
    """
    options = study.options
    setup = Setup(
        matcher=matcher,
        size=options.size,
        query_first=query_first,
        max_side=options.max_side,
        weights=options.weights,
        device=options.device,
    )
    known = repr(fingerprint(matcher, options.weights))
    jobs = [
        Job(pair=p, setup=setup, cache=options.cache, fingerprint=known) for p in pairs
    ]
    return study.map(export, jobs, f"Matching, {matcher}")


def images_told(size: tuple[int, int] | None) -> str:
    """At what size images were matched, for a remark."""
    return "as they are" if size is None else f"at {size[0]} × {size[1]}"
