"""`rag mesh` as processes of their own, on the mesh of a test's station."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

from station.station_keys import NODES
from station.station_mesh import LiveMesh

from rag_stdlib import Config, Runtime, SourceDocument, rag_ingest_many
from rag_stdlib.keyfile import save_new_key

if TYPE_CHECKING:
    from typing_extensions import Self

WAIT_S = 60.0  # for what takes a second, on a machine that is not busy

TABLE = """
[mesh]
key = "{key}"
seeds = ["{node_id}@{host}:{port}"]
realm = "{realm}"
realm_key = "realm.key"
org = "{org}"
profile = "{profile}"
query_timeout_ms = 20000
grant_retry_ms = 200
summary_republish_ms = 500
"""


def lay_out(folder: Path, mesh: LiveMesh, key: str = "d.key", more: str = "") -> None:
    """Write the keys of all nodes, the realm's, and a corvid.toml that names them."""
    for role in NODES:
        save_new_key(folder / f"{role}.key", mesh.key(role))
    station = mesh.station
    (folder / "realm.key").write_bytes(station.realm_key)
    table = TABLE.format(key=key, node_id=station.node_id, host=station.host, port=station.port, realm=station.realm_name, org=station.org,
                         profile=mesh.profile)
    (folder / "corvid.toml").write_text(f'[io]\nroot = "."\n{more}{table}')


def wait_until(holds: Callable[[], Any], what: str) -> Any:
    """Wait until something holds, and return it."""
    end = time.monotonic() + WAIT_S
    while not (found := holds()):
        assert time.monotonic() < end, what
        time.sleep(0.02)
    return found


class Serving:
    """A `rag mesh serve` that runs. ``with`` ends it."""

    _number = 0

    def __init__(self, folder: Path, *arguments: str) -> None:
        Serving._number += 1
        self._output = folder / f"serving-{Serving._number}.txt"
        with self._output.open("w") as output:
            self._child = subprocess.Popen([sys.executable, "-m", "rag_stdlib", "mesh", "serve", *arguments], cwd=folder, stdout=output,
                                           stderr=subprocess.STDOUT)

    @property
    def told(self) -> str:
        """What it has written until now, to both outputs."""
        return self._output.read_text()

    def wait(self, words: str, times: int = 1) -> Self:
        """Wait until it has said something so many times."""
        wait_until(lambda: self.told.count(words) >= times or self._child.poll() is not None, f"not told: {words!r}")
        assert self.told.count(words) >= times, self.told
        return self

    def signal(self, number: signal.Signals) -> None:
        self._child.send_signal(number)

    def ended(self) -> int:
        """Wait for its end, and return its exit code."""
        return self._child.wait(WAIT_S)

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Let it run no further for the block, so that it answers nothing and says nothing."""
        self.signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(signal.SIGCONT)

    def stop(self) -> int:
        """Tell it to stop, and return its exit code."""
        self.signal(signal.SIGTERM)
        return self.ended()

    def __enter__(self) -> Self:
        """Hand it out."""
        return self

    def __exit__(self, *_: object) -> None:
        """End it, if the test has not: in order, so that the station forgets it."""
        self._child.terminate()
        try:
            self._child.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            self._child.kill()
            self._child.wait(WAIT_S)
            raise


@contextmanager
def two_shards(folder: Path, mesh: LiveMesh, texts: Mapping[str, Mapping[str, str]], *of_north: str) -> Iterator[Path]:
    """Serve the texts of two indexes, *north* and *south*, by name, from a folder that is laid out for it; only a text about a heron has the topic fish."""
    lay_out(folder, mesh)
    with Runtime(Config(), root=folder):
        for side, named in texts.items():
            documents = [SourceDocument(f"{side}-{name}", f"{side}/{name}.md", text, metadata={"topics": "fish" if name == "heron" else "land"})
                         for name, text in named.items()]
            assert rag_ingest_many(f"{side}.db", documents, 200)
    with Serving(folder, "north.db", "--key", "a.key", *of_north) as north, Serving(folder, "south.db", "--key", "b.key") as south:
        for serving in (north, south):
            serving.wait("everything is served")
        yield folder


class Gate:
    """An embedding server whose texts with *slow* in them wait until it is opened."""

    def __init__(self) -> None:
        self.entered, self.opened = threading.Event(), threading.Event()
        self.url = ""

    def vectors(self, texts: list[str]) -> list[list[float]]:
        if any("slow" in text for text in texts):
            self.entered.set()
            assert self.opened.wait(WAIT_S)
        return [[1.0 + text.count("raven"), 1.0 + text.count("owl"), 1.0] for text in texts]


@contextmanager
def gate() -> Iterator[Gate]:
    """Run an embedding server that speaks Ollama's protocol; its model is of 3 dimensions."""
    made = Gate()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            body = json.dumps({"model": asked["model"], "embeddings": made.vectors(asked["input"])}).encode()
            with suppress(ConnectionError):  # who asked may have been ended
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:  # type: ignore[override]
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield made
    finally:
        made.opened.set()
        server.shutdown()
        thread.join()
        server.server_close()


def rows(found: Mapping[str, Any]) -> dict[str, str]:
    """What became of each shard in the JSON of a query, by its name, or by the beginning of its node's id."""
    answered = {each["shard_id"]: "answered" for each in found["answered"]}
    failed = {each["shard_id"] or each["node"][:12]: each["reason"] for each in found["failed"]}
    return {**answered, **failed, **{each["shard_id"]: each["reason"] for each in found["not_asked"]}}
