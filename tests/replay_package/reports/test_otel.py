"""Traces as OpenTelemetry spans: names, times and ids, what is left out by default, and the official exporters."""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk", reason="spans need the OpenTelemetry SDK (the extra otel)")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="spans need the OTLP/HTTP exporter (the extra otel)")

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode
from tracing import call, counting, create, plain_run, record, small_bodies, write_events

from replay.errors import ReplayError, TraceError
from replay.reports.otel import export, otlp_exporter
from replay.tracefile.trace import RecordedCall

CONTENT = "the text of a document"
START = 1_700_000_000_000


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED", "OTEL_EXPORTER_OTLP_ENDPOINT",
                 "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)


def agent_run(path: Path, **options: Any) -> Path:
    """Record a run with every way a call can end; the clock goes on by a millisecond at each event."""
    writer = create(path, agent="refunds", args=[CONTENT], **options)
    call(writer, "rag_search", ["notes.db", CONTENT, 5], {"tag": "ok", "value": [{"text": CONTENT}]},
         facts={"index": {"content": "abc", "generation": 3, "embedder": None, "dims": [1, 2]}})
    call(writer, "rag_search", ["gone.db", "q", 5], {"tag": "err", "err": CONTENT, "code": "not_found"})
    call(writer, "fetch", [], None, raised={"type": "builtins.ValueError", "message": CONTENT, "args": None})
    call(writer, "wait", [], None, cancelled=True)
    step = writer.append("llm_call", {"prompt": "answer", "args": [CONTENT]})
    writer.append("llm_result", {"prompt": "answer", "result": CONTENT, "call": step})
    step = writer.append("approval_request", {"label": "Send", "args": []})
    writer.append("approval_response", {"label": "Send", "approved": True, "call": step})
    writer.complete(ok=True, result=CONTENT)
    return path


def foreign_run(*middle: dict[str, Any], complete: bool = True) -> list[dict[str, Any]]:
    """Return the events of a run of another recorder, which has no hash chain."""
    header, *others = plain_run(*middle, complete=complete)
    return [{**header, "writer": "another-vm"}, *others]


def spans_of(path: Path, **options: Any) -> list[ReadableSpan]:
    exporter = InMemorySpanExporter()
    count = export(path, exporter, **options)
    spans = list(exporter.get_finished_spans())
    assert count == len(spans)
    return spans


def attributes(span: ReadableSpan) -> Mapping[str, Any]:
    assert span.attributes is not None
    return span.attributes


def test_a_span_for_the_run_and_one_for_each_call(tmp_path: Path) -> None:
    spans = spans_of(agent_run(tmp_path / "run.jsonl"))
    assert [span.name for span in spans] == [
        "execute_tool rag_search", "execute_tool rag_search", "execute_tool fetch", "execute_tool wait", "chat answer", "approval Send",
        "invoke_agent refunds"]
    *calls, root = spans
    assert root.parent is None
    assert {span.parent.span_id for span in calls if span.parent} == {root.context.span_id if root.context else None}
    assert {span.context.trace_id for span in spans if span.context} == {root.context.trace_id if root.context else None}
    assert [span.kind for span in spans] == [SpanKind.INTERNAL] * 4 + [SpanKind.CLIENT] + [SpanKind.INTERNAL] * 2
    assert root.resource.attributes["service.name"] == "refunds"


