"""Named sample values: what every store must keep as it is, and what it must refuse.

The samples are shared, so a test never changes one. Ids are put before or behind `lab.new_id()`,
which keeps them apart from everything else in the storage; `long_id` makes the longest there is.
"""

from conformance_tests.samples.ids import ids, long_id, unfit_ids, unfit_limits
from conformance_tests.samples.json_values import (
    json_values,
    nested,
    numbers,
    texts,
    unfit_values,
)
from conformance_tests.samples.records import (
    events,
    messages,
    metadata,
    naive_or_odd_times,
    tool_results,
)
from conformance_tests.samples.sample import Sample, name_of

__all__ = [
    "Sample", "name_of",
    "texts", "numbers", "json_values", "nested", "unfit_values",
    "ids", "long_id", "unfit_ids", "unfit_limits",
    "messages", "events", "tool_results", "metadata", "naive_or_odd_times",
]  # fmt: skip
