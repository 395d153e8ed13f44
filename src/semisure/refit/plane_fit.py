"""Everything that ``core+`` asks of the matches of a plane, block by block.

A block is few enough matches for its arrays to stay in the processor's cache, all of
one refined side. It keeps what no homography changes: the points in their frames and
the terms of the law. One pass over the blocks then gives either the next homography or
the likelihood of one. What is computed is in :mod:`semisure.geometry.plane_steps` and
:mod:`semisure.refit.law_terms`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from semisure.error_laws import error_law
from semisure.geometry import homography as plane
from semisure.geometry.plane_steps import (
    Curvature,
    Directed,
    Equations,
    Frames,
    Look,
    backward,
    carried_over,
)
from semisure.mixture import GAUSSIAN, LAPLACE
from semisure.refit.core_plus import (
    BLOCK_ROWS,
    MAX_ITERATIONS,
    TOLERANCE_PX,
    equal_parts,
    floor2_of,
)
from semisure.refit.fixed_point import fixed_point
from semisure.refit.initial import FAR_PX, far_not_undefined
from semisure.refit.law_terms import LogLikelihood, Whitening
from semisure.refit.shelf import hold_on
from semisure.types import (
    Calibration,
    Columns,
    FloatArray,
    Index,
    Matches,
    Matrix3,
    PerMatch,
    Vector,
)

NUMBERS = 30  # that are made of each match, many of them for a moment
SINGLES = 8  # numbers that weights keep of each match
NEAR_PX = 0.05  # steps shorter than this share their curvature


def blocks(matches: Matches, rows: int = BLOCK_ROWS) -> Iterator[tuple[int, Index]]:
    """Refined sides and rows of matches that share one, not too many at once.

    >>> from semisure.synthetic import SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=5)
    >>> list(blocks(matches, rows=3))
    [(1, slice(0, 3, None)), (1, slice(3, 5, None))]
    """
    first = int(matches.side[0]) if len(matches) else 1
    if (matches.side == first).all():
        for part in equal_parts(len(matches), rows):
            yield first, part
        return
    for side in (0, 1):
        of_side = np.flatnonzero(matches.side == side)
        for part in equal_parts(len(of_side), rows):
            yield side, of_side[part]


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some matches of one refined side."""

    rows: Index
    directed: Directed
    whitening: Whitening
    log_likelihood: LogLikelihood

    @classmethod
    def of(
        cls,
        matches: Matches,
        calibration: Calibration,
        frames: Frames,
        rows: Index,
        room: FloatArray,
    ) -> Block:
        """`room` (8, n) is for what is kept of weights, of all matches."""
        some = matches.take(rows)
        law = error_law(some, calibration)
        part = room[:, rows]
        whitening = Whitening.floored(law, floor2_of(some), part)
        if not isinstance(rows, slice):
            room[:, rows] = part
        return cls(
            rows,
            Directed.of(some, frames),
            whitening,
            LogLikelihood.of(law),
        )

    def equations(self, model: Matrix3) -> Equations:
        """Of one step of reweighted least squares."""
        look = self.directed.look(model)
        equations = self._weighted(look, look.residual)
        if np.isfinite(equations).all():
            return equations
        look.hide_horizon()
        return self._weighted(look, far_not_undefined(look.residual))

    def pull(self, model: Matrix3) -> FloatArray:
        """The last column of the equations; not finite where the horizon is met."""
        look = self.directed.look(model)
        centred, weight, _ = self.whitening(look.residual)
        return self.directed.pull(look, centred, weight)

    def _weighted(self, look: Look, residual: Columns) -> Equations:
        centred, weight, _ = self.whitening(residual)
        return self.directed.equations(look, centred, weight)

    def judged(self, model: Matrix3 | None) -> tuple[PerMatch, float]:
        """ω of the matches under a model, and Σ log p; without one all are far off."""
        if model is None:
            return self.log_likelihood(np.full_like(self.directed.refined, FAR_PX))
        return self.log_likelihood(
            far_not_undefined(self.directed.look(model).residual)
        )


