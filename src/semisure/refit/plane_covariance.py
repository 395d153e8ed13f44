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

import numpy as np

from semisure.geometry import homography as plane
from semisure.mixture import ErrorLaw
from semisure.refit import model_error
from semisure.refit.core_plus import BLOCK_ROWS
from semisure.refit.law_terms import Whitening
from semisure.refit.model_error import Sample, block_ids
from semisure.refit.plane_field import Places, in_target, least_of_field
from semisure.refit.plane_moments import (
    SQUARE_PX,
    Frame,
    Scores,
    Side,
    Sums,
    by_entry,
    by_steps,
    square_px,
    sums_of,
)
from semisure.refit.shared_field import MIN_VIEW_CHANGE, UNDER_PLANE, bilinear_field
from semisure.refit.shelf import hold_on
from semisure.types import (
    Columns,
    FloatArray,
    Index,
    Matches,
    Matrix,
    Matrix3,
    PerMatch,
    Points,
    Vector,
)

# Least pivots, of a unit diagonal, in single and in double precision.
PRECISIONS = ((np.float32, 1e-4), (np.float64, 1e-12))
NUMBERS = 100  # that are made of each match, most of them for a moment
PARAMETERS, WAVES, LENSES, SHARED = 8, 16, 2, 10  # how many there are
_FIELD = PARAMETERS + WAVES + LENSES


@dataclass(frozen=True, slots=True, eq=False)
class LeastSquares:
    """ψ = ω r, whatever the residual."""

    weight: PerMatch

    def scored(self, residual: Columns) -> tuple[Columns, Columns, FloatArray]:
        slopes = np.stack([self.weight, np.zeros_like(self.weight), self.weight])
        return residual, slopes[::2], slopes

    def take(self, index: Index) -> LeastSquares:
        return LeastSquares(self.weight[index])


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
    if C is None or not np.isfinite(C).all():
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
    corners = plane.corners(matches.source_size)
    images = plane.project(H_01, corners)
    main = pair.sums[0]
    forward = main.side.direction.forward
    smooth = Smooth.of(pair, (images if forward else corners).T)
    by_step = _by_step(main, images)
    # By a root of the meat: a product with its own transpose has no negative variance.
    root = pair.root * smooth.clustering(pair.root)
    own = by_step @ np.linalg.solve(pair.bread, root)
    C = own @ own.T
    response = by_step @ smooth.response()
    shared = 0.0
    if shared_error:
        shared = shared_error**2 * pair.mean_square() * smooth.usual_change()
        moved = response[:, -SHARED:] * UNDER_PLANE
        C += shared * (moved @ moved.T)
    if not field:
        return C
    size = main.side.direction.refined_size
    extent = float(np.sqrt(size @ size))
    moment = model_error.second_moment(
        smooth.sample(), PARAMETERS, LENSES, extent, shared, quick=True
    )
    # A corner is where the field takes it. Where image 0 was refined the field is in
    # its pixels, and moves the corner the other way.
    own_field = smooth.of_corners
    if not forward:
        local = plane.jacobian(H_01, corners)
        own_field = -np.einsum("cab,qbc->qac", local, own_field)
    v = response[:, :-SHARED] - own_field.transpose(2, 1, 0).reshape(8, -1)
    floor = model_error.least_px(least, extent, plane=True)
    return C + model_error.spread_of(v, moment, least_of_field(floor, len(moment)))


def _sides(H_01: Matrix3, matches: Matches, scores: Scores) -> list[Side] | None:
    """First the matches refined in the image in which most are; None if undefined."""
    forward = in_target(matches)
    main = Side.of(H_01, matches, scores, forward=forward)
    if main is None or main.count == len(matches):
        return None if main is None or main.count == 0 else [main]
    other = Side.of(H_01, matches, scores, forward=not forward)
    return None if other is None else [main, other]


def _determined(sides: Sequence[Side]) -> Pair | None:
    """The pair, if its matches determine a homography."""
    for dtype, bar in PRECISIONS:
        # A slope that falls too often: the Gauss–Newton matrix is always positive.
        for slopes in (True, False):
            looks = [sums_of(side, dtype, slopes=slopes) for side in sides]
            sums = [one for one in looks if one is not None]
            if not sums:
                return None
            bread, meat, carries = _by_parameters(sums)
            if _root(bread, bar) is None:
                continue
            root = _root(meat, bar)
            if root is not None:
                return Pair(sums, carries, bread, root)
            break
    return None


