"""The family of a run as a picture: a line for each run, from where it was forked to its end.

The messages run from left to right, so a fork begins below the message of its parent at which it
was taken.
"""

from collections.abc import Generator, Sequence

from stores_cli.family import Branch, ancestor, family_of
from stores_cli.ui.markup import Markup, element, joined, link
from stores_cli.ui.page import Page, Query, absent
from stores_core.backend import Backend

MOST = 200
"""So many runs are drawn."""

# Pixels: the column of names, the lines right of it, a row, and room for a number at the end.
NAMES, LINES, ROW, END = 300, 600, 30, 90
NAME_LENGTH = 36


async def tree(backend: Backend, query: Query) -> Page:
    """The family from its oldest ancestor on; with ``below`` only the run and its forks."""
    id = query.id()
    info = (await backend.runs.get_run(run_id=id)).info
    if info is None:
        return absent("run", id)
    root = info if query.text("below") else await ancestor(backend.runs, info)
    family, more = await family_of(backend, root, MOST)
    notes: list[Markup] = []
    if root.parent_id:
        parent = link(root.parent_id, "/run", id=root.parent_id)
        notes.append(element("p", root.id, " was forked from ", parent))
    if more:
        below = link("this run and its forks", "/family", id=id, below="yes")
        notes.append(element("p", f"The first {MOST} of them. Draw only ", below))
    back = element("p", link("the run", "/run", id=id))
    return Page(f"Family of {id}", joined(back, *notes, picture(family, id)))


def picture(family: Sequence[Branch], asked: str) -> Markup:
    """The family, each run before its forks, as SVG; the run that was asked for stands out."""
    longest = max(1, *(branch.info.message_count for branch in family))
    width, height = NAMES + LINES + END, ROW * len(family) + ROW // 2
    rows = {branch.info.id: number for number, branch in enumerate(family)}

    def across(messages: int) -> int:
        return NAMES + round(LINES * messages / longest)

    shapes: list[Markup] = []
    for number, (info, levels) in enumerate(family):
        level = ROW * number + ROW // 2 + 5
        start = across(info.fork_point if info.parent_id else 0)
        if levels:
            above = ROW * rows[info.parent_id] + ROW // 2 + 5
            shapes.append(element("path", d=f"M{start} {above}V{level}"))
        shapes += _row(info.id, start, across(info.message_count), level, asked == info.id)
        words = f"{info.message_count:,}"
        if info.parent_id:
            words += f" from {info.fork_point:,}"
        place = across(info.message_count) + 10
        shapes.append(element("text", words, x=place, y=level + 4, class_="dim"))
    return element(
        "svg", *shapes, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img"
    )


def _row(id: str, start: int, end: int, level: int, asked: bool) -> Generator[Markup]:
    name = id if len(id) <= NAME_LENGTH else f"{id[:NAME_LENGTH]}…"
    shown = element("text", name, element("title", id), x=0, y=level + 4)
    yield element("g", link(shown, "/run", id=id), class_="asked" if asked else None)
    yield element("line", x1=start, y1=level, x2=end, y2=level)
    yield element("circle", cx=start, cy=level, r=5)
