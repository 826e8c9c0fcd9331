"""A test double of ONE Macula station, found by experiment with macula-py 0.6; it is no station, and no measure of one.

It speaks wire 1.0 to unmodified nodes on the loopback interface: handshake, registrations, calls, facts, and a directory of records. It
knows no other station, no quotas, no expiry, and no limits of its own. Run it in a process of its own, from the folder of the tests::

    python -m station.station_process pq_pure [PORT [IDLE_S]]

A link over which nothing came for IDLE_S seconds is given up by either end, also where the other one died without a word.

It prints one line of JSON with what a node needs to connect, in the form of macula-go's ``teststation``, and takes a command per line:
``admit NODE_ID``, ``revoke NODE_ID``, ``lie MODE`` (`station.station_lies.Lie`), ``told`` (how many lies), ``drop`` (closes every connection)
and ``stop``. Each is answered by a line; the end of the input stops it too.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from typing import Any, get_args

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, QuicEvent, StreamDataReceived
from cryptography.hazmat.primitives.serialization import Encoding
from station import station_tls
from station.station_frames import IDLE_S, FrameReader, decoded, framed
from station.station_handshake import EXPORTED_BYTES, EXPORTER, Handshake
from station.station_keys import fixed_key
from station.station_lies import Lie
from station.station_records import ORG, REALM_NAME
from station.station_relay import HOST, Relay, Topic

from rag_stdlib.contract.nodekeys import Profile

ALPN = "macula"

_STREAM = 0  # the client's first, and the only one that is used
_STREAM_WINDOW = 1 << 24
_WINDOW = 1 << 25


class NodeLink(QuicConnectionProtocol):
    """A node's connection: first a handshake, then frames for the relay."""

    def __init__(self, relay: Relay, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.node_id = b""
        self.topics: set[Topic] = set()
        self._relay = relay
        self._reader = FrameReader()
        self._handshake = Handshake(relay.identity)
        self._step = self._on_opener

    def quic_event_received(self, event: QuicEvent) -> None:
        """Take what comes in; whatever goes wrong with it ends the connection, and its trace goes to the standard error."""
        if isinstance(event, ConnectionTerminated):
            self._relay.left(self)
        elif isinstance(event, StreamDataReceived) and event.stream_id == _STREAM:
            try:
                for raw in self._reader.feed(event.data):
                    self._step(raw, decoded(raw))
            except Exception:  # noqa: BLE001 - a peer ends its own connection only
                traceback.print_exc()
                self.drop()

    def send(self, body: bytes) -> None:
        self._quic.send_stream_data(_STREAM, framed(body))
        self.transmit()

    def drop(self) -> None:
        self._relay.left(self)
        self.close()

    def _on_opener(self, _raw: bytes, frame: dict[str, Any]) -> None:
        self.send(self._handshake.challenge(frame))
        self._step = self._on_connect

    def _on_connect(self, raw: bytes, frame: dict[str, Any]) -> None:
        client = self._handshake.client(frame)
        exported = self._quic.tls.export(EXPORTER, client + self._relay.identity.node_id, EXPORTED_BYTES)
        self.send(self._handshake.hello(raw, frame, exported))
        self.node_id = client
        self._relay.joined(self)
        self._step = self._on_frame

    def _on_frame(self, raw: bytes, frame: dict[str, Any]) -> None:
        self._relay.take(self, raw, frame)


def obey(relay: Relay, command: list[str]) -> str:
    """Do what a command line says, and answer it."""
    match command:
        case ["admit", node]:
            relay.realm.admit(bytes.fromhex(node))
            return f"admitted {node}"
        case ["revoke", node]:
            relay.realm.revoke(bytes.fromhex(node))
            return f"revoked {node}"
        case ["lie", mode]:
            relay.lie = Lie(mode)
            return f"lies {mode}"
        case ["told"]:
            return f"told {relay.lies_told}"
        case ["drop"]:
            links = list(relay.links.values())
            for link in links:
                link.drop()
            return f"dropped {len(links)}"
    return f"unknown {' '.join(command)}"


async def main(profile: Profile, port: int, idle_s: float) -> None:
    """Serve until the input ends or says so."""
    station_tls.install()
    certificate, leaf_key = station_tls.self_signed()
    relay = Relay(fixed_key(profile, "station"), certificate.public_bytes(Encoding.DER))
    configuration = QuicConfiguration(
        is_client=False, alpn_protocols=[ALPN], certificate=certificate, private_key=leaf_key, idle_timeout=idle_s,
        max_stream_data=_STREAM_WINDOW, max_data=_WINDOW)
    server = await serve(HOST, port, configuration=configuration, create_protocol=lambda *args, **kwargs: NodeLink(relay, *args, **kwargs))
    bound = server._transport.get_extra_info("sockname")[1]
    relay.listens(bound)
    _say(json.dumps({
        "stations": [{"host": HOST, "port": bound, "node_id": relay.identity.key.node_id}], "realm_name": REALM_NAME,
        "realm_id": relay.realm.id.hex(), "realm_key": relay.realm.key.public.hex(), "org": ORG}))
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = line.split()
        if command == ["stop"]:
            break
        _say(obey(relay, command))
    for link in list(relay.links.values()):
        link.drop()
    server.close()


def _say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - its output is how it is spoken to


if __name__ == "__main__":
    if sys.argv[1] not in get_args(Profile):
        sys.exit(f"a profile is one of {', '.join(get_args(Profile))}")
    asyncio.run(main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0, float(sys.argv[3]) if len(sys.argv) > 3 else IDLE_S))