def _by_parameters(
    sums: Sequence[Sums],
) -> tuple[Matrix, Matrix, Sequence[Matrix | None]]:
    """Σ Jᵀψ′J, Σ Jᵀψψᵀ J, and the maps from the parameters to those of each side."""
    carries: list[Matrix | None] = [None]
    for one in sums[1:]:
        carries.append(_carry(one.frame, one.side.direction.model, sums[0].frame))
    bread, meat = np.zeros((2, PARAMETERS, PARAMETERS))
    for one, carry in zip(sums, carries, strict=True):
        for total, moments in ((bread, one.moments[:6]), (meat, one.moments[6:])):
            half = _carried(by_steps(moments, one.frame.scale), carry)
            total += _carried(half.T, carry)
    return bread, meat, carries


@dataclass(frozen=True, slots=True, eq=False)
class Pair:
    """All matches, by the parameters."""

    sums: Sequence[Sums]  # of the sides, first that of the parameters
    carries: Sequence[Matrix | None]  # from the parameters to those of each side
    bread: Matrix  # Σ Jᵀψ′J
    root: Matrix  # R with R Rᵀ = Σ Jᵀψψᵀ J

    def mean_square(self) -> float:
        """Of the residuals, by weight: Σ ψ r / Σ ψ/r, px²."""
        energy = sum(one.energy for one in self.sums)
        return energy / sum(one.weight for one in self.sums)


@dataclass(frozen=True, slots=True, eq=False)
class Smooth:
    """Squares of the image, and how everything smooth moves them."""

    sums: Sequence[Sums]
    places: Sequence[Places]  # of squares, and of the corners
    X: Sequence[FloatArray]  # (36, 2, squares)
    of_corners: FloatArray  # what cosines and lenses do there, (18, 2, 4)

    @classmethod
    def of(cls, pair: Pair, corners: Columns) -> Smooth:
        """`corners` are those of image 0 in the image of the main side."""
        places: list[Places] = []
        X: list[FloatArray] = []
        for one, carry in zip(pair.sums, pair.carries, strict=True):
            count = one.squares.shape[1]
            at = np.hstack([one.some.places(one.squares), corners])
            seen = one.side.direction.places(at)
            moves = _moves(one, carry, seen)
            if not X:
                of_corners = moves[PARAMETERS:_FIELD, :, count:].copy()
            near = seen.in_view()
            if not near.all():  # what matches there say is wrong, and far from linear
                moves[:, :, ~near] = 0.0
            places.append(seen)
            X.append(moves[:, :, :count])
        return cls(pair.sums, places, X, of_corners)

    def clustering(self, root: Matrix) -> float:
        """√ of how many times more block sums vary than independent scores, ≥ 1."""
        pairs = zip(self.sums, self.X, strict=True)
        scores = _joined([_of_blocks(one, X) for one, X in pairs])
        count = int(np.count_nonzero(scores.any(axis=0)))
        white = np.linalg.solve(root, scores)
        excess = float(np.vdot(white, white)) / PARAMETERS
        # The fit takes as many degrees of freedom off the blocks as it has parameters.
        excess *= count / max(count - PARAMETERS, 1)
        return float(np.sqrt(max(1.0, excess)))

    def response(self) -> FloatArray:
        """How far everything smooth moves the parameters, (8, 28)."""
        total = np.zeros((PARAMETERS, _FIELD + SHARED))
        for one, X in zip(self.sums, self.X, strict=True):
            xx, xy, yy = one.of_squares[2:]
            J = X[:PARAMETERS]
            turned = np.empty_like(J)
            np.add(J[:, 0] * xx, J[:, 1] * xy, out=turned[:, 0])
            np.add(J[:, 0] * xy, J[:, 1] * yy, out=turned[:, 1])
            total += turned.reshape(PARAMETERS, -1) @ X.reshape(len(X), -1).T
        return np.linalg.solve(total[:, :PARAMETERS], total[:, PARAMETERS:])

    def usual_change(self) -> float:
        """The median change of view, each square with the weight of its matches."""
        changes = [
            places.view_change()[: one.squares.shape[1]]
            for one, places in zip(self.sums, self.places, strict=True)
        ]
        change = _joined(changes)
        weight = _joined([one.of_squares[2] + one.of_squares[4] for one in self.sums])
        order = np.argsort(change)
        part = np.cumsum(np.maximum(weight, 0.0)[order])
        usual = change[order[np.searchsorted(part, 0.5 * part[-1])]]
        return max(float(usual), MIN_VIEW_CHANGE)

    def sample(self) -> Sample:
        """What the field is fitted to."""
        some = [one.some for one in self.sums]
        squares = _joined([one.squares for one in self.sums])
        count, number = squares.shape[1], some[0].square
        for more in some[1:]:
            number = np.append(number, more.square + self.sums[0].squares.shape[1])
        fine = any(square_px(one.frame) < SQUARE_PX for one in self.sums)
        ends = np.cumsum([len(one.square) for one in some])[:-1]

        def rescored(residual: Vector) -> tuple[Vector, Vector]:
            r = residual.reshape(2, -1)
            parts = [r] if len(some) == 1 else np.split(r, ends, axis=1)
            both = [s.scores.scored(r) for s, r in zip(some, parts, strict=True)]
            weight, slope = (_joined([one[k] for one in both]) for k in (1, 2))
            return weight.ravel(), slope[::2].ravel()

        return Sample(
            X=_joined([X[:_FIELD] for X in self.X]).reshape(_FIELD, -1),
            axes=2,
            block=np.tile(block_ids(squares.T, SQUARE_PX), 2) if fine else None,
            smooth=block_ids(squares.T, model_error.SMOOTH_PX),
            residual=_joined([one.residual for one in some]).ravel(),
            weight=_joined([one.weight for one in some]).ravel(),
            column=np.concatenate([number, number + count]),
            rescored=rescored,
        )


