"""The 2D–3D matches of a query: matches to mapped images, lifted to their points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from semisure.bench.exported import Exported, Size, resizing
from semisure.datasets.localisation import read_map
from semisure.datasets.query_maps import Query
from semisure.errors import InputError
from semisure.geometry.lifting import lift
from semisure.io.colmap import MapModel
from semisure.types import PerMatch, Points, Points3, WorldMatches


@lru_cache(maxsize=1)  # the queries that a worker is given are of one map in a row
def map_of(root: Path, own: Path | None) -> MapModel:
    """The map in a folder, or the user's own."""
    return read_map(root, own)


def lifted(
    model: MapModel,
    query: Query,
    exported: Sequence[Exported],
    *,
    compensate: bool = False,
) -> WorldMatches:
    """The matches of a query to each mapped image, in the order of `query.mapped`.

    As hloc forms them, the query's point stays where the matcher put it; with
    `compensate` it moves as far as the keypoint is from the match.
    """
    parts = []
    for name, pair in zip(query.mapped, exported, strict=True):
        _check_size(query, pair.sizes[0])
        matches = pair.matches()
        seen = observed(model, name, pair.sizes[1], matches.target_size)
        parts.append(lift(matches, *seen, compensate=compensate))
    return WorldMatches.joined(parts)


def _check_size(query: Query, size: Size) -> None:
    if size != query.camera.size:
        (w, h), (cw, ch) = size, query.camera.size
        raise InputError(
            f"The image of {query.name} is {w} × {h} px, but its camera {cw} × "
            f"{ch}; intrinsics must be those of the image as it is read."
        )


def observed(
    model: MapModel, name: str, before: Size, after: Size
) -> tuple[Points, Points3, PerMatch]:
    """What a mapped image saw, in pixels of the image as it was matched.

    The keypoints, their points in the world, and the reprojection error of each, px.
    """
    points, world, error_px = model.observations(name)
    if before == after:
        return points, world, error_px
    H = resizing(np.array(before), np.array(after))
    scale = np.array([H[0, 0], H[1, 1]])
    return points * scale + H[:2, 2], world, error_px * np.sqrt(scale.prod())
