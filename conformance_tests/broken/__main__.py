"""``python -m conformance_tests.broken``: the suite against every defect.

The exit code is 0 when every defect was caught by the test that has to, 1 when one was not, 2 when
nothing could be run.
"""

import argparse
import sys
import tempfile
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from conformance_tests.broken import matrix, page
from conformance_tests.broken.defect import Defect, defects
from conformance_tests.broken.running import chosen, chosen_amid_faults, examined, url_amid_faults


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the defects that are asked for and print what caught each."""
    options = _options(arguments)
    known = defects(amid_faults=options.faults)
    unknown = sorted(set(options.name or ()) - known.keys())
    if unknown:
        print(f"no such defect: {', '.join(unknown)}", file=sys.stderr)
        return 2
    bases = matrix.read(options.write) if options.write else {}
    base_name, samples = options.url.partition(":")[0], "all"
    if options.named or options.first:
        samples = "named" if options.named else "first"
    if options.faults:
        base_name, samples = matrix.AMID_FAULTS, "named"
    if base_name not in bases or bases[base_name].samples != samples:
        bases[base_name] = matrix.Base(samples)
    base = bases[base_name]
    every = chosen_amid_faults() if options.faults else chosen(first=samples != "all")
    wanted = [known[name] for name in options.name or known]
    urls = {one.name: _url(one, options) for one in wanted}
    homeless = [name for name, url in urls.items() if not url]
    missing = {name: tests for name, tests in base.missing(wanted, every).items() if tests}
    missing = {name: tests for name, tests in missing.items() if urls[name]}
    with _folder() as folder:
        urls = {name: url.replace("{folder}", folder) for name, url in urls.items()}
        for number, (name, findings, seconds) in enumerate(
            examined(missing, urls, first=samples != "all", jobs=options.jobs), 1
        ):
            base.note(known[name], findings)
            told = _line(base, name, known[name].caught_by)
            print(f"{number:3}/{len(missing)} {told}, {seconds:.0f} s", flush=True)
            if options.write:
                matrix.write(options.write, bases)
    if options.write and not options.name:
        base.settle(known, every)
        matrix.write(options.write, bases)
    if options.write:
        all_known = {**defects(), **defects(amid_faults=True)}
        options.write.with_suffix(".md").write_text(page.page(all_known, bases), encoding="utf-8")
    survivors = [one.name for one in wanted if not base.is_caught(one)]
    print(f"{len(wanted) - len(survivors)} of {len(wanted)} caught by the test that has to")
    if homeless:
        print(f"without --server-url these were not run: {', '.join(homeless)}")
    return 1 if survivors else 0


def _url(defect: Defect, options: argparse.Namespace) -> str:
    return url_amid_faults(defect, options.server_url) if options.faults else options.url


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m conformance_tests.broken", description=__doc__)
    parser.add_argument(
        "--url",
        default="memory:{name}",
        help="the good storage: {name} is the defect's name, {folder} a folder that is new",
    )
    parser.add_argument("--name", action="append", help="a defect; may be repeated (all)")
    parser.add_argument("--first", action="store_true", help="one sample of each test only")
    parser.add_argument(
        "--named", action="store_true", help="of each defect the test that has to catch it only"
    )
    parser.add_argument(
        "--faults",
        action="store_true",
        help="the defects that only a fault shows, each on a storage where it can happen (not on "
        "--url) by the test that has to catch it",
    )
    parser.add_argument(
        "--server-url", default="", metavar="URL", help="a storage with a server, for --faults"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes at once (1)")
    parser.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="bring this matrix up to date, and the page beside it: run what it lacks",
    )
    return parser.parse_args(arguments)


def _line(base: matrix.Base, name: str, test: str) -> str:
    column = base.defects[name]
    caught = column.caught_by()
    others = len(caught) - (test in caught)
    broke = f", {len(column.only_broke())} broke otherwise" if column.only_broke() else ""
    told = test if test in caught else f"SURVIVES {test}"
    return f"{name}: {told}, {others} others{broke}; passes {base.passed(name):.1%}"


@contextmanager
def _folder() -> Generator[str]:
    with tempfile.TemporaryDirectory(prefix="broken-") as folder:
        yield folder


if __name__ == "__main__":
    sys.exit(main())
