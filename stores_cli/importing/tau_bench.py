"""Results of tau-bench: a list of runs in the form of chat completions."""

from collections.abc import Generator

from stores_cli.importing.formats import Format
from stores_cli.importing.json_values import as_dict, as_list, without
from stores_cli.importing.openai_chat import say_chat
from stores_cli.importing.sessions import Session
from stores_cli.importing.sources import Source


def recognises(source: Source) -> bool:
    return any(isinstance(one.get("traj"), list) and "task_id" in one for one in source.sample)


def read(source: Source) -> Generator[Session]:
    """A session for each run; task and reward are its state."""
    stem = source.path.name.partition(".")[0]
    for run in source.records():
        session = source.session(f"{stem}/{run.get('task_id')}/{run.get('trial', 0)}")
        for message in map(as_dict, as_list(run.get("traj"))):
            say_chat(session, message)
        session.label("reward", run.get("reward"))
        session.stand(without(run, "traj"))
        yield session


TAU_BENCH = Format("tau-bench", "tau-bench results (JSON)", recognises, read)