def _joined(arrays: list[FloatArray]) -> FloatArray:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)


def _carry(to: Frame, model: Matrix3, frame: Frame) -> Matrix:
    """From steps in a frame to steps of the inverse model in the other, 9 × 9."""
    P = to.matrix @ model @ np.linalg.inv(frame.matrix)
    return -np.kron(P, np.linalg.inv(P).T)


def _carried(sums: FloatArray, carry: Matrix | None) -> FloatArray:
    """Sums of Jᵀ (9, k) by the parameters (8, k)."""
    return (sums if carry is None else carry.T @ sums)[:PARAMETERS]


def _moves(sums: Sums, carry: Matrix | None, places: Places) -> FloatArray:
    """How places move by parameters, waves and what all matches share, (36, 2, b)."""
    at = places.refined
    J = by_entry(sums.frame(at))
    J /= sums.frame.scale
    X = np.zeros((_FIELD + SHARED, 2, at.shape[1]))
    X[:PARAMETERS] = _carried(J.reshape(9, -1), carry).reshape(PARAMETERS, 2, -1)
    X[8:16, 0] = X[16:24, 1] = places.cosines()
    X[24:26] = places.lenses()
    X[26:30, 0] = X[30:34, 1] = bilinear_field(at.T, places.direction.refined_size)
    X[34:] = places.local_change().swapaxes(0, 1)
    return X


def _of_blocks(sums: Sums, X: FloatArray) -> FloatArray:
    """Σ Jᵀψ of each block, as if its matches were all in one place."""
    along_x, along_y = sums.of_squares[:2]
    scores = X[:PARAMETERS, 0] * along_x + X[:PARAMETERS, 1] * along_y
    if square_px(sums.frame) == SQUARE_PX:
        return np.asarray(scores)
    block = block_ids(sums.squares.T, SQUARE_PX)
    return np.array([np.bincount(block, row) for row in scores])


def _by_step(main: Sums, images: Points) -> Matrix:
    """∂ images of image 0's corners, px / ∂ parameters, 8 × 8."""
    direction = main.side.direction
    frame = main.frame if direction.forward else Frame.of(images.T, np.ones(4))
    if frame is None:
        raise np.linalg.LinAlgError("all corners are in one place")
    J = by_entry(frame(images.T)).transpose(2, 1, 0).reshape(8, 9) / frame.scale
    if not direction.forward:
        J = J @ _carry(frame, direction.back, main.frame)
    return J[:, :PARAMETERS]


def _root(matrix: Matrix, bar: float) -> Matrix | None:
    """R with R Rᵀ the matrix, None unless positive definite, whatever the units."""
    try:
        root = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    certain = root.diagonal() ** 2 > bar * matrix.diagonal()
    return root if certain.all() else None
