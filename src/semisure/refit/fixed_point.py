"""Fixed points of a step that approaches them slowly, by Anderson's extrapolation.

Each step of reweighted least squares covers the same share of the way that is left,
some three quarters of it. Later the last few steps tell that share by direction: if the
newest is a combination of the differences between them, the same combination of the
places they led to is where all steps end. See Walker and Ni, Anderson Acceleration for
Fixed-Point Iterations, SIAM J. Numer. Anal. 49, 2011.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from semisure.types import Vector

MEMORY = 5  # places looked back to
RIDGE, TINY = 1e-13, 1e-300
USUAL_SHARE = 0.75  # of the way that is left, in a first step


def fixed_point(
    start: Vector,
    image: Callable[[Vector], Vector | None],
    length: Callable[[Vector, Vector], float],
    *,
    tolerance: float,
    max_steps: int,
) -> tuple[Vector | None, int]:
    """x with `image` (x) = x near `start`, and how many steps it took.

    The last step is the first whose `length`, from one place to its image, is below
    `tolerance`. None where a place has no image.

    >>> half_way_to_2 = lambda x: 0.5 * x + 1.0
    >>> apart = lambda x, y: float(np.abs(y - x).max())
    >>> fixed_point(np.zeros(1), half_way_to_2, apart, tolerance=1e-6, max_steps=9)
    (array([2.]), 3)
    """
    places: list[Vector] = []
    steps: list[Vector] = []
    x, last = start, np.inf
    for count in range(1, max_steps + 1):
        reached = image(x)
        if reached is None:
            return None, count
        moved = length(x, reached)
        if not moved <= last:  # the extrapolation did harm: begin anew
            places, steps = [], []
        places, steps = [*places[1 - MEMORY :], x], [*steps[1 - MEMORY :], reached - x]
        x, last = _extrapolated(places, steps), moved
        if moved < tolerance:
            break
    return x, count


def _extrapolated(places: list[Vector], steps: list[Vector]) -> Vector:
    """Where the steps lead."""
    if len(steps) == 1:
        return places[-1] + steps[-1] / USUAL_SHARE
    reached = places[-1] + steps[-1]
    by_place, by_step = (np.array(rows[1:]) - rows[:-1] for rows in (places, steps))
    # Least squares by normal equations, which a ridge keeps solvable.
    unit = 1.0 / np.sqrt((by_step * by_step).sum(axis=1) + TINY)
    scaled = unit[:, None] * by_step
    gram = scaled @ scaled.T + RIDGE * np.eye(len(unit))
    shares = unit * np.linalg.solve(gram, scaled @ steps[-1])
    return np.asarray(reached - shares @ (by_place + by_step))
