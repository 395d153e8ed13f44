"""Queries against a map: match, lift, estimate, refit, report.

Each query is matched to the mapped images that retrieval proposed, with the query as
the refined side, so that the calibrated errors are in the query's pixels.
"""

from semisure.localize.query import Localized, LocalizeSettings, localize_query
from semisure.localize.run import localize, write_results
from semisure.localize.sources import (
    QueryFirst,
    Source,
    from_images,
    from_store,
    stored,
)

__all__ = [
    "LocalizeSettings",
    "Localized",
    "QueryFirst",
    "Source",
    "from_images",
    "from_store",
    "localize",
    "localize_query",
    "stored",
    "write_results",
]
