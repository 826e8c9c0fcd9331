"""A trace as OpenTelemetry spans, through the official SDK and any of its exporters.

One span for the run and one for each call, with the times of the trace and ids that follow from run id and step: exporting a trace twice
gives the same spans. Names are those of the GenAI conventions (`gen_ai.*`), what they lack stands under `replay.`. Arguments and
results go out as SHA-256 and length only, unless `bodies` is asked for. The SDK is an optional extra and is loaded on first use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from replay.errors import ReplayError
from replay.tracefile.trace import RecordedCall, load_trace

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

Describe: TypeAlias = Callable[[RecordedCall], Mapping[str, Any]]

MISSING_SDK: Final = "exporting spans needs the OpenTelemetry SDK: pip install 'rag-stdlib[otel]'"


def export(path: str | os.PathLike[str], exporter: SpanExporter, *, bodies: bool = False, describe: Describe | None = None) -> int:
    """Send the spans of a trace to `exporter`; return how many it took.

    The trace may be another recorder's, and it may be incomplete: what did not end is an error span that ends with the last event. `describe` returns further attributes
    of a call's span; they replace those given here, and None takes one away. The exporter stays open.

    Raises:
        ReplayError: the SDK is missing or switched off, or the exporter did not take the spans.
        TraceError: the trace cannot be read, or was altered.
    """
    try:
        from replay.reports.otel_spans import send
    except ImportError as error:
        raise ReplayError(f"{MISSING_SDK} ({error})") from None
    return send(load_trace(path, incomplete=True, foreign=True), exporter, bodies=bodies, describe=describe)


def otlp_exporter(endpoint: str | None = None) -> SpanExporter:
    """Make the official OTLP/HTTP exporter.

    `endpoint` is a URL; one without a path gets `/v1/traces`. Without it, and for all the rest, the OTEL_EXPORTER_OTLP_… variables count.

    Raises:
        ReplayError: the exporter is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError as error:
        raise ReplayError(f"{MISSING_SDK} ({error})") from None
    if endpoint is not None:
        from urllib.parse import urlsplit

        if urlsplit(endpoint).scheme not in {"http", "https"} or not urlsplit(endpoint).netloc:
            raise ReplayError(f"the endpoint {endpoint!r} is no http or https URL, such as http://127.0.0.1:4318")
        if urlsplit(endpoint).path in {"", "/"}:
            endpoint = f"{endpoint.rstrip('/')}/v1/traces"
    return OTLPSpanExporter(endpoint)
