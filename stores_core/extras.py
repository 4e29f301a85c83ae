"""Optional packages: imported when first needed, named with their install command when missing."""

from importlib import import_module
from typing import Any

from stores_core.errors import InvalidRequestError


def need(module: str, *, extra: str, field: str) -> Any:
    """The module, which comes with ``extra``. ``field`` is what asked for it.

    Raises InvalidRequestError with the command that installs it.
    """
    try:
        return import_module(module)
    except ImportError as error:
        raise InvalidRequestError(
            field=field,
            found=f"no package {module.partition('.')[0]!r}",
            allowed=f"it once `pip install 'agent-stores[{extra}]'` has run",
        ) from error
