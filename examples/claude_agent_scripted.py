#!/usr/bin/env python3
"""Plays the program that the Claude Agent SDK starts: its protocol, and no model behind it.

It says how many entries the session had that it was told to resume, and mirrors each turn.
"""

import json
import os
import re
import sys
import uuid
from pathlib import Path
from typing import Any


def tell(**message: Any) -> None:
    print(json.dumps(message), flush=True)


def turn(prompt: str, session: str, known: int) -> None:
    projects = Path(os.environ.get("CLAUDE_CONFIG_DIR", Path.home() / ".claude")) / "projects"
    folder = projects / re.sub("[^a-zA-Z0-9]", "-", str(Path.cwd()))
    answer = f"known before: {known}"
    said = [("user", prompt), ("assistant", [{"type": "text", "text": answer}])]
    entries: list[dict[str, Any]] = [
        {
            "type": role,
            "uuid": str(uuid.uuid4()),
            "parentUuid": None,
            "sessionId": session,
            "message": {"role": role, "content": content, "model": "scripted"},
        }
        for role, content in said
    ]
    entries[1]["parentUuid"] = entries[0]["uuid"]
    tell(type="transcript_mirror", filePath=str(folder / f"{session}.jsonl"), entries=entries)
    tell(type="assistant", message=entries[1]["message"], session_id=session)
    tell(
        type="result",
        subtype="success",
        result=answer,
        session_id=session,
        is_error=False,
        num_turns=1,
        duration_ms=1,
        duration_api_ms=1,
    )


def main(arguments: list[str]) -> None:
    if "-v" in arguments:
        print("99.0.0 (scripted)")
        return
    options = [option.partition("=") for option in arguments]
    resumed = next((value for name, _, value in options if name == "--resume"), "")
    held = Path(os.environ.get("CLAUDE_CONFIG_DIR", "")).glob(f"projects/*/{resumed}.jsonl")
    known = sum(len(file.read_text("utf-8").splitlines()) for file in held) if resumed else 0
    session = resumed or str(uuid.uuid4())
    for line in sys.stdin:
        message = json.loads(line)
        if message["type"] == "control_request":
            answer = {"subtype": "success", "request_id": message["request_id"]}
            tell(type="control_response", response=answer)
        elif message["type"] == "user":
            turn(message["message"]["content"], session, known)


if __name__ == "__main__":
    main(sys.argv[1:])
