"""Frozen records that travel through the library and its tools.

`EffectEnvelope`, `RagDocumentEnvelope`, `RagChunkEnvelope`, `RetrievedRagChunkEnvelope` and `EmbedderEnvelope` follow
std/rag; what comes after std/rag's own fields is ours. Every record holds plain Python values only, so that
`json.dumps(record.to_dict(), allow_nan=False)` always works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from types import UnionType
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Literal,
    NoReturn,
    TypeAlias,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from typing_extensions import Self

Scalar: TypeAlias = str | int | float | bool | None
Mode: TypeAlias = Literal["hybrid", "vector", "lexical"]
MODES: Final[tuple[Mode, ...]] = ("hybrid", "vector", "lexical")
Provider: TypeAlias = Literal["openai", "ollama", "local"]
PROVIDERS: Final[tuple[Provider, ...]] = ("openai", "ollama", "local")


class FrozenDict(dict[str, Any]):
    """A dict that refuses every change; json and equality see an ordinary dict."""

    __slots__ = ()

    def _refuse(self, *_args: object, **_kwargs: object) -> NoReturn:
        msg = "this mapping belongs to a frozen record; copy it with dict(...) to change it"
        raise TypeError(msg)

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = _refuse
    __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        """Hash by content, so that frozen records stay hashable."""
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type[FrozenDict], tuple[dict[str, Any]]]:
        """Pickle and copy through an ordinary dict."""
        return FrozenDict, (dict(self),)


NOTHING: Final = FrozenDict()
_LEAVES: Final = frozenset((str, int, float, bool, type(None)))  # what is JSON as it stands


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field value
    if type(value) in _LEAVES:
        return value
    if isinstance(value, Record):
        return value.to_dict()
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - looking for an abstract class takes long
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(item) for item in value]
    return value


def _frozen(value: Any) -> Any:  # noqa: ANN401 - any field value
    """Give lists as tuples and mappings as frozen ones, all the way down."""
    if type(value) is dict and not value:
        return NOTHING
    if type(value) is dict and _LEAVES.issuperset(map(type, value.values())):
        return FrozenDict(value)
    if isinstance(value, Mapping):
        return FrozenDict({key: _frozen(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return tuple([_frozen(item) for item in value])
    return value


R = TypeVar("R", bound="Record")


class Record:
    """What all records share: a JSON-ready dict with the fields in their order.

    Records have no slots: the fields are their `__dict__`, in order, which JSON encoders and `to_dict` take as it is.
    """

    def __post_init__(self) -> None:
        """Keep a frozen copy of a mapping, so that nobody's later change reaches the record."""
        metadata = getattr(self, "metadata", None)
        if isinstance(metadata, Mapping) and not isinstance(metadata, FrozenDict):
            object.__setattr__(self, "metadata", FrozenDict(metadata))

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as JSON-ready values, in declaration order."""
        leaves = _LEAVES
        return {name: value if type(value) in leaves else _plain(value) for name, value in self.__dict__.items()}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """Rebuild a record from what `to_dict` gave, or from that after a journey through JSON.

        Raises:
            TypeError: a name that is no field, or a field without a default that is missing.
        """
        return _maker(cls)(data)  # type: ignore[arg-type, return-value] # a class can always be hashed; it makes its own kind

    @classmethod
    def from_dicts(cls, several: Iterable[Mapping[str, Any]]) -> list[Self]:
        """Rebuild a list of records, each as `from_dict` does."""
        return list(map(_maker(cls), several))  # type: ignore[arg-type] # as above


def made(record: type[R], values: dict[str, Any]) -> R:
    """Make a record of all its fields, in their order and of their types: unchecked, for those who make many.

    The record takes the dict over as it is, which is also what makes it quick to encode.
    """
    new = object.__new__(record)
    object.__setattr__(new, "__dict__", values)
    return new


@cache
def _maker(record: type[Record]) -> Callable[[Any], Record]:
    """Make the function that builds a kind of record from JSON."""
    hints = get_type_hints(record)
    blank = {part.name: None for part in fields(record)}  # type: ignore[arg-type] # each record is a dataclass
    nested = {name: _builder(hints[name]) for name in blank if not _is_leaf(hints[name])}
    parts, count, new, set_attribute = tuple(nested.items()), len(blank), object.__new__, object.__setattr__

    def make(data: Any) -> Record:  # noqa: ANN401 - JSON
        if type(data) is not dict:
            return careful(data)
        values = blank | data  # in the order of the fields
        if not len(values) == count == len(data):
            return careful(data)
        for name, build in parts:
            values[name] = build(values[name])
        rebuilt = new(record)  # as `made` does it, which would be one call more for each of many records
        set_attribute(rebuilt, "__dict__", values)
        return rebuilt

    def careful(data: Any) -> Record:  # noqa: ANN401 - JSON
        if not isinstance(data, Mapping):
            msg = f"{record.__name__} is made from a JSON object, not from {type(data).__name__}"
            raise TypeError(msg)
        return record(**{name: nested[name](value) if name in nested else value for name, value in data.items()})

    return make


def _is_leaf(hint: Any) -> bool:  # noqa: ANN401 - a type, as annotations write it
    return hint in _LEAVES or get_origin(hint) is Literal or (
        get_origin(hint) in (Union, UnionType) and all(_is_leaf(part) for part in get_args(hint)))


def _builder(hint: Any) -> Callable[[Any], Any]:  # noqa: ANN401 - as above
    if isinstance(hint, type) and issubclass(hint, Record):
        return _maker(hint)  # type: ignore[arg-type] # as above
    return _frozen


@dataclass(frozen=True)
class EffectEnvelope(Record):
    """Which effect made a value and how to find it again (std/effects); an empty string means *absent*."""

    effect_name: str
    provenance_key: str = ""
    approval_label: str = ""
    cache_key: str = ""
    replay_key: str = ""


def replay_safe(meta: EffectEnvelope) -> bool:
    """Tell whether a value came from a call that a trace can replay (its `replay_key` is set)."""
    return meta.replay_key != ""


def approval_required(meta: EffectEnvelope) -> bool:
    """Tell whether the effect asks for an approval (its `approval_label` is set)."""
    return meta.approval_label != ""


@dataclass(frozen=True)
class RagChunkEnvelope(Record):
    """One retrieved chunk with its evidence.

    The first eight fields are std/rag's. `start_char`/`end_char` count code points and `start_byte`/`end_byte` UTF-8
    bytes of the stored document, half open; lines count from 1, both ends included, and are the original file's where
    a loader knew them, as is `page`. `content_sha256` is hex over the chunk's UTF-8 bytes. `score` is higher-is-better
    in the unit of `mode`: BM25, cosine, or the sum of both standardised; the parts are `lexical_score` (None: no query
    word in the chunk, or lexical search not used) and `vector_score` (None: vectors not used).
    """

    doc_id: str
    chunk_id: str
    source: str
    text: str
    start_char: int
    end_char: int
    provenance_key: str
    effect_meta: EffectEnvelope
    ordinal: int
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    content_sha256: str
    score: float | None
    mode: Mode | None
    lexical_score: float | None
    vector_score: float | None
    page: int | None = None
    metadata: Mapping[str, Scalar] = field(default_factory=FrozenDict)


@dataclass(frozen=True)
class RagDocumentEnvelope(Record):
    """A stored document: std/rag's five fields, then its metadata, content hash and number of chunks."""

    id: str
    source: str
    media_type: str
    text: str
    effect_meta: EffectEnvelope
    metadata: Mapping[str, Scalar] = field(default_factory=FrozenDict)
    content_sha256: str = ""
    chunks: int = 0


