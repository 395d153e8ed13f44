"""Which data a bench uses: folders that have what it needs, and the pairs in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from semisure.bench import Entry
from semisure.bench.exported import AnyPair, Size, group_of
from semisure.bench.options import Options
from semisure.bench.views import of_photos, with_views
from semisure.datasets.layouts import (
    has_depth,
    is_map,
    is_photos,
    is_planar,
    is_posed,
    read_pairs,
    read_posed_pairs,
)
from semisure.datasets.megadepth import is_megadepth
from semisure.datasets.subsets import evenly
from semisure.errors import InputError
from semisure.io.images import find_images

# A video's pairs repeat each other: of a list at most these, evenly, by default.
LIST_PAIRS = 110


@dataclass(frozen=True, slots=True)
class Usable:
    """Folders that a bench can use, and remarks on those left out."""

    roots: Sequence[Path]
    remarks: Sequence[str] = ()


def usable(options: Options, entry: Entry) -> Usable:
    """The folders that a bench can use; an error if there are none."""
    left_out: dict[str, list[Path]] = {}
    roots = []
    for root in options.data:
        reason = _unusable(root, entry)
        if reason:
            left_out.setdefault(reason, []).append(root)
        else:
            roots.append(root)
    if not roots:
        reasons = "; ".join(_listed(*item) for item in left_out.items())
        raise InputError(f"The bench {entry.name} needs {entry.needs}, but {reasons}.")
    if entry.truth == "homography" and not entry.protocols:
        first = next(iter(by_protocol(replace(options, data=roots)).values()))
        others = [root for root in roots if root not in first]
        if others:
            left_out["another protocol, give --protocol or the folder alone"] = others
        roots = first
    return Usable(roots, [f"Left out, {_listed(*item)}." for item in left_out.items()])


def _unusable(root: Path, entry: Entry) -> str:
    """Why a folder cannot be used; "" if it can."""
    planar = is_planar(root) or is_photos(root)
    if entry.truth == "homography":
        return "" if planar else "no homographies"
    if entry.truth == "pose":
        return "" if is_posed(root) else "no cameras"
    if entry.truth == "map":
        return "" if is_map(root) else "no map to localise in"
    # Of MegaDepth's thousands of pairs one tells whether there is depth.
    some = 1 if is_megadepth(root) else None
    if planar or (is_posed(root) and has_depth(read_posed_pairs(root, limit=some))):
        return ""
    return "no depth, so the matches' true errors are unknown"


def _listed(reason: str, roots: Sequence[Path]) -> str:
    return f"{reason}: {', '.join(root.name for root in roots)}"


def by_protocol(options: Options) -> dict[str, list[Path]]:
    """The folders of each protocol, HPatches' first."""
    roots: dict[str, list[Path]] = {}
    for root in options.data:
        roots.setdefault(options.protocol_of(root), []).append(root)
    return {name: roots[name] for name in sorted(roots)}


def by_truth(options: Options) -> dict[str, list[Path]]:
    """The folders of each protocol, and those with cameras and depth as "depth"."""
    posed = [root for root in options.data if is_posed(root)]
    planar = [root for root in options.data if root not in posed]
    kinds = by_protocol(replace(options, data=planar)) if planar else {}
    return {**kinds, "depth": posed} if posed else kinds


def divisible(options: Options) -> tuple[dict[str, list[Path]], list[str]]:
    """The kinds of data with two sequences or scenes, and remarks on those without.

    All kinds if none has two: whatever divides them says what is wrong.
    """
    kinds = by_truth(options)
    good = {data: roots for data, roots in kinds.items() if _divides(options, roots)}
    if not good:
        return kinds, []
    single = [data for data in kinds if data not in good]
    return good, [f"Left out: {d}, of a single sequence or scene." for d in single]


def _divides(options: Options, roots: Sequence[Path]) -> bool:
    groups = {group_of(pair) for root in roots for pair in pairs_of(options, root)}
    return len(groups) > 1


def pairs_of(
    options: Options, root: Path, *, held_out: bool = False, min_angle_deg: float = 0.0
) -> Sequence[AnyPair]:
    """The pairs of a folder; a limit takes them evenly.

    Pairs `held_out` are to calibrate on. Only lists state the triangulation angle, so
    its bound applies to them alone.
    """
    limit, views = options.limit, options.views
    drawn = options.seed, options.cache / "views"
    if is_photos(root):
        photos = tuple(evenly(find_images(root), limit))
        return of_photos(photos, max(1, views), *drawn)
    if limit is None and (root / "pairs.csv").is_file():
        limit = LIST_PAIRS
    if is_posed(root):
        return read_posed_pairs(
            root, limit=limit, held_out=held_out, min_angle_deg=min_angle_deg
        )
    pairs = evenly(read_pairs(root), limit)
    return with_views(pairs, views, *drawn) if views else pairs


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


def matched_at(size: Size | None) -> str:
    """At what size images were matched, for a remark.

    >>> matched_at((640, 480)), matched_at(None)
    ('at 640 × 480', 'as they are')
    """
    return "as they are" if size is None else f"at {size[0]} × {size[1]}"
