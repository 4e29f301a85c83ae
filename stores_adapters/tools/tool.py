"""A function that a model may call, with the JSON schema of its arguments."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from pydantic import ValidationError

from stores_core.shape import Shape, refusal

Arguments = TypeVar("Arguments", bound=Shape)


@dataclass(frozen=True)
class Tool(Generic[Arguments]):
    """One tool function; ``arguments`` is the model of what it takes.

    Hand ``name``, ``description`` and `parameters` to the model, in whatever form its API wants,
    and the arguments that it answers to `call`.
    """

    name: str
    description: str
    arguments: type[Arguments]
    run: Callable[[Arguments], Awaitable[str]]

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON schema of the arguments: an object, without further properties."""
        schema = self.arguments.model_json_schema(by_alias=False)
        del schema["title"]  # the name of a class of ours
        return schema

    async def call(self, arguments: Mapping[str, Any]) -> str:
        """The text for the model. Raises InvalidRequestError for arguments that do not fit."""
        try:
            given = self.arguments(**arguments)
        except ValidationError as error:
            raise refusal(error, self.arguments) from None
        return await self.run(given)