@dataclass(frozen=True, slots=True, eq=False)
class PlaneFit:
    """The matches of a pair with their law."""

    frames: Frames
    forward: list[Block]  # image 1 was refined
    backward: list[Block]  # image 0 was
    corners: FloatArray  # of image 0 in its frame, (3, 4)
    scores: Whitening  # of all matches in their order, for a covariance

    @classmethod
    def of(cls, matches: Matches, calibration: Calibration) -> PlaneFit:
        frames = Frames.of(matches)
        hold_on(NUMBERS * len(matches))
        room = np.empty((SINGLES, len(matches)), dtype=np.float32)
        sides: tuple[list[Block], list[Block]] = ([], [])
        for side, rows in blocks(matches):
            block = Block.of(matches, calibration, frames, rows, room)
            sides[side].append(block)
        gaussian = calibration.law == "gaussian"
        scores = Whitening.within(room, GAUSSIAN if gaussian else LAPLACE)
        frame = plane.corners(matches.source_size)
        corners = frames.T0 @ np.column_stack([frame, np.ones(4)]).T
        return cls(frames, sides[1], sides[0], corners, scores)

    def converged(self, H_01: Matrix3) -> tuple[Matrix3 | None, int]:
        """The homography at which the corners of image 0 stay, or the last, or None."""
        with np.errstate(all="ignore"):
            way = Way(self)
            G, steps = fixed_point(
                self.frames.enter(H_01).ravel(),
                way.following,
                way.moved_px,
                tolerance=TOLERANCE_PX,
                max_steps=MAX_ITERATIONS,
            )
            return None if G is None else self.frames.leave(G.reshape(3, 3)), steps

    def judged(self, H_01: Matrix3) -> tuple[PerMatch, float]:
        """ω of each match under a homography, and the log likelihood, nats."""
        with np.errstate(all="ignore"):
            G = self.frames.enter(H_01)
            weight, total = np.zeros(self.scores.fine2.shape[1]), 0.0
            back = backward(G) if self.backward else None
            for model, of_side in ((G, self.forward), (back, self.backward)):
                for block in of_side:
                    weight[block.rows], part = block.judged(model)
                    total += part
            return weight, total

    def equations(self, G: Matrix3) -> Equations | None:
        """Of a step from G; None where it has no inverse that is needed."""
        equations = np.zeros((9, 10))
        for block in self.forward:
            equations += block.equations(G)
        if self.backward:
            B = backward(G)
            if B is None:
                return None
            behind = sum(block.equations(B) for block in self.backward)
            equations += carried_over(np.asarray(behind), G, B)
        return equations


@dataclass(slots=True, eq=False)
class Way:
    """The steps from a start to where they end.

    Near the end the curvature hardly changes from step to step: the last that was
    computed serves, and a step costs half as much.
    """

    fit: PlaneFit
    left_px: float = np.inf  # length of the last step
    curvature: Curvature | None = None

    def following(self, entries: Vector) -> Vector | None:
        """The entries of G after one step; None where they are not determined."""
        G = entries.reshape(3, 3)
        if self.curvature is not None and self.left_px < NEAR_PX:
            pull = np.asarray(sum(block.pull(G) for block in self.fit.forward))
            if np.isfinite(pull).all():
                return self.curvature.stepped(G, pull).ravel()
        equations = self.fit.equations(G)
        if equations is None or not np.isfinite(equations).all():
            return None
        curvature = Curvature.of(equations[:, :9])
        if curvature is None:
            return None
        if not self.fit.backward:
            self.curvature = curvature
        return curvature.stepped(G, equations[:, 9]).ravel()

    def moved_px(self, before: Vector, after: Vector) -> float:
        """How far the farthest of the four corners moved."""
        places = np.array([before, after]).reshape(2, 3, 3) @ self.fit.corners
        first, second = places[:, :2] / places[:, 2:]
        scale = self.fit.frames.T1[0, 0]
        self.left_px = float(np.abs(second - first).max() / scale)
        return self.left_px
