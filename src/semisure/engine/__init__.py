"""The same function over many items: in this process, in several, or on a cluster.

An engine gets a function of a batch, and the batches, and yields ``(index, answer)``
for each item as they come; ``index`` counts the items of all batches in order. A worker
process may die of a damaged image or for want of memory: its batch is tried again, then
split, until the one item that ends every process is found; its answer is :class:`Lost`.

Worker processes have one thread each, so that the last bits of a sum do not depend on
how many there are.
"""

from semisure.engine.pool import (
    HERE,
    Each,
    Engine,
    Lost,
    in_batches,
    in_order,
)
from semisure.engine.settings import ENGINES, EngineSettings, open_engine

__all__ = [
    "ENGINES",
    "HERE",
    "Each",
    "Engine",
    "EngineSettings",
    "Lost",
    "in_batches",
    "in_order",
    "open_engine",
]
