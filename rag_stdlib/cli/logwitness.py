"""`rag log witness`: cosign what logs show, over HTTP, until told to stop."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
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
    from rag_stdlib.proof.log.cosignatures import KINDS
    from rag_stdlib.proof.log.errors import LogError
    from rag_stdlib.proof.log.logkeys import load_keys
    from rag_stdlib.proof.log.witness import Witness, logs_of

    if not host.strip():
        raise typer.BadParameter("it is empty; name an address, 0.0.0.0 for all of this machine", param_hint="--host")
    if prefix and not prefix.startswith("/"):
        raise typer.BadParameter(f"{prefix!r} has no slash in front", param_hint="--prefix")
    with proof_errors():
        held, pinned = load_keys(keys), read_pinned(trust)
        if not pinned:
            raise CommandError(f"{trust!r} names no log, and a witness cosigns for the logs that it knows")
        if any(key.kind not in KINDS for key in held.verifiers):
            raise CommandError(f"{keys!r} holds keys of {held.name} that do not cosign; give those of a witness, as rag keys new --witness makes them", code="keys_unfit")
        logs_of(held, pinned.values())

        def made() -> Witness:
            if new:
                Witness.create(state, held.name)
            _check_writable(state)
            try:
                return Witness(state, held, pinned.values())
            except LogError as error:
                if error.code != "key_unknown":
                    raise
                raise CommandError(f"{error.words}; give the keys that the state was made with", code=error.code) from None

        _serve(made, host, port, prefix)


def _check_writable(state: str) -> None:
    """Refuse a state that cannot be written, with which a witness could answer nothing but that it cannot."""
    place = Path(state)
    if place.is_file() and not (os.access(place, os.W_OK) and os.access(place.absolute().parent, os.W_OK)):
        raise CommandError(f"the state {state!r} cannot be written, or nothing beside it, and a witness keeps in it what it cosigned; see who may write there", code="readonly")


def _serve(made: Callable[[], Witness], host: str, port: int, prefix: str) -> None:
    """Serve a witness, which is made once it is known that it can be served; so no state is left behind by one that cannot."""
    from rag_stdlib.proof.log.witnesshttp import WitnessServer

    try:
        server = WitnessServer(made, host, port, prefix=prefix)
    except OSError as error:
        raise CommandError(f"it cannot listen at {host} port {port}: {error.strerror or error}; choose another --host or --port") from None
    stop = Stop()
    with closing(server.witness) as served, lines_of_the_log(), heard(stop.tell), closing(server.start()):
        show(f"witness    {clean(served.name)}")
        for origin in served.origins:
            show(f"of         {clean(origin)}")
        show(f"listening  {clean(server.url)}")
        flush()
        stop.wait()
    note("stopped")
