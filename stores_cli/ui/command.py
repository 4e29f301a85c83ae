"""``ui``: serve the pages, to this machine alone, until Ctrl-C."""

import socket
from importlib import import_module
from typing import Annotated, Any

from typer import Option

from stores_cli.commands import command, group
from stores_cli.embedders import embedder_of
from stores_cli.exits import Exit
from stores_cli.memory import Embedding
from stores_cli.options import Json, Tenant, Url
from stores_cli.output import Output
from stores_cli.urls import opened, url_or_default
from stores_core.errors import InvalidRequestError
from stores_core.extras import need

commands = group()

LOOPBACK = "127.0.0.1"


@command(commands, "ui", example="ui sqlite:agent.db")
async def ui(
    url: Url = "",
    tenant: Tenant = "",
    embedder: Embedding = "",
    port: Annotated[
        int, Option("--port", min=0, max=65_535, metavar="N", help="0 takes one that is free.")
    ] = 8787,
    json: Json = False,
) -> int:
    """Browse runs, families, transcripts, tool results and notes in a web browser.

    The pages change nothing and need no script and no network. They are for this machine alone, but
    for everybody who can log in on it. Recall with --embedder may add missing vectors, as any
    recall does. Ctrl-C ends it.
    """
    uvicorn = need("uvicorn", extra="ui", field="ui")
    need("starlette", extra="ui", field="ui")
    pages = import_module("stores_cli.ui.server").pages
    output = Output(json=json)
    with bound_to(port) as bound:
        port = bound.getsockname()[1]
        hosts = frozenset({f"{LOOPBACK}:{port}", f"localhost:{port}"})
        async with (
            embedder_of(embedder) as made,
            opened(url, tenant=tenant, embedder=made) as backend,
        ):
            app = pages(backend, url_or_default(url), tenant, hosts)
            address = f"http://{LOOPBACK}:{port}/"
            if json:
                output.document({"url": address})
            else:
                output.line(f"{address} shows {backend.name}; Ctrl-C ends it")
            output.flush()
            await server_of(uvicorn, app).serve(sockets=[bound])
    return Exit.FINE


def bound_to(port: int) -> socket.socket:
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((LOOPBACK, port))
        bound.listen()  # so that whoever reads the address may ask at once
    except OSError as error:
        bound.close()
        raise InvalidRequestError(
            field="--port", found=f"{port}: {error.strerror}", allowed="another; 0 for a free one"
        ) from error
    return bound


def server_of(uvicorn: Any, app: object) -> Any:
    config = uvicorn.Config(
        app,
        lifespan="off",
        ws="none",
        http="h11",
        loop="asyncio",
        log_config=None,
        log_level="critical",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=2,
    )
    return uvicorn.Server(config)
