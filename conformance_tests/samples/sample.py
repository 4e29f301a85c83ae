"""A sample: a value with a name."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Sample:
    """A value with a name. ``why`` says of an unfit one why it cannot be kept."""

    name: str
    value: Any = field(repr=False)
    why: str = ""


def name_of(sample: object) -> str:
    """For ``parametrize(..., ids=name_of)``."""
    return sample.name if isinstance(sample, Sample) else str(sample)
