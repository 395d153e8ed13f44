"""Laws fitted to pairs with truth, by worker processes; a fit is made once and kept.

The paper's optimiser is asked for by name and serves every law that has something to
search for. Closed forms need none, and a location, which is ours, is fitted by Newton's
method.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from semisure.bench.exported import Exported
from semisure.bench.true_errors import with_truth
from semisure.law.fit_law import Optimiser, fit
from semisure.types import Calibration, LawName

BY_SEARCH: tuple[LawName, ...] = ("mixture", "gaussian", "no_confidence_gate")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FitTask:
    """A law to be fitted to some pairs."""

    exported: Sequence[Exported]
    law: LawName = "mixture"
    location: bool = False
    optimiser: Optimiser = "newton"

    def by(self) -> Optimiser:
        """The optimiser that this fit can use."""
        searched = self.law in BY_SEARCH and not self.location
        return self.optimiser if searched else "newton"


def law_of(task: FitTask) -> Calibration:
    """The law fitted to the pairs."""
    truths = [with_truth(one) for one in task.exported]
    return fit(truths, law=task.law, location=task.location, optimiser=task.by())[0]


def fitted(task: FitTask) -> dict[str, Any]:
    """The law as a row that can be kept."""
    return asdict(law_of(task))


def calibration_of(row: dict[str, Any]) -> Calibration:
    """The calibration that a row holds."""
    return Calibration(**row)
