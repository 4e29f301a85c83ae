"""OpenAI Agents SDK: a session outlives its process, takes an answer back, and forks."""

from collections.abc import AsyncIterator
from typing import Any

from agents import Agent, Model, ModelResponse, Runner, Usage, set_tracing_disabled
from openai.types.responses import ResponseOutputMessage, ResponseOutputText
from restarted import play

from stores_adapters.openai_agents import BackendSession
from stores_core import open_backend


class Scripted(Model):
    """Answers how many items it was shown."""

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        seen = f"seen {len(kwargs['input'])}"
        text = ResponseOutputText(text=seen, type="output_text", annotations=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[text]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


AGENT = Agent(name="guide", model=Scripted())
set_tracing_disabled(True)


async def first(url: str) -> None:
    async with open_backend(url) as backend:
        session = BackendSession("trip", backend)
        print("answered:", (await Runner.run(AGENT, "To Oslo?", session=session)).final_output)


async def second(url: str) -> None:
    async with open_backend(url) as backend:
        session = BackendSession("trip", backend)
        print("resumed:", (await Runner.run(AGENT, "By train?", session=session)).final_output)
        await session.pop_item()  # the branch with the answer stays
        fork = await session.fork_session("other-trip", items=2)
        print("forked:", (await Runner.run(AGENT, "By ship?", session=fork)).final_output)
        print("the session:", len(await session.get_items()), "items")
        runs = (await backend.runs.list_runs()).runs
        print("runs, and what each began with:", [run.fork_point for run in reversed(runs)])


if __name__ == "__main__":
    play(first, second)