def test_times_are_those_of_the_trace(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    agent_run(path, clock_ms=counting(START))
    spans = spans_of(path)
    header = START + 1  # the first look was for the run id
    times = [(span.start_time, span.end_time) for span in spans]
    assert times[:6] == [((header + step) * 1_000_000, (header + step + 1) * 1_000_000) for step in range(3, 15, 2)]
    assert times[6] == (header * 1_000_000, (header + 15) * 1_000_000)


def test_names_of_the_conventions_and_digests_instead_of_content(tmp_path: Path) -> None:
    path = agent_run(tmp_path / "run.jsonl")
    spans = spans_of(path)
    run_id = json.loads(path.read_bytes().split(b"\n")[0])["run_id"]
    args = json.dumps(["notes.db", CONTENT, 5], separators=(",", ":")).encode()
    result = json.dumps({"tag": "ok", "value": [{"text": CONTENT}]}, separators=(",", ":")).encode()
    assert dict(attributes(spans[0])) == {
        "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "rag_search", "gen_ai.tool.call.id": f"{run_id}/3",
        "replay.step": 3, "replay.call.kind": "tool",
        "replay.call.arguments.sha256": hashlib.sha256(args).hexdigest(), "replay.call.arguments.bytes": len(args),
        "replay.call.result.sha256": hashlib.sha256(result).hexdigest(), "replay.call.result.bytes": len(result),
        "replay.reports.facts.index.content": "abc", "replay.reports.facts.index.generation": 3, "replay.reports.facts.index.dims": "[1,2]"}
    assert {name: attributes(spans[4])[name] for name in ("gen_ai.operation.name", "gen_ai.prompt.name")} == {
        "gen_ai.operation.name": "chat", "gen_ai.prompt.name": "answer"}
    assert attributes(spans[5])["replay.approval.label"] == "Send"
    root = attributes(spans[6])
    assert (root["gen_ai.operation.name"], root["gen_ai.agent.name"], root["replay.run_id"]) == ("invoke_agent", "refunds", run_id)
    assert (root["replay.tracefile.events"], root["replay.complete"]) == (16, True)
    assert CONTENT not in "".join(span.to_json() for span in spans), "content goes out on request only"


def test_bodies_on_request(tmp_path: Path) -> None:
    path = agent_run(tmp_path / "run.jsonl", options=small_bodies(40))
    assert (tmp_path / "run.jsonl.bodies").is_dir()
    spans = spans_of(path, bodies=True)
    assert json.loads(attributes(spans[0])["gen_ai.tool.call.arguments"]) == ["notes.db", CONTENT, 5]
    assert json.loads(attributes(spans[0])["gen_ai.tool.call.result"]) == {"tag": "ok", "value": [{"text": CONTENT}]}
    assert json.loads(attributes(spans[4])["replay.call.result"]) == CONTENT
    assert json.loads(attributes(spans[6])["replay.arguments"]) == [CONTENT]
    assert json.loads(attributes(spans[6])["replay.result"]) == CONTENT
    assert [span.status.description for span in spans[1:4]] == [CONTENT, CONTENT, "the call was cancelled"]


def test_calls_that_failed_are_errors_with_their_type(tmp_path: Path) -> None:
    *calls, root = spans_of(agent_run(tmp_path / "run.jsonl"))
    assert [span.status.status_code for span in calls] == [StatusCode.UNSET, *[StatusCode.ERROR] * 3, StatusCode.UNSET, StatusCode.UNSET]
    assert [attributes(span).get("error.type") for span in calls] == [None, "not_found", "ValueError", "cancelled", None, None]
    assert {span.status.description for span in calls} == {None}
    assert root.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize(("end", "kind", "said"), [
    ({"ok": False, "error": "ValueError: bad"}, "ValueError", "ValueError: bad"), ({"ok": False}, "_OTHER", ""),
    ({"ok": False, "error": "it was not good"}, "_OTHER", "it was not good"), ({"ok": True, "error": "x"}, None, None),
])
def test_how_the_run_ended(tmp_path: Path, end: dict[str, Any], kind: str | None, said: str | None) -> None:
    path = write_events(tmp_path / "run.jsonl", [*foreign_run(complete=False), {"kind": "run_completed", "ts_ms": 9, "run_id": "run-1", **end}])
    root, = spans_of(path, bodies=True)
    assert attributes(root).get("error.type") == kind
    assert (root.status.status_code is StatusCode.ERROR) == (kind is not None)
    assert (root.status.description or None) == (said or None)


def test_an_unfinished_run_ends_with_what_is_known(tmp_path: Path) -> None:
    tool = {"kind": "tool_call", "tool": "t", "args": []}
    path = write_events(tmp_path / "run.jsonl", foreign_run(tool, tool, {"kind": "tool_result", "tool": "t", "result": 2**70, "call": 4}, complete=False))
    open_call, ended, root = spans_of(path)
    assert (open_call.start_time, open_call.end_time) == (3_000_000, 5_000_000)
    assert (root.start_time, root.end_time) == (0, 5_000_000)
    assert [attributes(span).get("error.type") for span in (open_call, ended, root)] == ["incomplete", None, "incomplete"]
    assert attributes(ended)["replay.call.result.bytes"] == len(str(2**70)), "an integer beyond 64 bits has a digest too"
    assert attributes(root)["replay.complete"] is False


def test_a_clock_that_was_set_back_gives_no_negative_duration(tmp_path: Path) -> None:
    events = foreign_run({"kind": "tool_call", "tool": "t", "args": []}, {"kind": "tool_result", "tool": "t", "result": 1})
    events[4]["ts_ms"] = events[5]["ts_ms"] = 0
    events[0]["ts_ms"] = 1
    assert [(span.start_time, span.end_time) for span in spans_of(write_events(tmp_path / "run.jsonl", events))] == [
        (3_000_000, 3_000_000), (1_000_000, 1_000_000)]


def test_the_same_trace_gives_the_same_spans(tmp_path: Path) -> None:
    path = agent_run(tmp_path / "run.jsonl")
    assert [span.to_json() for span in spans_of(path)] == [span.to_json() for span in spans_of(path)]
    ids = [span.context.span_id for span in spans_of(path) if span.context]
    assert len(set(ids)) == 7
    other = [span.context.span_id for span in spans_of(agent_run(tmp_path / "other.jsonl")) if span.context]
    assert not set(ids) & set(other), "another run has other ids"


def test_the_caller_adds_and_replaces_attributes(tmp_path: Path) -> None:
    def describe(recorded: RecordedCall) -> dict[str, Any]:
        if recorded.name != "rag_search":
            return {}
        return {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.query.text": recorded.args[1], "gen_ai.retrieval.top_k": recorded.args[2],
                "gen_ai.retrieval.documents": [{"id": "a", "score": 0.5}], "gen_ai.tool.name": None, "big": 2**70, "names": ["a", "b"],
                "none": [], "mixed": ["a", 1]}

    spans = spans_of(agent_run(tmp_path / "run.jsonl"), describe=describe)
    assert [span.name for span in spans[:3]] == ["retrieval", "retrieval", "execute_tool fetch"]
    found = attributes(spans[0])
    assert (found["gen_ai.operation.name"], found["gen_ai.retrieval.query.text"], found["gen_ai.retrieval.top_k"]) == ("retrieval", CONTENT, 5)
    assert json.loads(found["gen_ai.retrieval.documents"]) == [{"id": "a", "score": 0.5}]
    assert "gen_ai.tool.name" not in found
    assert (found["big"], found["names"], found["none"], found["mixed"]) == (str(2**70), ("a", "b"), "[]", '["a",1]')


def test_many_spans_go_out_in_batches(tmp_path: Path) -> None:
    sizes: list[int] = []

    class Counting(InMemorySpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            sizes.append(len(spans))
            return super().export(spans)

    path = record(tmp_path / "run.jsonl", [("t", [number], number) for number in range(1100)])
    assert export(path, Counting()) == 1101
    assert sizes == [512, 512, 77]


def test_the_environment_names_the_service(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "shop")
    assert spans_of(agent_run(tmp_path / "run.jsonl"))[0].resource.attributes["service.name"] == "shop"


def test_what_fails_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:  # noqa: ARG002 - the interface
            return SpanExportResult.FAILURE

    class Broken(SpanExporter):
        def export(self, spans: Any) -> SpanExportResult:
            raise OSError(f"no room for {len(spans)}")

    path = agent_run(tmp_path / "run.jsonl")
    with pytest.raises(ReplayError, match="did not take 7 spans; 0 went out before"):
        export(path, Failing())
    with pytest.raises(ReplayError, match="the exporter failed: no room for 7"):
        export(path, Broken())
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    with pytest.raises(ReplayError, match="OTEL_SDK_DISABLED is set"):
        export(path, InMemorySpanExporter())
    with pytest.raises(TraceError, match="no such trace"):
        export(tmp_path / "missing.jsonl", InMemorySpanExporter())
    path.write_bytes(path.read_bytes().replace(b"notes.db", b"other.db"))
    with pytest.raises(TraceError) as caught:
        export(path, InMemorySpanExporter())
    assert caught.value.code == "trace_tampered"


@pytest.mark.parametrize("missing", ["opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"])
def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    monkeypatch.delitem(sys.modules, "replay.reports.otel_spans", raising=False)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ReplayError, match=r"pip install 'rag-stdlib\[otel\]'"):
        if missing.endswith("sdk.trace"):
            export(agent_run(tmp_path / "run.jsonl"), InMemorySpanExporter())
        else:
            otlp_exporter()


# --- the real exporter, over HTTP ---

class Collector(ThreadingHTTPServer):
    """An OTLP/HTTP collector that answers `status` and keeps what it was sent."""

    def __init__(self, status: int) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.status = status
        self.seen: list[tuple[str, ExportTraceServiceRequest]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answering(BaseHTTPRequestHandler):
    """Takes what an exporter posts."""

    server: Collector

    def do_POST(self) -> None:
        request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.seen.append((self.path, request))
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        """Keep quiet."""


@pytest.fixture
def collector(request: pytest.FixtureRequest) -> Iterator[Collector]:
    with Collector(getattr(request, "param", 200)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["", "/", "/v1/traces"])
def test_the_official_exporter_sends_the_spans(tmp_path: Path, collector: Collector, path: str) -> None:
    exporter = otlp_exporter(f"{collector.url}{path}")
    assert export(agent_run(tmp_path / "run.jsonl", clock_ms=counting(START)), exporter) == 7
    exporter.shutdown()
    (at, request), = collector.seen
    assert at == "/v1/traces"
    spans = request.resource_spans[0].scope_spans[0].spans
    assert [span.name for span in spans][-1] == "invoke_agent refunds"
    assert {span.trace_id for span in spans} == {spans[-1].trace_id}
    assert {span.parent_span_id for span in spans} == {b"", spans[-1].span_id}
    assert (spans[0].start_time_unix_nano, spans[0].end_time_unix_nano) == ((START + 4) * 1_000_000, (START + 5) * 1_000_000)
    found = {attribute.key: attribute.value for attribute in spans[1].attributes}
    assert (found["gen_ai.tool.name"].string_value, found["replay.step"].int_value, found["error.type"].string_value) == ("rag_search", 5, "not_found")
    assert spans[1].status.code == 2
    assert CONTENT.encode() not in request.SerializeToString()


@pytest.mark.parametrize("collector", [500, 400], indirect=True)
def test_a_collector_that_refuses_is_an_error_that_says_so(tmp_path: Path, collector: Collector) -> None:
    exporter = OTLPSpanExporter(f"{collector.url}/v1/traces", timeout=5)
    with pytest.raises(ReplayError, match=f"did not take 7 spans .*{collector.status}"):
        export(agent_run(tmp_path / "run.jsonl"), exporter)
    exporter.shutdown()


def test_no_collector_is_an_error(tmp_path: Path) -> None:
    with Collector(200) as gone:
        url = gone.url
    exporter = OTLPSpanExporter(f"{url}/v1/traces", timeout=0.2)
    with pytest.raises(ReplayError, match="did not take 7 spans"):
        export(agent_run(tmp_path / "run.jsonl"), exporter)
    exporter.shutdown()


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://127.0.0.1", "http://", ""])
def test_an_endpoint_that_is_no_url_is_refused(endpoint: str) -> None:
    with pytest.raises(ReplayError, match="is no http or https URL"):
        otlp_exporter(endpoint)


def test_without_an_endpoint_the_environment_counts(tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    exporter = otlp_exporter()
    assert export(agent_run(tmp_path / "run.jsonl"), exporter) == 7
    exporter.shutdown()
    assert [at for at, _ in collector.seen] == ["/v1/traces"]
