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
