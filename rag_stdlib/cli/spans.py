"""What `rag trace export-otel` adds to a trace's spans: searches under their own names, and a file as what takes them."""

from __future__ import annotations

import base64
import importlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TextIO

from rag_stdlib.cli.tracing import replacing
from replay.recorder import Returned
from replay.reports import otel

if TYPE_CHECKING:
    from replay.tracefile.trace import RecordedCall

_SEARCHES: Final = ("rag_search", "rag_query")  # (index_path, query, limit, ...)
_QUERY, _LIMIT = 1, 2
_IDS: Final = ("traceId", "spanId", "parentSpanId")


def describe(*, bodies: bool) -> Callable[[RecordedCall], Mapping[str, Any]]:
    """Return what names the spans of searches: a retrieval, how many hits were asked for, and with `bodies` the query and the hits."""

    def attributes(call: RecordedCall) -> Mapping[str, Any]:
        if call.kind != "tool" or call.name not in _SEARCHES or len(call.args) <= _LIMIT:
            return {}
        found: dict[str, Any] = {"gen_ai.operation.name": "retrieval", "gen_ai.retrieval.top_k": call.args[_LIMIT]}
        if bodies:
            found["gen_ai.retrieval.query.text"] = call.args[_QUERY]
            found["gen_ai.retrieval.documents"] = _documents(call)
        return found

    return attributes


def _documents(call: RecordedCall) -> list[dict[str, Any]] | None:
    ending = call.ending()
    value = ending.value if isinstance(ending, Returned) else None
    hits = value.get("value") if isinstance(value, dict) else None
    if not isinstance(hits, list):
        return None
    return [{"id": hit.get("chunk_id"), "score": hit.get("score")} for hit in hits if isinstance(hit, dict)]


def to_file(trace: str, path: str, *, bodies: bool) -> int:
    """Write the spans of a trace as OTLP JSON, one export request a line, as a collector's file receiver reads it; return how many."""
    from replay.errors import ReplayError

    try:
        from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
        from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
    except ImportError as error:
        raise ReplayError(f"{otel.MISSING_SDK} ({error})") from None

    class File(SpanExporter):
        def __init__(self, file: TextIO) -> None:
            self._file = file

        def export(self, spans: Sequence[Any]) -> SpanExportResult:
            self._file.write(_line(encode_spans(spans)))
            return SpanExportResult.SUCCESS

    with replacing(path) as file:
        return otel.export(trace, File(file), bodies=bodies, describe=describe(bodies=bodies))


def _line(request: Any) -> str:  # noqa: ANN401 - a protobuf message
    """Write an export request in OTLP's JSON, whose ids are hexadecimal where protobuf's would be base64."""
    form = importlib.import_module("google.protobuf.json_format")  # comes with the exporter, and without types
    data = form.MessageToDict(request, use_integers_for_enums=True)
    spans = [span for of_resource in data["resourceSpans"] for of_scope in of_resource["scopeSpans"] for span in of_scope["spans"]]
    for span in spans:
        span.update({name: base64.b64decode(span[name]).hex() for name in _IDS if name in span})
    return json.dumps(data, ensure_ascii=True, separators=(",", ":")) + "\n"
