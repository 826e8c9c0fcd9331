"""`rag log witness`: cosign what logs show, over HTTP, until told to stop."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated, Final

import typer

from rag_stdlib.cli.frame import CommandError, command, note
from rag_stdlib.cli.log import logs
from rag_stdlib.cli.prooffiles import TrustFile, proof_errors, read_pinned
from rag_stdlib.cli.standing import Stop, heard, lines_of_the_log
from rag_stdlib.cli.terminal import clean, flush, show

if TYPE_CHECKING:
    from rag_stdlib.proof.log.witness import Witness

_LAST_PORT: Final = 65_535


@command("witness", "Cosign the checkpoints of logs, over HTTP.", group=logs)
def witness(
    state: Annotated[str, typer.Argument(metavar="STATE", help="The file in which the witness keeps what it cosigned last.")],
    keys: Annotated[str, typer.Option("--keys", metavar="FILE", help="The keys of the witness, as rag keys new --witness makes them.")],
    trust: TrustFile,
    new: Annotated[bool, typer.Option("--new", help="Make the state first: of a witness that has cosigned nothing yet.")] = False,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=_LAST_PORT, help="The same; 0 is a free one.")] = 0,
    prefix: Annotated[str, typer.Option(metavar="PATH", help="Before the paths of requests, with a slash in front.")] = "",
) -> None:
    """Serve as a witness (C2SP tlog-witness) of the logs of the trust file, until SIGTERM or Ctrl-C.

    It cosigns a checkpoint only if that continues the last one that it cosigned, and refuses every other. So its state must never be lost or put back to
    an older one: a witness without it is a new one, and needs a new name. Behind a web server it can be reached over TLS.
    """
    from rag_stdlib.proof.log.logkeys import load_keys
    from rag_stdlib.proof.log.witness import Witness

    if prefix and not prefix.startswith("/"):
        raise typer.BadParameter(f"{prefix!r} has no slash in front", param_hint="--prefix")
    with proof_errors():
        held, pinned = load_keys(keys), read_pinned(trust)
        if not pinned:
            raise CommandError(f"{trust!r} names no log, and a witness cosigns for the logs that it knows")
        if new:
            Witness.create(state, held.name)
        with Witness(state, held, pinned.values()) as made:
            show(f"witness    {clean(made.name)}")
            for origin in pinned:
                show(f"of         {clean(origin)}")
            _serve(made, host, port, prefix)


def _serve(served: Witness, host: str, port: int, prefix: str) -> None:
    from rag_stdlib.proof.log.witnesshttp import WitnessServer

    try:
        server = WitnessServer(served, host, port, prefix=prefix)
    except OSError as error:
        raise CommandError(f"it cannot listen at {host} port {port}: {error.strerror or error}; choose another --host or --port") from None
    stop = Stop()
    with lines_of_the_log(), heard(stop.tell), closing(server.start()):
        show(f"listening  {clean(server.url)}")
        flush()
        stop.wait()
    note("stopped")
