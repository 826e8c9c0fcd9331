"""A validator of traces that shares nothing with the recorder: written from the table and the prose of the trace format alone.

It holds the table of kinds as text, as the format's description prints it, and reads the types off the fields' names and marks:
``x?`` may be null or absent, ``x[]`` is an array. `violations` returns what a file breaks, as sentences; an empty list accepts it.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

TABLE = """
| `schema_header` | version, writer, commit_sha?, source_path? |
| `seed_read` | purpose, value |
| `run_started` | agent, args[] |
| `run_completed` | ok, result?, error? |
| `tool_call` | tool, args[] |
| `tool_result` | tool, result |
| `llm_call` | prompt, model?, model_version?, rendered?, args[], sampling? |
| `llm_result` | prompt, model?, model_version?, result, chunk_boundaries? |
| `prompt_cache` | prompt, model?, model_version?, fingerprint, hit |
| `approval_request` | label, args[] |
| `approval_decision` | site, args[], accepted, decider, rationale? |
| `approval_response` | label, approved |
| `approval_token_issued` | token_id, label, args[], scope, issued_at_ms, expires_at_ms |
| `approval_scope_violation` | token_id, label, reason |
| `human_input_request` | prompt, expected_type |
| `human_input_response` | prompt, value |
| `human_choice_request` | options[] |
| `human_choice_response` | selected_index, selected_value |
| `host_event` | name, payload |
| `clock_read` | source, value |
| `model_selected` | prompt, model, model_version?, capability_required?, capability_picked?, output_format_required?, output_format_picked?, cost_estimate, arm_index?, stage_index? |
| `progressive_escalation` | prompt, from_stage, to_stage, confidence_observed, threshold |
| `progressive_exhausted` | prompt, stages[] |
| `stream_upgrade` | prompt, to_model, confidence_observed, threshold, partial |
| `ab_variant_chosen` | prompt, variant, baseline, rollout_pct, chosen |
| `ensemble_vote` | prompt, members[], results[], winner, agreement_rate, strategy, weights?, escalated_to? |
| `adversarial_pipeline_completed` | prompt, contradiction |
| `adversarial_contradiction` | prompt, proposed, challenge, verdict |
| `provenance_edge` | node_id, parents[], op, label? |
"""
ANYTHING = {"result", "payload", "selected_value", "sampling", "chunk_boundaries", "partial", "proposed", "challenge", "verdict"}
BOOLEANS = {"ok", "hit", "accepted", "approved", "contradiction"}
NUMBERS = {"cost_estimate", "confidence_observed", "threshold", "rollout_pct", "agreement_rate"}
UNSIGNED = {"version", "issued_at_ms", "expires_at_ms", "selected_index", "arm_index", "stage_index", "from_stage", "to_stage", "ts_ms"}


def read_table() -> dict[str, list[tuple[str, str]]]:
    """Return, for each kind, its fields as (name, mark)."""
    kinds: dict[str, list[tuple[str, str]]] = {}
    for kind, fields in re.findall(r"^\| `(\w+)` \| (.*) \|$", TABLE, re.MULTILINE):
        kinds[kind] = [(name.rstrip("?[]"), name[len(name.rstrip("?[]")):]) for name in fields.split(", ")]
    return kinds


KINDS = read_table()


def fits(kind: str, name: str, mark: str, value: Any) -> bool:
    """Tell whether a value has the JSON type of a field."""
    if (value is None and mark == "?") or name in ANYTHING or (kind, name) == ("human_input_response", "value"):
        return True
    if mark == "[]" or name == "weights":
        return isinstance(value, list)
    if name in BOOLEANS:
        return isinstance(value, bool)
    if name in UNSIGNED or name in NUMBERS or name == "value":
        return is_number(kind, name, value)
    return isinstance(value, str)


def is_number(kind: str, name: str, value: Any) -> bool:
    """Tell whether a value is a number in the range of a field."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if name in NUMBERS:
        return whole or isinstance(value, float)
    if kind == "clock_read" and name == "value":
        return whole and -(2**63) <= value < 2**63
    return whole and 0 <= value < 2**64


def event_violations(event: Any) -> list[str]:
    """Return what one event breaks. Fields and kinds beyond the table are none of this validator's business."""
    if not isinstance(event, dict):
        return ["no object"]
    kind = event.get("kind")
    if not isinstance(kind, str) or not re.fullmatch(r"[a-z]+(_[a-z]+)*", kind):
        return [f"kind {kind!r}"]
    wrong = [f"{kind}: {name}" for name in ("ts_ms", "run_id") if name not in event or not fits(kind, name, "", event[name])]
    for name, mark in KINDS.get(kind, []):
        if name not in event:
            wrong += [f"{kind}: {name} missing"] if mark != "?" else []
        elif not fits(kind, name, mark, event[name]):
            wrong.append(f"{kind}: {name} is {event[name]!r}")
    return wrong


def no_constant(name: str) -> None:
    """Refuse NaN and the infinities."""
    raise ValueError(name)


def violations(path: Path) -> list[str]:
    """Return what a complete trace breaks."""
    data = path.read_bytes()
    wrong = [] if data.endswith(b"\n") else ["the last line has no LF"]
    events = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            event = json.loads(line.decode("utf-8"), parse_constant=no_constant)
        except ValueError as error:
            wrong.append(f"line {number}: {error}")
            continue
        wrong += [f"line {number}: {problem}" for problem in event_violations(event)]
        events.append(event)
    return wrong or order_violations(events)


def order_violations(events: list[dict[str, Any]]) -> list[str]:
    """Return where the order header, seed, start, …, completion is broken."""
    kinds = [event["kind"] for event in events]
    if kinds[:3] != ["schema_header", "seed_read", "run_started"]:
        return [f"begins with {kinds[:3]}"]
    wrong = [] if events[0]["version"] == 2 else [f"version {events[0]['version']}"]
    wrong += [] if events[1]["purpose"] == "rollout_default_seed" else ["the seed's purpose"]
    wrong += [] if kinds[-1] == "run_completed" else [f"ends with {kinds[-1]}"]
    wrong += [f"{kind} in mid-run" for kind in ("schema_header", "run_started", "run_completed") if kinds.count(kind) != 1]
    wrong += [] if len({event["run_id"] for event in events}) == 1 else ["more than one run_id"]
    return wrong
