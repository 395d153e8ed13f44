"""Whether a match moves as its neighbours do.

Where the coarse cell is wrong along an epipolar line, the match lies on the line all
the same and no geometry betrays it. Its neighbours do: surfaces are continuous nearly
everywhere. A smooth map, the homography found or an affine map through the matches
that lie on their lines, takes one image to the other; what a match has beyond it, its
parallax, varies little from one match to the next on the same surface.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from semisure.types import FloatArray, Labels, Matches, PerAxis, PerMatch

NEIGHBOURS = 12
_FEWEST = 4  # neighbours that say where a match should be
_ROUNDS = 3
_LEAST_SCALE_PX = 0.1
_RIDGE = 1e-2
_FAR = 1e4  # px: beyond a horizon
_AT_ONCE = 2048  # matches whose neighbours stay in the cache


def agreement(matches: Matches, parallax: PerAxis) -> FloatArray:
    """How far each match agrees with its neighbours, and all of the pair do, (n, 2).

    First the logit of the share of its nearest matches that move as it does: whose
    `parallax`, px of the refined image, differs by no more than the fine window. One
    more match, half of which agrees, keeps it finite; it is 0 for a match that is
    alone. Then its mean over all matches: where relief is strong, few agree.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=13)
    >>> parallax = np.zeros((13, 2))
    >>> parallax[0] = 20.0
    >>> agreement(matches, parallax)[:2, 0].round(2)  # log 0.5 / 12.5, log 11.5 / 1.5
    array([-3.22,  2.04])
    """
    logit = np.zeros(len(matches))
    for rows, points, _ in _sides(matches):
        nearest = _nearest(points)
        other = nearest != np.arange(len(rows))[:, None]
        x, y = parallax[rows].T
        with np.errstate(invalid="ignore"):  # beyond a horizon nothing agrees
            apart = np.hypot(x[nearest] - x[:, None], y[nearest] - y[:, None])
            alike = apart <= matches.fine_window[rows, None]
        yes, no = (alike & other).sum(axis=1), (~alike & other).sum(axis=1)
        logit[rows] = np.log(yes + 0.5) - np.log(no + 0.5)
    usual = logit.mean() if len(logit) else 0.0
    return np.stack([logit, np.full_like(logit, usual)], axis=1)


def departure(matches: Matches, parallax: PerAxis, direction: PerAxis) -> PerMatch:
    """How far each match lies from where its neighbours want it, px.

    It is measured along the unit `direction` of its line. An affine map through the
    neighbours' `parallax` follows slanted surfaces, and Cauchy's weights leave out
    those beyond a depth edge. The departure is 0 where there are fewer than four.
    """
    away = np.zeros(len(matches))
    for rows, points, _ in _sides(matches):
        if len(rows) <= _FEWEST:
            continue
        beyond, nearest = parallax[rows], _nearest(points)[:, 1:]
        for start in range(0, len(rows), _AT_ONCE):
            some = slice(start, start + _AT_ONCE)
            shift = beyond[nearest[some]] - beyond[some, None]
            shift = (shift * direction[rows[some], None]).sum(axis=2)
            where = points[nearest[some]] - points[some, None]
            value = _local_value(where, np.nan_to_num(shift, nan=_FAR))
            away[rows[some]] = np.abs(value)
    return away


def _local_value(where: FloatArray, value: FloatArray) -> PerMatch:
    """The value at 0 of affine maps through values (n, k) at places (n, k, 2)."""
    reach = np.sqrt((where**2).sum(axis=2).mean(axis=1)) + 1e-9
    x, y = where[..., 0] / reach[:, None], where[..., 1] / reach[:, None]
    constant = _middle(value)
    off = value - constant[:, None]
    for _ in range(_ROUNDS):
        scale = _middle(np.abs(off)) + _LEAST_SCALE_PX
        weight = 1.0 / (1.0 + (off / scale[:, None]) ** 2)
        constant, by_x, by_y = _affine(x, y, value, weight)
        off = value - constant[:, None] - by_x[:, None] * x - by_y[:, None] * y
    return constant


def _affine(
    x: FloatArray, y: FloatArray, value: FloatArray, weight: FloatArray
) -> tuple[PerMatch, PerMatch, PerMatch]:
    """Weighted affine fits along the rows, by Cramer's rule: constant and slopes."""
    wx, wy = weight * x, weight * y
    n, nx, ny = weight.sum(axis=1) + 1e-9, wx.sum(axis=1), wy.sum(axis=1)
    # Slopes stay 0 where points are in a row.
    xx, yy = _dots(wx, x) + _RIDGE, _dots(wy, y) + _RIDGE
    xy, v, vx, vy = (
        _dots(wx, y),
        _dots(weight, value),
        _dots(wx, value),
        _dots(wy, value),
    )
    first, second, third = xx * yy - xy**2, nx * yy - xy * ny, nx * xy - xx * ny
    whole = n * first - nx * second + ny * third
    constant = v * first - vx * second + vy * third
    by_x = -v * second + vx * (n * yy - ny**2) - vy * (n * xy - nx * ny)
    by_y = v * third - vx * (n * xy - nx * ny) + vy * (n * xx - nx**2)
    return constant / whole, by_x / whole, by_y / whole


def _dots(left: FloatArray, right: FloatArray) -> PerMatch:
    return np.asarray(np.einsum("nk,nk->n", left, right))


def _middle(values: FloatArray) -> PerMatch:
    """The median of each row; sorting a dozen numbers is faster than np.median."""
    ordered, half = np.sort(values, axis=1), values.shape[1] // 2
    if values.shape[1] % 2:
        return np.asarray(ordered[:, half])
    return np.asarray(0.5 * (ordered[:, half - 1] + ordered[:, half]))


def affine_parallax(matches: Matches, weight: PerMatch) -> PerAxis:
    """What each match has beyond the affine map that fits all by `weight`, px."""
    parallax = np.zeros((len(matches), 2))
    for rows, points, refined in _sides(matches):
        design = np.column_stack([points - points.mean(axis=0), np.ones(len(rows))])
        root = np.sqrt(weight[rows, None])
        affine = np.linalg.lstsq(root * design, root * refined, rcond=None)[0]
        parallax[rows] = refined - design @ affine
    return parallax


def _sides(matches: Matches) -> Iterator[tuple[Labels, PerAxis, PerAxis]]:
    """Matches refined in the same image: rows, points that were not and that were."""
    both = ((matches.target, matches.source), (matches.source, matches.target))
    for side, (still, refined) in enumerate(both):
        rows = np.flatnonzero(matches.side == side)
        if len(rows):
            yield rows, still[rows], refined[rows]


def _nearest(points: PerAxis) -> Labels:
    """Each point and those nearest to it, (n, at most 1 + NEIGHBOURS)."""
    from scipy.spatial import cKDTree  # takes a while to load

    count = min(NEIGHBOURS + 1, len(points))
    return np.asarray(cKDTree(points).query(points, k=np.arange(1, count + 1))[1])
