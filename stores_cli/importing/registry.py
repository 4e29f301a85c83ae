"""All formats, in the order in which they are asked for a file that nobody named."""

from stores_cli.importing.a2a import A2A
from stores_cli.importing.aider import AIDER
from stores_cli.importing.anthropic_messages import ANTHROPIC_MESSAGES
from stores_cli.importing.auggie import AUGGIE
from stores_cli.importing.autogen import AUTOGEN
from stores_cli.importing.claude_code import CLAUDE_CODE
from stores_cli.importing.codex import CODEX
from stores_cli.importing.copilot_cli import COPILOT_CLI
from stores_cli.importing.dsh import DSH
from stores_cli.importing.formats import Format
from stores_cli.importing.gemini_cli import GEMINI_CLI
from stores_cli.importing.go_sdk import GO_SDK
from stores_cli.importing.google_adk import GOOGLE_ADK
from stores_cli.importing.grok_cli import GROK_CLI
from stores_cli.importing.ide_exports import IDE_EXPORTS
from stores_cli.importing.inspect_ai import INSPECT_AI
from stores_cli.importing.langgraph_tables import LANGGRAPH_TABLES
from stores_cli.importing.langgraph_thread import LANGGRAPH_EVENTS, LANGGRAPH_THREAD
from stores_cli.importing.letta import LETTA
from stores_cli.importing.mcp_log import MCP
from stores_cli.importing.memory_graph import MEMORY_GRAPH
from stores_cli.importing.openai_agents import OPENAI_AGENTS
from stores_cli.importing.openai_chat import OPENAI_CHAT
from stores_cli.importing.openai_responses import OPENAI_RESPONSES
from stores_cli.importing.openhands import OPENHANDS
from stores_cli.importing.pi import PI
from stores_cli.importing.sharegpt import SHAREGPT
from stores_cli.importing.sources import Source
from stores_cli.importing.swe_agent import MINI_SWE_AGENT, SWE_AGENT
from stores_cli.importing.tau_bench import TAU_BENCH
from stores_core import InvalidRequestError

FORMATS: tuple[Format, ...] = (
    CLAUDE_CODE,
    CODEX,
    GEMINI_CLI,
    COPILOT_CLI,
    DSH,
    PI,
    GROK_CLI,
    OPENHANDS,
    SWE_AGENT,
    MINI_SWE_AGENT,
    LANGGRAPH_THREAD,
    LANGGRAPH_EVENTS,
    LANGGRAPH_TABLES,
    OPENAI_AGENTS,
    GOOGLE_ADK,
    GO_SDK,
    INSPECT_AI,
    AUTOGEN,
    LETTA,
    MEMORY_GRAPH,
    TAU_BENCH,
    AUGGIE,
    IDE_EXPORTS,
    MCP,
    A2A,
    SHAREGPT,
    OPENAI_RESPONSES,
    ANTHROPIC_MESSAGES,
    OPENAI_CHAT,
    AIDER,
)

AUTO = "auto"


def format_named(name: str) -> Format:
    """The format of that name. Raises InvalidRequestError, naming all."""
    for format in FORMATS:
        if format.name == name:
            return format
    known = ", ".join(sorted(format.name for format in FORMATS))
    raise InvalidRequestError(
        field="--from", found="an unknown format", allowed=f"{AUTO} or one of {known}"
    )


def recognise(source: Source) -> Format | None:
    """The first format that knows the source as its own."""
    return next((format for format in FORMATS if format.recognises(source)), None)
