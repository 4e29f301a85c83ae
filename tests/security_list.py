"""What an attacker may try on a store, row by row, as a page.

``python -m tests.security_list`` writes docs/security-list.md.
"""

from tests.conftest import ROOT
from tests.security_requests import REQUESTS
from tests.security_row import place_of
from tests.security_surroundings import SURROUNDINGS

PAGE = ROOT / "docs" / "security-list.md"

ROWS = sorted([*REQUESTS, *SURROUNDINGS], key=lambda row: row.number)


def page() -> str:
    """docs/security-list.md."""
    lines = [
        "# What attackers may try",
        "",
        "Each row is a surface and what comes of an attack on it. The tests show it: on all five",
        "backends where nothing else is said. The threat model: [SECURITY.md](../SECURITY.md).",
        "This page is made by `python -m tests.security_list`; a test fails for a row that no test",
        "shows on a backend.",
    ]
    for row in ROWS:
        lines += ["", f"## {row.number}. {row.surface[0].upper()}{row.surface[1:]}", ""]
        lines += [f"{row.answer[0].upper()}{row.answer[1:]}.", ""]
        lines += [f"- {_told(test)}" for test in row.all]
        for backend, tests in row.on.items():
            lines += [f"- {backend}: {_told(test)}" for test in tests]
        reasons = dict[str, list[str]]()
        for backend, why in row.free.items():
            reasons.setdefault(why, []).append(backend)
        lines += [f"- {', '.join(of)}: none, since {why}" for why, of in reasons.items()]
    return "\n".join(lines) + "\n"


def _told(test: str) -> str:
    path, name = place_of(test)
    return f"`{path}` {name.removeprefix('test_').replace('_', ' ')}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
