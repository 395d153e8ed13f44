"""Everything that ``core+`` asks of the 2D–3D matches of a query, block by block.

The same for poses as :mod:`semisure.refit.plane_fit` for homographies: a block stays in
the processor's cache and keeps what no pose changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from semisure.error_laws import error_law
from semisure.geometry import pose as se3
from semisure.geometry.camera import Camera
from semisure.mixture import ErrorLaw
from semisure.refit.core_plus import (
    MAX_ITERATIONS,
    TOLERANCE_PX,
    equal_parts,
    floored,
)
from semisure.refit.fixed_point import fixed_point
from semisure.refit.initial import far_not_undefined
from semisure.refit.law_terms import LogLikelihood, Whitening
from semisure.refit.shelf import Shelf
from semisure.types import (
    Calibration,
    Columns,
    Matrix,
    PerMatch,
    Points3,
    Pose,
    Vector,
    WorldMatches,
)

DOUBLES, SINGLES = 13, 8  # that a block keeps of each match
BLOCK_ROWS = 5000  # a Jacobian has 12 numbers a match
WATCHED = 200  # matches that tell how far a pose moved


def law_with_map(matches: WorldMatches, calibration: Calibration) -> ErrorLaw:
    """The law with the world points' own error added to its scales, in quadrature."""
    law = error_law(matches, calibration)
    error = matches.map_error[:, None]
    if not error.any():
        return law
    return replace(
        law,
        fine_scale=np.hypot(law.fine_scale, error),
        coarse_scale=np.hypot(law.coarse_scale, error),
    )


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """Some matches of a query."""

    rows: slice
    world: Points3
    points: Columns
    whitening: Whitening
    log_likelihood: LogLikelihood

    @classmethod
    def of(
        cls,
        matches: WorldMatches,
        calibration: Calibration,
        rows: slice,
        shelf: Shelf,
    ) -> Block:
        some = matches.take(rows)
        law = law_with_map(some, calibration)
        return cls(
            rows,
            shelf.keep(some.world.T).T,
            shelf.keep(some.points.T),
            Whitening.of(floored(law, some), shelf.keep_single),
            LogLikelihood.of(law, shelf.keep),
        )

    def equations(self, pose: Pose, camera: Camera) -> tuple[Matrix, Vector]:
        """Of one step of reweighted least squares."""
        pixels, J = se3.look(pose, camera, self.world)
        residual = far_not_undefined(self.points - pixels.T)
        centred, weight, _ = self.whitening(residual)
        return se3.normal_equations(J, centred.T, weight.T)

    def judged(self, pose: Pose, camera: Camera) -> tuple[PerMatch, float]:
        """ω of the matches under a pose, and Σ log p."""
        pixels = se3.project(pose, camera, self.world)
        return self.log_likelihood(far_not_undefined(self.points - pixels.T))


@dataclass(frozen=True, slots=True, eq=False)
class PoseFit:
    """The matches of a query with their law."""

    camera: Camera
    blocks: list[Block]
    watched: Points3
    count: int

    @classmethod
    def of(
        cls, matches: WorldMatches, camera: Camera, calibration: Calibration
    ) -> PoseFit:
        shelf = Shelf(DOUBLES * len(matches), SINGLES * len(matches))
        parts = [
            Block.of(matches, calibration, rows, shelf)
            for rows in equal_parts(len(matches), BLOCK_ROWS)
        ]
        watched = matches.world[:: 1 + len(matches) // WATCHED]
        return cls(camera, parts, watched, len(matches))

    def converged(self, start: Pose) -> tuple[Pose | None, int]:
        """The pose at which no point moves any more, or the last one, or None."""
        with np.errstate(all="ignore"):
            # Steps in units that move points by about a pixel can be compared.
            J = se3.jacobian(start, self.camera, self.watched)
            unit = 1.0 / np.sqrt((J * J).sum(axis=(0, 2)) + 1e-300)
            step, count = fixed_point(
                np.zeros(6),
                partial(self._following, start, unit),
                partial(self._moved_px, start, unit),
                tolerance=TOLERANCE_PX,
                max_steps=MAX_ITERATIONS,
            )
            return None if step is None else se3.moved(start, unit * step), count

    def judged(self, pose: Pose) -> tuple[PerMatch, float]:
        """ω of each match under a pose, and the log likelihood, nats."""
        with np.errstate(all="ignore"):
            weight, total = np.zeros(self.count), 0.0
            for block in self.blocks:
                weight[block.rows], part = block.judged(pose, self.camera)
                total += part
            return weight, total

    def _equations(self, pose: Pose) -> tuple[Matrix, Vector]:
        normal, pull = np.zeros((6, 6)), np.zeros(6)
        for block in self.blocks:
            more = block.equations(pose, self.camera)
            normal += more[0]
            pull += more[1]
        return normal, pull

    def _following(self, start: Pose, unit: Vector, place: Vector) -> Vector | None:
        """The place, as a step from `start`, after one more step."""
        pose = se3.moved(start, unit * place)
        step = se3.solve(*self._equations(pose))
        if step is None:
            return None
        return se3.tangent(start, se3.moved(pose, step)) / unit

    def _moved_px(self, start: Pose, unit: Vector, a: Vector, b: Vector) -> float:
        """How far the farthest of some points moved that both poses see."""
        poses = (se3.moved(start, unit * place) for place in (a, b))
        before, after = (se3.project(p, self.camera, self.watched) for p in poses)
        moved = np.abs(after - before)
        return float(moved[np.isfinite(moved)].max(initial=0.0))
