"""The spans of a trace, made by the OpenTelemetry SDK. `replay.reports.otel` loads this module where the SDK is installed."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, TypeAlias

from opentelemetry.context import Context
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import NoOpTracer, SpanKind, Status, StatusCode, Tracer, set_span_in_context

from replay.errors import NotRecordable, ReplayError
from replay.jsontext import encode, match_key
from replay.recorder import Cancelled, Ending, Raised, Returned
from replay.reports.display import tag_of
from replay.tracefile.events import WRITER
from replay.tracefile.trace import RecordedCall, Trace

_BATCH: Final = 512
_NS: Final = 1_000_000  # nanoseconds in a millisecond
_INT64: Final = 2**63
_ROOT: Final = "run"

Attributes: TypeAlias = dict[str, Any]


class _Ids(IdGenerator):
    """Ids that follow from the run id, and from the step for which the next span is."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self.step = _ROOT

    def generate_trace_id(self) -> int:
        return self._number(16, "trace")

    def generate_span_id(self) -> int:
        return self._number(8, self.step)

    def _number(self, size: int, what: str) -> int:
        digest = sha256(f"{WRITER}\0{self._run_id}\0{what}".encode()).digest()
        return int.from_bytes(digest[:size], "big") or 1  # zero is no id


class _Sender(SpanProcessor):
    """Gives ended spans to the exporter, in batches, and does not go on when it fails."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._waiting: list[ReadableSpan] = []
        self.sent = 0

    def on_end(self, span: ReadableSpan) -> None:
        self._waiting.append(span)

    def send(self, at_least: int = 1) -> None:
        """Export what waits, where that is `at_least` so many spans."""
        if len(self._waiting) < at_least:
            return
        spans, self._waiting = self._waiting, []
        with _remarks() as remarks:
            try:
                result = self._exporter.export(spans)
            except Exception as error:
                raise ReplayError(f"the exporter failed: {error}; {self.sent} spans went out before") from error
        if result is not SpanExportResult.SUCCESS:
            why = f" ({remarks[-1]})" if remarks else ""
            raise ReplayError(f"the exporter did not take {len(spans)} spans{why}; {self.sent} went out before")
        self.sent += len(spans)


@contextmanager
def _remarks() -> Iterator[list[str]]:
    """Collect what the SDK logs meanwhile: an exporter says there why it failed, and only there."""
    found: list[str] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(record.getMessage())

    handler, logger = Collecting(logging.WARNING), logging.getLogger("opentelemetry")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)


def send(trace: Trace, exporter: SpanExporter, *, bodies: bool, describe: Callable[[RecordedCall], Mapping[str, Any]] | None) -> int:
    """Make the spans of a trace and give them to the exporter; return how many there were."""
    ids, sender = _Ids(trace.run_id), _Sender(exporter)
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: trace.agent or WRITER}))
    provider = TracerProvider(sampler=ALWAYS_ON, resource=resource, id_generator=ids, shutdown_on_exit=False)
    provider.add_span_processor(sender)
    tracer = provider.get_tracer(WRITER)
    if isinstance(tracer, NoOpTracer):
        raise ReplayError("OTEL_SDK_DISABLED is set, which switches the SDK off; unset it to export")
    last = _last_ms(trace)
    root = tracer.start_span(f"invoke_agent {trace.agent}", context=Context(), attributes=_run_attributes(trace, bodies=bodies),
                             start_time=trace.header["ts_ms"] * _NS)
    inside = set_span_in_context(root, Context())
    for call in trace.calls:
        ids.step = str(call.step)
        _send_call(tracer, inside, trace, call, last, bodies=bodies, extra=describe(call) if describe is not None else {})
        sender.send(_BATCH)
    error = _run_error(trace)
    if error is not None:
        root.set_status(Status(StatusCode.ERROR, error[1] if bodies else None))
    root.end(max(last, trace.header["ts_ms"]) * _NS)
    sender.send()
    return sender.sent


def _last_ms(trace: Trace) -> int:
    """Return when the run ended, or else the last time the trace tells of a call."""
    if trace.completed is not None:
        return int(trace.completed["ts_ms"])
    return max(int(trace.header["ts_ms"]), *(call.result_ts_ms or call.ts_ms for call in trace.calls), 0)


def _run_attributes(trace: Trace, *, bodies: bool) -> Attributes:
    attributes: Attributes = {
        "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": trace.agent, "replay.run_id": trace.run_id,
        "replay.seed": str(trace.seed), "replay.tracefile.events": trace.event_count, "replay.complete": trace.completed is not None,
        **_content("replay.arguments", trace.args, "replay.arguments" if bodies else ""),
    }
    if trace.completed is not None and trace.completed.get("result") is not None:
        attributes |= _content("replay.result", trace.completed["result"], "replay.result" if bodies else "")
    error = _run_error(trace)
    if error is not None:
        attributes["error.type"] = error[0]
    return attributes


def _run_error(trace: Trace) -> tuple[str, str] | None:
    if trace.completed is None:
        return "incomplete", "the run did not come to its end"
    if trace.completed["ok"]:
        return None
    message = trace.completed.get("error") or ""
    kind = message.partition(":")[0]  # `Type: text`
    return (kind if kind.replace(".", "_").isidentifier() else "_OTHER"), message


def _send_call(tracer: Tracer, inside: Context, trace: Trace, call: RecordedCall, last: int, *, bodies: bool,
               extra: Mapping[str, Any]) -> None:
    ending = call.ending()
    attributes = {**_call_attributes(trace, call, ending, bodies=bodies), **extra}
    kept = {name: _attribute(value) for name, value in attributes.items() if value is not None}
    kind = SpanKind.CLIENT if call.kind == "llm" else SpanKind.INTERNAL
    span = tracer.start_span(_span_name(call, kept), context=inside, kind=kind, attributes=kept, start_time=call.ts_ms * _NS)
    error = _error_of(ending)
    if error is not None:
        span.set_status(Status(StatusCode.ERROR, error[1] if bodies else None))
    span.end(max(call.ts_ms, call.result_ts_ms if call.result_ts_ms is not None else last) * _NS)


def _span_name(call: RecordedCall, attributes: Mapping[str, Any]) -> str:
    operation = str(attributes.get("gen_ai.operation.name", call.kind))
    return operation if operation == "retrieval" else f"{operation} {call.name}"


def _call_attributes(trace: Trace, call: RecordedCall, ending: Ending | None, *, bodies: bool) -> Attributes:
    is_tool = call.kind == "tool"
    own: Attributes = {
        "tool": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.name, "gen_ai.tool.call.id": f"{trace.run_id}/{call.step}"},
        "llm": {"gen_ai.operation.name": "chat", "gen_ai.prompt.name": call.name},
        "approval": {"replay.approval.label": call.name},
    }[call.kind]
    prefix = "gen_ai.tool.call" if is_tool else "replay.call"
    own |= {"replay.step": call.step, "replay.call.kind": call.kind, **dict(_flat(call.facts, "replay.reports.facts"))}
    own |= _content("replay.call.arguments", call.args, f"{prefix}.arguments" if bodies else "")
    if isinstance(ending, Returned):
        own |= _content("replay.call.result", ending.value, f"{prefix}.result" if bodies else "")
    error = _error_of(ending)
    if error is not None:
        own["error.type"] = error[0]
    return own


def _error_of(ending: Ending | None) -> tuple[str, str] | None:
    """Return the type and the text of a call's error, or None where it ended well."""
    if ending is None:
        return "incomplete", "the run ended inside the call"
    if isinstance(ending, Cancelled):
        return "cancelled", "the call was cancelled"
    if isinstance(ending, Raised):
        return ending.type.removeprefix("builtins."), ending.message
    if tag_of(ending.value) == "err":
        return str(ending.value.get("code") or "_OTHER"), str(ending.value["err"])
    return None


def _content(name: str, value: Any, body: str) -> Attributes:  # noqa: ANN401 - JSON
    """Return digest and length of a value, and the value itself where `body` names its attribute."""
    text = _text(value)
    attributes: Attributes = {f"{name}.sha256": sha256(text).hexdigest(), f"{name}.bytes": len(text)}
    return {**attributes, body: text.decode()} if body else attributes


def _flat(facts: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in facts.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}.{name}")
        else:
            yield f"{prefix}.{name}", value


def _attribute(value: Any) -> Any:  # noqa: ANN401 - any value that a caller gives
    """Return a value that an attribute may have: what is none is written as JSON."""
    if isinstance(value, (str, bool, float)) or (isinstance(value, int) and -_INT64 <= value < _INT64):
        return value
    if isinstance(value, (list, tuple)) and len({type(item) for item in value}) == 1 and type(value[0]) in {str, bool, float}:
        return list(value)
    return _text(value).decode()


def _text(value: Any) -> bytes:  # noqa: ANN401 - JSON
    try:
        return encode(value)
    except NotRecordable:
        return match_key(value)  # an integer beyond 64 bits
