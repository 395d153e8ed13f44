"""How far a refitted homography may be off.

The covariance is that of :mod:`semisure.refit.covariance`, with a model error over both
images (:mod:`semisure.refit.model_error`), from sums over the matches that are made in
one pass (:mod:`semisure.refit.plane_moments`). They are in single precision unless the
matches hardly determine the model.

Parameters are the entries of a step D of the homography but the last, since D = I moves
nothing. Where other matches were refined in the other image, their steps E are carried
over, E = −P D P⁻¹ with P from the one frame to the other. At the end the parameters
move the corners.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite, sqrt

import numpy as np

from semisure.geometry import homography as plane
from semisure.mixture import ErrorLaw
from semisure.refit import model_error
from semisure.refit.core_plus import BLOCK_ROWS
from semisure.refit.field_fit import Sample, quick_moment, steadied
from semisure.refit.law_terms import Whitening
from semisure.refit.model_error import block_ids
from semisure.refit.plane_field import Direction, Places, least_of_field
from semisure.refit.plane_moments import (
    SOME,
    SQUARE_PX,
    Frame,
    LeastSquares,
    Scores,
    Side,
    Sums,
    by_entry,
    sums_of,
)
from semisure.refit.shared_field import MIN_VIEW_CHANGE, UNDER_PLANE
from semisure.refit.shelf import hold_on
from semisure.types import (
    Array,
    Columns,
    FloatArray,
    IntArray,
    Labels,
    Matches,
    Matrix,
    Matrix3,
    PerMatch,
    Vector,
)

# Least pivots, of a unit diagonal, in single and in double precision.
PRECISIONS = ((np.float32, 1e-4), (np.float64, 1e-12))
NUMBERS = 100  # that are made of each match, most of them for a moment
PARAMETERS, WAVES, LENSES, SHARED = 8, 16, 2, 10  # how many there are
_FIELD = PARAMETERS + WAVES + LENSES


def of_homography(
    H_01: Matrix3,
    matches: Matches,
    *,
    law: ErrorLaw | None = None,
    weight: PerMatch | None = None,
    scores: Scores | None = None,
    shared_error: float | None = None,
    least: float | None = None,
    field: bool = True,
) -> Matrix | None:
    """8 × 8 px² of the images of image 0's corners, or None if undetermined.

    The order is that of :func:`semisure.geometry.homography.corners`, x and y in turn.
    Give the `law` of a refit by scores, or its `scores` where they are kept, or the
    `weight` (n,) of one by least squares. `least` is the least model error
    (:func:`semisure.refit.model_error.least_px`); without `field` there is none.
    """
    hold_on(NUMBERS * min(len(matches), BLOCK_ROWS))
    if scores is None:
        if law is not None:
            scores = Whitening.of(law)
        else:
            assert weight is not None
            scores = LeastSquares(weight)
    with np.errstate(all="ignore"):  # what is undefined is not counted
        try:
            C = _covariance(H_01, matches, scores, shared_error, least, field)
        except np.linalg.LinAlgError:  # weights so small that they are none
            return None
    if C is None or not isfinite(C.sum()):
        return None
    return model_error.positive_part(C)


def _covariance(
    H_01: Matrix3,
    matches: Matches,
    scores: Scores,
    shared_error: float | None,
    least: float | None,
    field: bool,
) -> Matrix | None:
    sides = _sides(H_01, matches, scores)
    pair = None if sides is None else _determined(sides)
    if pair is None:
        return None
    direction = pair.sums[0].side.direction
    corners = plane.corners(matches.source_size)
    smooth = Smooth.of(
        pair, direction.predicted(corners.T) if direction.forward else corners.T
    )
    C = smooth.covariance(pair, shared_error, least, field)
    if direction.forward:
        return C
    # What moves a place of image 0 moves its image by the local map.
    moved = np.zeros((4, 2, 4, 2))
    moved[range(4), :, range(4)] = plane.jacobian(H_01, corners)
    K = moved.reshape(8, 8)
    return K @ C @ K.T


def _sides(H_01: Matrix3, matches: Matches, scores: Scores) -> list[Side] | None:
    """First the matches refined in the image in which most are; None if undefined."""
    count, ahead = len(matches), int(np.count_nonzero(matches.side))
    if count == 0:
        return None
    try:
        H_10 = np.linalg.inv(H_01)
    except np.linalg.LinAlgError:
        return None
    if not isfinite(H_10.sum()):
        return None
    direction = partial(Direction.of, H_01, H_10, matches)
    if ahead in (0, count):
        return [Side.of(direction(forward=ahead > 0), matches, scores)]
    order = (1, 0) if 2 * ahead >= count else (0, 1)
    return [
        Side.of(
            direction(forward=k > 0),
            matches,
            scores,
            np.flatnonzero(matches.side == k),
        )
        for k in order
    ]


def _determined(sides: Sequence[Side]) -> Pair | None:
    """The pair, if its matches determine a homography."""
    step = -(-sum(side.count for side in sides) // SOME)
    for dtype, bar in PRECISIONS:
        # A slope that falls too often: the Gauss–Newton matrix is always positive.
        for slopes in (True, False):
            looks = [sums_of(side, dtype, step=step, slopes=slopes) for side in sides]
            sums = [one for one in looks if one is not None]
            if not sums:
                return None
            both, carries = _by_parameters(sums)
            roots = _roots(both, bar)
            if roots is not None:
                spread, white = np.linalg.inv(both)
                return Pair(sums, carries, spread, white, roots[1])
    return None


def _by_parameters(
    sums: Sequence[Sums],
) -> tuple[FloatArray, Sequence[FloatArray | None]]:
    """Σ Jᵀψ′J and Σ Jᵀψψᵀ J, and the maps from the parameters to those of each side."""
    carries: list[FloatArray | None] = [None]
    both = sums[0].by_steps()[:, :PARAMETERS, :PARAMETERS]
    for one in sums[1:]:
        carry = _carry(one.frame, one.side.direction.model, sums[0].frame)
        both = both + carry.T @ one.by_steps() @ carry
        carries.append(carry)
    return both, carries


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """All matches, by the parameters."""

    sums: Sequence[Sums]  # of the sides, first that of the parameters
    carries: Sequence[FloatArray | None]  # from the parameters to those of each side
    spread: Matrix  # (Σ Jᵀψ′J)⁻¹
    white: Matrix  # (Σ Jᵀψψᵀ J)⁻¹
    root: Matrix  # R with R Rᵀ = Σ Jᵀψψᵀ J

    def mean_square(self) -> float:
        """Of the residuals, by weight: Σ ψ r / Σ ψ/r, px²."""
        energy = sum(one.energy for one in self.sums)
        return energy / sum(float(one.of_squares[2].sum()) for one in self.sums)


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """Squares of the image, and how everything smooth moves them."""

    sums: Sequence[Sums]
    # Columns are squares, those of the first side, then corners, which no match is in,
    # then squares of the other side.
    places: FloatArray  # of columns, px
    column: IntArray  # of each residual of some matches, all x and then all y
    weight: FloatArray  # Σ ψ/r of these, (2, columns)
    # By parameters, cosines, lenses, and what all matches share.
    X: FloatArray  # (36, 2, columns)
    of_corners: FloatArray  # the same of corners, (8, 36)
    view_change2: FloatArray  # of squares

    @classmethod
    def of(cls, pair: Pair, corners: Columns) -> Smooth:
        """`corners` are those of image 0 in the image of the main side."""
        main, *others = pair.sums
        squares = [main.squares, corners, *(one.squares for one in others)]
        middles = np.concatenate(squares, axis=1)
        count, ahead = middles.shape[1], main.squares.shape[1] + 4
        number = _joined([main.some.square, *(o.some.square + ahead for o in others)])
        column = np.concatenate([number, number + count])

        def summed(values: list[FloatArray]) -> FloatArray:
            sums = np.bincount(column, _joined(values).ravel(), 2 * count)
            return np.asarray(sums, float).reshape(2, count)

        some = [one.some for one in pair.sums]
        weight = summed([one.look.weight for one in some])
        # Where the matches of a square are: their mean, by weight.
        places = summed([one.refined * one.look.strength for one in some])
        strength = weight[0] + weight[1]
        places /= strength
        places = np.where(strength > 0, places, middles)
        X: list[FloatArray] = []
        changes: list[FloatArray] = []
        parts = (slice(0, ahead), slice(ahead, count))[: len(some)]
        for one, carry, part in zip(pair.sums, pair.carries, parts, strict=True):
            seen = one.side.direction.places(places[:, part])
            moves = _moves(one, carry, seen)
            if not X:
                of_corners = moves[:, :, -4:].transpose(2, 1, 0).reshape(8, -1)
            change = moves[-2:, :, : one.squares.shape[1]]
            changes.append((change * change).sum(axis=(0, 1)))
            far = seen.out_of_view()
            if far is not None:  # what matches there say is wrong, and not linear
                moves[:, :, far] = 0.0
            X.append(moves)
        joined = _joined(X), of_corners, _joined(changes)
        return cls(pair.sums, places, column, weight, *joined)

    def covariance(
        self, pair: Pair, shared_error: float | None, least: float | None, field: bool
    ) -> Matrix:
        """8 × 8 px² of the corners, in the image of the main side."""
        p, by_step = PARAMETERS, self.of_corners[:, :PARAMETERS]
        # By a root of the meat: a product with its own transpose has no negative
        # variance.
        own = by_step @ (pair.spread @ pair.root)
        own *= self.clustering(pair)
        C = own @ own.T
        if not (field or shared_error):
            return C
        # How far everything smooth moves the parameters, and these the corners.
        X = self.X.reshape(len(self.X), -1)
        weight = self.weight.ravel()
        joint = (X[:p] * weight) @ X.T
        bread = steadied(joint[:, :p].copy())
        follows = np.linalg.solve(bread, joint[:, p:])
        response = by_step @ follows
        shared = 0.0
        if shared_error:
            shared = shared_error**2 * pair.mean_square() * self.usual_change()
            moved = response[:, -SHARED:] * UNDER_PLANE
            C += shared * (moved @ moved.T)
        if not field:
            return C
        # The field, less what the parameters follow of it.
        follows, waves = follows[:, :-SHARED], slice(p, _FIELD)
        extent_px = pair.sums[0].side.direction.extent_px()
        moment = quick_moment(
            self.sample(X[waves] - follows.T @ X[:p]),
            weight,
            _joined([one.some.look.score for one in self.sums]).ravel(),
            p,
            LENSES,
            extent_px,
            shared,
        )
        # A corner is where the field takes it.
        v = response[:, :-SHARED] - self.of_corners[:, waves]
        floor = model_error.least_px(least, extent_px, plane=True)
        return C + model_error.spread_of(v, moment, least_of_field(floor, len(moment)))

    def clustering(self, pair: Pair) -> float:
        """√ of how many times more block sums vary than independent scores, ≥ 1."""
        pairs = zip(self.sums, self._by_side(), strict=True)
        scores = _joined([_of_blocks(one, J) for one, J in pairs])
        count = int(np.count_nonzero(scores[0]))
        excess = float(np.vdot(pair.white @ scores, scores)) / PARAMETERS
        # The fit takes as many degrees of freedom off the blocks as it has parameters.
        excess *= count / max(count - PARAMETERS, 1)
        return sqrt(max(1.0, excess))

    def _by_side(self) -> list[FloatArray]:
        """How squares move by the parameters, (8, 2, squares) of each side."""
        first = self.sums[0].squares.shape[1]
        J = self.X[:PARAMETERS]
        return [J[:, :, :first], J[:, :, first + 4 :]][: len(self.sums)]

    def usual_change(self) -> float:
        """The median change of view, each square with the weight of its matches."""
        strength = _joined([one.of_squares[2] for one in self.sums])
        order = self.view_change2.argsort()
        part = strength[order].cumsum()
        usual = self.view_change2[order[part.searchsorted(0.5 * part[-1])]]
        return max(sqrt(usual), MIN_VIEW_CHANGE)

    def sample(self, X: FloatArray) -> Sample:
        """What the field is fitted to, by what moves the columns."""
        some, main = [one.some for one in self.sums], self.sums[0]
        ahead, taken = main.squares.shape[1] + 4, len(main.some.square)
        others = (one.starts + ahead for one in self.sums[1:])

        def weighed(residual: Vector) -> tuple[Vector, float]:
            r = residual.reshape(2, -1)
            parts = (r[:, :taken], r[:, taken:])[: len(some)]
            both = [s.scores.weighed(r) for s, r in zip(some, parts, strict=True)]
            return _joined([w for w, _ in both]).ravel(), sum(rise for _, rise in both)

        return Sample(
            X=X,
            axes=2,
            count=sum(one.squares.shape[1] for one in self.sums),
            block=self._blocks(),
            starts=_joined([main.starts, *others]),
            residual=_joined([one.look.residual for one in some]).ravel(),
            column=self.column,
            weighed=weighed,
        )

    def _blocks(self) -> Labels | None:
        """Of each column, where squares are smaller than blocks."""
        if all(one.side_px == SQUARE_PX for one in self.sums):
            return None
        at, first = self.places.copy(), self.sums[0].squares.shape[1]
        at[:, first : first + 4] = at[:, :1]  # corners, where there are no matches
        return block_ids(at.T, SQUARE_PX)


def _joined(arrays: list[Array]) -> Array:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)


def _carry(to: Frame, model: Matrix3, frame: Frame) -> FloatArray:
    """From steps in a frame to steps of the inverse model in the other, 9 × 8."""
    P = to.matrix @ model @ np.linalg.inv(frame.matrix)
    return -np.kron(P, np.linalg.inv(P).T)[:, :PARAMETERS]


def _moves(sums: Sums, carry: FloatArray | None, places: Places) -> FloatArray:
    """How places move by parameters, waves and what all matches share, (36, 2, b)."""
    at = places.refined
    X = np.zeros((_FIELD + SHARED, 2, at.shape[1]))
    J = by_entry(at - sums.frame.mean, sums.frame.scale, X[:9])
    if carry is not None:
        np.matmul(carry.T, J.reshape(9, -1), out=X[:8].reshape(8, -1))
    X[8] = 0.0  # of the last entry, which is no parameter
    X[8:16, 0] = X[16:24, 1] = places.cosines()
    places.local_change(X[34:])
    places.lenses(X[34:], X[24:26])
    places.bilinear(X[26:30, 0])
    X[30:34, 1] = X[26:30, 0]
    return X


def _of_blocks(sums: Sums, J: FloatArray) -> FloatArray:
    """Σ Jᵀψ of each block, as if its matches were all in one place."""
    along_x, along_y, _ = sums.of_squares
    scores = J[:, 0] * along_x
    scores += J[:, 1] * along_y
    if sums.side_px == SQUARE_PX:
        return scores
    block = block_ids(sums.squares.T, SQUARE_PX)
    return np.array([np.bincount(block, row) for row in scores])


def _roots(matrices: FloatArray, bar: float) -> FloatArray | None:
    """R with R Rᵀ each matrix, None unless positive definite, whatever the units."""
    try:
        roots = np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        return None
    pivots = roots.diagonal(axis1=1, axis2=2)
    certain = pivots * pivots > bar * matrices.diagonal(axis1=1, axis2=2)
    return roots if certain.all() else None
