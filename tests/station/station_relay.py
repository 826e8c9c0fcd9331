"""The station behind its connections: who is linked, who serves what, and the calls, facts and records that pass through."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from station.station_frames import encoded
from station.station_handshake import Identity, sha384
from station.station_lies import FORGED, Lie
from station.station_records import ENDPOINT, Directory, Realm, read_record, signed_record, verified

from rag_stdlib.contract import cbor, signedobject
from rag_stdlib.contract.nodekeys import NodeKey

HOST = "127.0.0.1"
GONE = "unknown_next_peer"

_REQUEST_LABEL = "MACULA-PQ-REQUEST-V1"
_REPLY_LABEL = "MACULA-PQ-REPLY-V1"
_RELAY_ERROR_LABEL = "MACULA-PQ-RELAY-ERROR-V1"
_PUBLICATION_LABEL = "MACULA-PQ-PUBLICATION-V1"
_ANSWER_VERSION = 1

Route = tuple[bytes, str, bytes]  # realm, procedure, provider
Topic = tuple[bytes, str]


class Link(Protocol):
    """A node's connection, as the relay uses it."""

    node_id: bytes
    topics: set[Topic]

    def send(self, body: bytes) -> None:
        """Send a frame."""

    def drop(self) -> None:
        """Close the connection."""


