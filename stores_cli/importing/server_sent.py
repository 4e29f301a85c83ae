"""Answers that were recorded as server-sent events: put together from their parts."""

from collections.abc import Iterator
from typing import Any

from stores_cli.importing.json_values import as_dict, as_list, read_json_text

_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}


def data_of(text: str) -> Iterator[Any]:
    """The data of each event in the text of a stream, as JSON where it is some."""
    for event in text.replace("\r\n", "\n").split("\n\n"):
        lines = [line[5:].removeprefix(" ") for line in event.split("\n") if line[:5] == "data:"]
        if lines:
            yield read_json_text("\n".join(lines))


def put_together(answer: Any) -> Any:
    """The message that the events of a stream of Anthropic's make; any other value as it is."""
    if not isinstance(answer, str) or "data:" not in answer:
        return answer
    message: dict[str, Any] = {}
    blocks: list[dict[str, Any]] = []
    partial: dict[int, str] = {}
    for event in map(as_dict, data_of(answer)):
        kind, place = event.get("type"), event.get("index")
        delta = as_dict(event.get("delta"))
        if kind == "message_start":
            message = dict(as_dict(event.get("message")))
        elif kind == "content_block_start":
            blocks.append(dict(as_dict(event.get("content_block"))))
        elif kind == "content_block_delta" and isinstance(place, int) and place < len(blocks):
            _extend(blocks[place], delta, partial, place)
        elif kind == "message_delta":
            message |= delta
            message["usage"] = as_dict(message.get("usage")) | as_dict(event.get("usage"))
    for place, text in partial.items():
        blocks[place]["input"] = read_json_text(text)
    return message | {"content": blocks} if message else answer


def _extend(
    block: dict[str, Any], delta: dict[str, Any], partial: dict[int, str], place: int
) -> None:
    kind = str(delta.get("type"))
    if kind in _DELTAS:
        field = _DELTAS[kind]
        block[field] = str(block.get(field) or "") + str(delta.get(field) or "")
    elif kind == "input_json_delta":
        partial[place] = partial.get(place, "") + str(delta.get("partial_json") or "")
    elif kind == "citations_delta":
        block["citations"] = [*as_list(block.get("citations")), delta.get("citation")]
    else:
        block["deltas"] = [*as_list(block.get("deltas")), delta]