@dataclass(frozen=True)
class RetrievedRagChunkEnvelope(Record):
    """A chunk with the verdict on its key and the name of what retrieved it (std/rag)."""

    chunk: RagChunkEnvelope
    grounded: bool
    source_name: str


@dataclass(frozen=True)
class EmbedderEnvelope(Record):
    """A description of an embedder (std/rag): data only, it embeds nothing."""

    provider: str
    model_name: str
    endpoint: str
    effect_meta: EffectEnvelope


Anchors: TypeAlias = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class SourceDocument(Record):
    """A document to ingest, with what a loader knows of where its text came from.

    `lines` and `pages` are anchors ``(start_char, number)`` in ascending order: from that character on, the text stems
    from that line (counting on at each line break) or page of the original. Empty `lines`: the text's own lines.
    `metadata` is a flat mapping of strings to JSON scalars; filters can name its keys.
    """

    doc_id: str
    source: str
    text: str
    media_type: str = "text/plain"
    metadata: Mapping[str, Scalar] = field(default_factory=FrozenDict)
    lines: Anchors = ()
    pages: Anchors = ()


@dataclass(frozen=True)
class CheckReport(Record):
    """What `check` found. `problems` (at most 100) are damage; `notices` are states that some searches refuse."""

    documents: int
    chunks: int
    vectors: int
    problems: tuple[str, ...] = ()
    notices: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether no problem was found."""
        return not self.problems


@dataclass(frozen=True)
class IndexStats(Record):
    """Figures about an index. `embedder` describes whose vectors it holds; empty without any.

    `generation` counts the changes. `content` is a hex digest of the documents and how they are cut, equal for equal ones
    whatever the history; it is empty for an index of an earlier release that was not changed since.
    """

    documents: int
    chunks: int
    vectors: int
    text_bytes: int
    file_bytes: int
    log_bytes: int
    schema_version: int
    generation: int
    embedder: str
    journal_mode: str
    sqlite_version: str
    notices: tuple[str, ...] = ()
    content: str = ""


@dataclass(frozen=True)
class Compacted(Record):
    """Bytes of the file and its log before and after `compact`."""

    bytes_before: int
    bytes_after: int


@dataclass(frozen=True)
class Reembedded(Record):
    """Chunks that now have a vector, and distinct texts embedded for it in this call."""

    chunks: int
    embedded: int
