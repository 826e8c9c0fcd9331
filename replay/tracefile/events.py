"""The events of a trace: every kind of schema 2, its fields in their order, and their JSON types.

The recorder writes ten of the kinds; the others come in traces of other programs and are read all the same. A kind that is not listed
is no mistake of a trace, and neither is a field: both are newer than this reader.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

SCHEMA_VERSION: Final = 2
OLDEST_VERSION: Final = 1
WRITER: Final = "rag-stdlib-replay"
SEED_PURPOSE: Final = "rollout_default_seed"

JsonType: TypeAlias = Literal["string", "bool", "unsigned", "integer", "number", "array", "any"]

_ABSENT: Final = object()
_U64: Final = 2**64
_I64: Final = 2**63

_TESTS: Final[Mapping[JsonType, Callable[[Any], bool]]] = MappingProxyType({
    "string": lambda value: type(value) is str,
    "bool": lambda value: type(value) is bool,
    "unsigned": lambda value: type(value) is int and 0 <= value < _U64,  # a bool is no int here
    "integer": lambda value: type(value) is int and -_I64 <= value < _I64,
    "number": lambda value: type(value) is float or type(value) is int,
    "array": lambda value: type(value) is list or type(value) is tuple,
    "any": lambda value: value is not _ABSENT,
})
_WORDS: Final[Mapping[JsonType, str]] = MappingProxyType({
    "string": "a string", "bool": "a boolean", "unsigned": "a whole number from 0 to 2^64-1",
    "integer": "a whole number of 64 bits with sign", "number": "a number", "array": "an array", "any": "anything",
})


@dataclass(frozen=True, slots=True)
class Field:
    """A field of an event. An optional one may be null or absent."""

    name: str
    type: JsonType
    required: bool

    def problem(self, event: Mapping[str, Any]) -> str:
        """Say what is wrong with the field in an event, or ""."""
        value = event.get(self.name, _ABSENT)
        if _TESTS[self.type](value) or (not self.required and (value is None or value is _ABSENT)):
            return ""
        return f"{self.name} is missing" if value is _ABSENT else f"{self.name} must be {_WORDS[self.type]}, it is {_type_name(value)}"


@dataclass(frozen=True, slots=True)
class KindSpec:
    """A kind of event: its fields in the order in which they are written, beside ``ts_ms`` and ``run_id``."""

    kind: str
    fields: tuple[Field, ...]

    @property
    def required(self) -> tuple[str, ...]:
        """The names that must be there."""
        return tuple(field.name for field in self.fields if field.required)

    @property
    def optional(self) -> tuple[str, ...]:
        """The names that may be null or absent."""
        return tuple(field.name for field in self.fields if not field.required)


@dataclass(frozen=True, slots=True)
class Request:
    """Which two events a call becomes, and in which fields its name and its result stand.

    `without` is what stands in the result's field where the call raised or was cancelled: JSON of the field's type.
    """

    kind: str
    call_event: str
    result_event: str
    name_field: str
    result_field: str
    without: Any


def _fields(declaration: str) -> tuple[Field, ...]:
    """Read ``name:type`` words; a question mark behind the name makes the field optional."""
    fields = []
    for word in declaration.split():
        name, _, kind = word.partition(":")
        fields.append(Field(name.rstrip("?"), kind, not name.endswith("?")))  # type: ignore[arg-type] # the table is below
    return tuple(fields)


_TABLE: Final = {
    "schema_header": "version:unsigned writer:string commit_sha?:string source_path?:string",
    "seed_read": "purpose:string value:unsigned",
    "run_started": "agent:string args:array",
    "run_completed": "ok:bool result?:any error?:string",
    "tool_call": "tool:string args:array",
    "tool_result": "tool:string result:any",
    "llm_call": "prompt:string model?:string model_version?:string rendered?:string args:array sampling?:any",
    "llm_result": "prompt:string model?:string model_version?:string result:any chunk_boundaries?:any",
    "prompt_cache": "prompt:string model?:string model_version?:string fingerprint:string hit:bool",
    "approval_request": "label:string args:array",
    "approval_decision": "site:string args:array accepted:bool decider:string rationale?:string",
    "approval_response": "label:string approved:bool",
    "approval_token_issued": "token_id:string label:string args:array scope:string issued_at_ms:unsigned expires_at_ms:unsigned",
    "approval_scope_violation": "token_id:string label:string reason:string",
    "human_input_request": "prompt:string expected_type:string",
    "human_input_response": "prompt:string value:any",
    "human_choice_request": "options:array",
    "human_choice_response": "selected_index:unsigned selected_value:any",
    "host_event": "name:string payload:any",
    "clock_read": "source:string value:integer",
    "model_selected": "prompt:string model:string model_version?:string capability_required?:string capability_picked?:string "
                      "output_format_required?:string output_format_picked?:string cost_estimate:number arm_index?:unsigned "
                      "stage_index?:unsigned",
    "progressive_escalation": "prompt:string from_stage:unsigned to_stage:unsigned confidence_observed:number threshold:number",
    "progressive_exhausted": "prompt:string stages:array",
    "stream_upgrade": "prompt:string to_model:string confidence_observed:number threshold:number partial:any",
    "ab_variant_chosen": "prompt:string variant:string baseline:string rollout_pct:number chosen:string",
    "ensemble_vote": "prompt:string members:array results:array winner:string agreement_rate:number strategy:string weights?:array "
                     "escalated_to?:string",
    "adversarial_pipeline_completed": "prompt:string contradiction:bool",
    "adversarial_contradiction": "prompt:string proposed:any challenge:any verdict:any",
    "provenance_edge": "node_id:string parents:array op:string label?:string",
}
KINDS: Final[Mapping[str, KindSpec]] = MappingProxyType({kind: KindSpec(kind, _fields(text)) for kind, text in _TABLE.items()})

REQUESTS: Final[Mapping[str, Request]] = MappingProxyType({
    "tool": Request("tool", "tool_call", "tool_result", "tool", "result", None),
    "llm": Request("llm", "llm_call", "llm_result", "prompt", "result", None),
    "approval": Request("approval", "approval_request", "approval_response", "label", "approved", False),
})

# What a replay passes over without a word: how a call was dispatched, not what was called.
METADATA_KINDS: Final = frozenset({
    "model_selected", "host_event", "progressive_escalation", "progressive_exhausted", "stream_upgrade", "prompt_cache",
    "approval_token_issued", "approval_scope_violation", "ab_variant_chosen", "ensemble_vote", "adversarial_pipeline_completed",
    "adversarial_contradiction", "provenance_edge",
})

# For each kind: its fields with their tests, and its names in their order.
_CHECKS: Final = {kind: tuple((field.name, _TESTS[field.type], field) for field in spec.fields) for kind, spec in KINDS.items()}
_NAMES: Final = {kind: tuple(field.name for field in spec.fields) for kind, spec in KINDS.items()}

_COMMON: Final = _fields("ts_ms:unsigned run_id:string")
# What the line itself carries; no event may have fields of these names from elsewhere.
LINE_FIELDS: Final = frozenset({"kind", "ts_ms", "run_id", "bodies", "seq", "prev", "seal", "sha256"})


def problem_of(event: Mapping[str, Any]) -> str:
    """Say what is wrong with the shape of an event read from a trace, or "". An unknown kind is no problem here."""
    kind = event.get("kind")
    if type(kind) is not str:
        return "kind is missing" if kind is None else f"kind must be a string, it is {_type_name(kind)}"
    if kind not in KINDS:
        return ""
    for field in _COMMON:
        problem = field.problem(event)
        if problem:
            return f"{kind}: {problem}"
    return problem_in(kind, event)


def problem_in(kind: str, fields: Mapping[str, Any]) -> str:
    """Say what is wrong with the own fields of an event of a known kind, or ""."""
    for name, fits, field in _CHECKS[kind]:
        if not fits(fields.get(name, _ABSENT)):  # most fields are as they should be
            problem = field.problem(fields)
            if problem:
                return f"{kind}: {problem}"
    return ""


def ordered(kind: str, fields: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the fields of an event in the order in which they are written: the kind's own, then the others as they come."""
    names = _NAMES[kind]
    if tuple(islice(fields, len(names))) == names:
        return fields
    return {**{name: fields[name] for name in names if name in fields}, **fields}


def _type_name(value: Any) -> str:  # noqa: ANN401 - JSON
    names = {type(None): "null", bool: "a boolean", str: "a string", int: "a number", float: "a number", list: "an array", dict: "an object"}
    return names.get(type(value), type(value).__name__)
