"""The same function over many items: in this process, in many, or on a cluster.

An engine gets a function of a batch and the batches, and gives ``(index, answer)`` for
each item as they come; ``index`` counts the items of all batches in order. A worker
process may die of a damaged image or for want of memory: its batch is tried again, then
split, until the one item that ends every process is found, whose answer is
:class:`Lost`.

==========  ====================================================================
``here``    this process: no other process, no survival
``local``   processes of this machine, one thread each
``ray``     a Ray cluster (:mod:`semisure.engine.ray`, the one file that knows it)
==========  ====================================================================

Work is done by processes of one thread each, so that the last bits of a sum do not
depend on how many there are. For arrays of jobs, a :class:`PartEngine` does every N-th
batch by any of these.
"""

from semisure.engine.attempts import Lost
from semisure.engine.part import Part, PartDone
from semisure.engine.protocol import Each, Engine, PartEngine, in_batches, in_order
from semisure.engine.settings import ENGINES, EngineSettings, open_engine

__all__ = [
    "ENGINES",
    "Each",
    "Engine",
    "EngineSettings",
    "Lost",
    "Part",
    "PartDone",
    "PartEngine",
    "in_batches",
    "in_order",
    "open_engine",
]