class Relay:
    """One station. It relays to the nodes linked to it and to nobody else."""

    def __init__(self, key: NodeKey, leaf: bytes) -> None:
        self.identity = Identity(key, leaf)
        self.directory = Directory(key.profile)
        self.realm = Realm(key.profile, self.directory)
        self.lie = Lie.NONE
        self.lies_told = 0
        self.links: dict[bytes, Link] = {}
        self._routes: dict[Route, Link] = {}
        self._waiting: dict[bytes, tuple[Link, Route]] = {}  # by request: who waits for the reply, and what was called
        self._last_reply: dict[Route, bytes] = {}
        self._acts: dict[str, Callable[[Link, bytes, dict[str, Any]], None]] = {
            "liveness_ping": self._pong, "call": self._call, "result": self._reply, "error": self._reply, "advertise": self._advertise,
            "unadvertise": self._unadvertise, "subscribe": self._subscribe, "unsubscribe": self._unsubscribe, "publish": self._publish,
            "goodbye": lambda link, _raw, _frame: link.drop(),
        }

    def listens(self, port: int) -> None:
        """Put the station's own address into the directory."""
        self.directory.put(signed_record(ENDPOINT, {"quic_port": port, "host_advertised": [HOST.encode()]}, self.identity.key))

    def joined(self, link: Link) -> None:
        """Take in a node that has proved its id; an older link of it is forgotten."""
        self.links[link.node_id] = link

    def left(self, link: Link) -> None:
        """Forget a link, and what was served over it."""
        if self.links.get(link.node_id) is link:
            del self.links[link.node_id]
        self._routes = {route: over for route, over in self._routes.items() if over is not link}
        self._waiting = {request: waiting for request, waiting in self._waiting.items() if waiting[0] is not link}

    def take(self, link: Link, raw: bytes, frame: dict[str, Any]) -> None:
        """Act upon a frame; one of a kind that this station does not know is passed over."""
        act = self._acts.get(frame["frame_type"])
        if act is not None:
            act(link, raw, frame)

    def _pong(self, link: Link, _raw: bytes, frame: dict[str, Any]) -> None:
        link.send(cbor.encode({**frame, "frame_type": "liveness_pong"}))

    # --- what nodes register ---

    def _advertise(self, link: Link, _raw: bytes, frame: dict[str, Any]) -> None:
        record = read_record(frame["advertisement"], self.identity.key.profile)
        if record.payload["advertiser_node"] != link.node_id:
            raise ValueError("an advertisement of another node")
        realm, procedure = record.payload["realm_id"], record.payload["procedure"]
        self._routes[realm, procedure, link.node_id] = link
        _acknowledge(link, "advertise", realm, procedure, record_version=record.version)

    def _unadvertise(self, link: Link, _raw: bytes, frame: dict[str, Any]) -> None:
        record = read_record(frame["withdrawal"], self.identity.key.profile)
        realm, procedure = record.payload["realm_id"], record.payload["procedure"]
        self._routes.pop((realm, procedure, link.node_id), None)
        _acknowledge(link, "unadvertise", realm, procedure, record_version=record.version)

    def _subscribe(self, link: Link, _raw: bytes, frame: dict[str, Any]) -> None:
        topic = _topic(frame)
        link.topics.add(topic)
        _acknowledge(link, "subscribe", *topic, subscriber=frame.get("subscriber", link.node_id))

    def _unsubscribe(self, link: Link, _raw: bytes, frame: dict[str, Any]) -> None:
        topic = _topic(frame)
        link.topics.discard(topic)
        _acknowledge(link, "unsubscribe", *topic, subscriber=frame.get("subscriber", link.node_id))

    def _publish(self, _link: Link, _raw: bytes, frame: dict[str, Any]) -> None:
        publication = frame["publication"]
        fields: dict[Any, Any] = verified(_PUBLICATION_LABEL, cbor.encode(publication), self.identity.key.profile).fields
        event = encoded("event", publication=publication, delivered_via="direct")
        for link in list(self.links.values()):
            if (fields["realm"], fields["topic"]) in link.topics:
                link.send(event)

    # --- calls ---

    def _call(self, link: Link, raw: bytes, frame: dict[str, Any]) -> None:
        request = verified(_REQUEST_LABEL, cbor.encode(frame["request"]), self.identity.key.profile)
        fields: dict[Any, Any] = request.fields
        call = {"request_id": fields["request_id"], "request_hash": sha384(request.tbs)}
        if fields["target"] == self.identity.node_id:
            self._answer_directory(link, call, fields)
            return
        route = fields["realm"], fields["procedure"], fields["target"]
        if self._lied(link, raw, call, route):
            self.lies_told += 1
            return
        provider = self._routes.get(route)
        if provider is None:
            self._refuse(link, call)
        else:
            self._forward(link, raw, call, route, provider)

    def _forward(self, link: Link, raw: bytes, call: dict[str, bytes], route: Route, provider: Link) -> None:
        self._waiting[call["request_id"]] = link, route
        provider.send(raw)

    def _reply(self, _link: Link, raw: bytes, frame: dict[str, Any]) -> None:
        waiting = self._waiting.pop(_fields(frame["reply"])["request_id"], None)
        if waiting is not None:
            link, route = waiting
            self._last_reply[route] = raw
            link.send(raw)

    def _refuse(self, link: Link, call: dict[str, bytes]) -> None:
        fields = {**call, "frame_type": "error", "reported_by": self.identity.node_id, "code": GONE}
        link.send(encoded("error", relay_error=self._signed(_RELAY_ERROR_LABEL, fields)))

    def _answer(self, link: Link, call: dict[str, bytes], payload: object, responder: bytes) -> None:
        fields = {**call, "frame_type": "result", "responded_by": responder, "payload": payload}
        link.send(encoded("result", reply=self._signed(_REPLY_LABEL, fields)))

    def _signed(self, label: str, fields: dict[str, Any]) -> Any:
        return cbor.decode(signedobject.sign(label, fields, self.identity.key))

    def _answer_directory(self, link: Link, call: dict[str, bytes], fields: dict[Any, Any]) -> None:
        payload, found = fields["payload"], None
        if fields["procedure"] == "_dht.put_record":
            self.directory.put(payload["record"])
            found = {"result": "ok"}
        elif fields["procedure"] == "_dht.find_record":
            records = self.directory.find(payload["key"])
            found = {"result": "record", "record": records[0]} if records else {"result": "not_found"}
        elif fields["procedure"] == "_dht.find_records":
            found = {"result": "records", "records": self.directory.find(payload["key"])}
        elif fields["procedure"] == "_dht.find_records_by_type":
            found = {"result": "records", "records": self.directory.of_kind(payload["type"])}
        if found is None:
            self._refuse(link, call)
        else:
            self._answer(link, call, {"v": _ANSWER_VERSION, **found}, self.identity.node_id)

    def _lied(self, link: Link, raw: bytes, call: dict[str, bytes], route: Route) -> bool:
        """Lie about a call, where that is asked for and there is what the lie needs."""
        realm, procedure, target = route
        if self.lie is Lie.OWN_NAME:
            self._answer(link, call, FORGED, self.identity.node_id)
        elif self.lie is Lie.CLAIMED_ID:
            self._answer(link, call, FORGED, target)
        elif self.lie is Lie.DIVERTED:
            others = (over for (where, what, who), over in self._routes.items() if (where, what) == (realm, procedure) and who != target)
            other = next(others, None)
            if other is None:
                return False
            self._forward(link, raw, call, route, other)
        elif self.lie is Lie.REPLAYED and route in self._last_reply:
            link.send(self._last_reply[route])
        else:
            return False
        return True


def _fields(parts: dict[str, bytes]) -> dict[Any, Any]:
    """Read what a signed object says, which is for its addressee to check."""
    fields = cbor.decode(parts["tbs"])
    if not isinstance(fields, dict):
        raise ValueError("a signed object without fields")  # noqa: TRY004 - the object is wrong
    return fields


def _topic(frame: dict[str, Any]) -> Topic:
    topic = frame["topic"]
    return frame["realm"], topic.decode() if isinstance(topic, bytes) else topic


def _acknowledge(link: Link, kind: str, realm: bytes, name: str, **more: object) -> None:
    link.send(encoded("register_ack", kind=kind, realm=realm, name=name, accepted=1, **more))
