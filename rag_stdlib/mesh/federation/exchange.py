"""A question of ours to an index that is a part of a collection, and the statistics that its parts exchange for it.

It goes in the query map of ``rag.query_shard_v1``, so that a peer which knows nothing of it reads the `text` and answers hits::

    text      what is asked
    mode      "vector", "lexical" or "hybrid"
    vector    the text's embedding, as many numbers as the embedding has; not in mode lexical
    topics    only documents with one of these may answer; not there: all
    exchange  which round this is, {"v": 1, "round": "count" | "words" | "hits" | "copies", …}; not there: hits in the shard's own scores

    round     sent with it                             statistics of the answer, beside "v": 1
    count     -                                        words, and of a hybrid question by_vector; no hits
    words     words                                    by_words; no hits
    hits      words, and of a hybrid question          content, the digest of the index that was searched, where it is known, and left_out,
              by_vector and by_words                   where the reply had no room for so many; the scores are those of the whole collection
    copies    digests                                  copies; no hits

    words      {"chunks", "terms", "holding": [one number for each term of the text]}
    by_vector, by_words   {"count", "total", "squares"}: scores in millionths; the latter two as decimal digits, being wider than 64 bits
    digests    the SHA-256 of texts, as hex digits
    copies     [{"digest", "paths": [of chunks with this text], "left_out": how many paths are not named; not there: none}, …]

What is sent is the sum over all shards, what is answered is the shard's own share (`rag_stdlib.index.collection`). A share has bounds, so
that no shard makes sums that the others could not be sent: 2^44 chunks or terms, and no score above 10,000. A hybrid question takes
the first three rounds, a lexical one the first and the third, and one by vectors none of them, since its scores compare as they are. The
last one is asked of a shard whose hits end among hits that are equally good, of which it may hold copies beyond its end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from rag_stdlib.contract import loose
from rag_stdlib.index.collection import Collection, Moments
from rag_stdlib.records import MODES, Mode

Round: TypeAlias = Literal["count", "words", "hits", "copies"]

VERSION: Final = 1
PLAIN: Final[Mapping[str, Any]] = {"v": VERSION}  # the statistics of hits from a shard that knows of the exchange
MOST_DIGESTS: Final = 1_000

_INT64: Final = 2**63 - 1
_FLOAT: Final = sys.float_info.max
_SHARE: Final = 2**44  # chunks or terms of one shard; half a million shards with as many add up to 64 bits
_LARGEST: Final = 10_000 * 1_000_000  # millionths; BM25 of 64 terms in 2^63 chunks stays below
_DIGEST: Final = re.compile("[0-9a-f]{64}")
_DIGITS: Final = re.compile(r"-?[0-9]{1,60}", re.ASCII)


class Malformed(ValueError):  # noqa: N818 - a verdict on what a peer sent
    """It is not of the form above; the text says where, and `refusal` is a shard's name for it."""

    def __init__(self, words: str, refusal: str = "bad_params") -> None:
        """Keep both."""
        super().__init__(words)
        self.refusal = refusal


@dataclass(frozen=True, slots=True)
class Exchange:
    """One round; `words`, `by_vector` and `by_words` are sums over the collection, as far as the round brings them along."""

    round: Round
    words: Collection | None = None
    by_vector: Moments | None = None
    by_words: Moments | None = None
    digests: tuple[str, ...] = ()

    def fields(self) -> dict[str, object]:
        """Give the map of a question."""
        named = {"digests": list(self.digests)} if self.digests else {}
        return {"v": VERSION, "round": self.round, **Share(self.words, self.by_vector, self.by_words).fields(), **named}


@dataclass(frozen=True, slots=True)
class Share:
    """What a shard adds to the statistics of the collection."""

    words: Collection | None = None
    by_vector: Moments | None = None
    by_words: Moments | None = None

    def fields(self) -> dict[str, object]:
        """Give the parts that are there."""
        words = self.words
        made: dict[str, object] = {}
        if words is not None:
            made["words"] = {"chunks": words.chunks, "terms": words.terms, "holding": list(words.holding)}
        for name, moments in (("by_vector", self.by_vector), ("by_words", self.by_words)):
            if moments is not None:
                made[name] = {"count": moments.count, "total": str(moments.total), "squares": str(moments.squares)}
        return made

    def statistics(self) -> dict[str, object]:
        """Give the map of an answer."""
        return {**PLAIN, **self.fields()}


@dataclass(frozen=True, slots=True)
class Asked:
    """A question as a shard reads it. `mode` None leaves it to the shard; without a `vector`, the shard embeds the text."""

    text: str
    mode: Mode | None = None
    vector: tuple[float, ...] | None = None
    topics: tuple[str, ...] = ()
    exchange: Exchange | None = None

    def query(self) -> dict[str, object]:
        """Give the query map."""
        parts = {"mode": self.mode, "vector": None if self.vector is None else list(self.vector), "topics": list(self.topics) or None,
                 "exchange": None if self.exchange is None else self.exchange.fields()}
        return {"text": self.text, **{name: part for name, part in parts.items() if part is not None}}


def read_asked(query: Mapping[str, object]) -> Asked:
    """Read a query map, keys as text; of a peer that knows of nothing but `text`, too.

    Raises:
        Malformed: ``text`` is missing, or one of the other fields is there and not of its form.
    """
    text, mode = loose.text(query.get("text")), query.get("mode")
    if not text:
        raise Malformed("text is missing", "missing_text")
    named = None if mode is None else loose.text(mode)
    if mode is not None and named not in MODES:
        raise Malformed(f"mode is one of {', '.join(MODES)}")
    return Asked(text, cast("Mode | None", named), _vector(query.get("vector")), _topics(query.get("topics")), _exchange(query.get("exchange")))


def read_share(statistics: Mapping[str, object], terms: int | None = None) -> Share:
    """Read the statistics of an answer; `terms` is the number of terms that the text has, where that is known.

    Raises:
        Malformed: another version or form, or beyond the bounds of a share.
    """
    return _parts(statistics, terms, _SHARE)


def read_copies(statistics: Mapping[str, object]) -> dict[str, tuple[list[str], int]]:
    """Read an answer about copies: by digest, paths and how many more there are; what is not of the form is left out."""
    listed = statistics.get("copies")
    found: dict[str, tuple[list[str], int]] = {}
    for row in listed if isinstance(listed, (list, tuple)) else ():
        digest, paths, more = (loose.field(row, name) for name in ("digest", "paths", "left_out"))
        named = loose.text(digest)
        if named is not None and isinstance(paths, (list, tuple)):
            read = [path for path in map(loose.text, paths) if path is not None]
            found[named] = read, more if type(more) is int and 0 < more <= _SHARE else 0
    return found


def _parts(statistics: Mapping[str, object], terms: int | None, most: int) -> Share:
    """Read statistics whose counts are `most` at the most."""
    if statistics.get("v") != VERSION:
        raise Malformed(f"the statistics are not of version {VERSION}")
    words = statistics.get("words")
    return Share(None if words is None else _collection(words, terms, most), *(
        None if statistics.get(name) is None else _moments(name, statistics[name], most) for name in ("by_vector", "by_words")))


def _vector(given: object) -> tuple[float, ...] | None:
    if given is None:
        return None
    if not isinstance(given, (list, tuple)) or not all(map(_is_finite, given)):
        raise Malformed("vector is a list of finite numbers")
    return tuple(map(float, given))


def _is_finite(number: object) -> bool:
    return type(number) in (int, float) and -_FLOAT <= number <= _FLOAT  # type: ignore[operator]


def _topics(given: object) -> tuple[str, ...]:
    if given is None:
        return ()
    read = tuple(map(loose.text, given)) if isinstance(given, (list, tuple)) else (None,)
    topics = tuple(topic for topic in read if topic is not None)
    if len(topics) != len(read):
        raise Malformed("topics is a list of texts")
    return topics


def _exchange(given: object) -> Exchange | None:
    if given is None:
        return None
    fields = _map("exchange", given)
    kind = loose.text(fields.get("round"))
    if kind not in get_args(Round):
        raise Malformed(f"the round is one of {', '.join(get_args(Round))}")
    share = _parts(fields, None, _INT64)
    if kind in ("words", "hits") and share.words is None:
        raise Malformed("words are missing")
    digests = _digests(fields.get("digests")) if kind == "copies" else ()
    return Exchange(cast("Round", kind), share.words, share.by_vector, share.by_words, digests)


def _digests(given: object) -> tuple[str, ...]:
    read = tuple(map(loose.text, given)) if isinstance(given, (list, tuple)) else (None,)
    digests = tuple(digest for digest in read if digest is not None and _DIGEST.fullmatch(digest))
    if len(digests) != len(read) or not 0 < len(digests) <= MOST_DIGESTS:
        raise Malformed(f"digests are 1 to {MOST_DIGESTS:,} SHA-256 in hex digits")
    return digests


def _collection(given: object, terms: int | None, most: int) -> Collection:
    fields = _map("words", given)
    chunks, length = (_count(name, fields.get(name), most) for name in ("chunks", "terms"))
    listed = fields.get("holding")
    if not isinstance(listed, (list, tuple)):
        raise Malformed("holding is a list of counts")
    holding = tuple(_count("holding", count, most) for count in listed)
    if any(count > chunks for count in holding):
        raise Malformed("a term is held by more chunks than there are")
    if terms is not None and len(holding) != terms:
        raise Malformed(f"holding has {len(holding)} counts for the {terms} terms of the text")
    return Collection(chunks, length, holding)


def _moments(name: str, given: object, most: int) -> Moments:
    fields = _map(name, given)
    count, total, squares = _count("count", fields.get("count"), most), _integer("total", fields.get("total")), _integer("squares", fields.get("squares"))
    if not 0 <= squares <= count * _LARGEST**2 or total * total > count * squares:  # no such scores have these sums
        raise Malformed(f"{name} are the sums of no scores")
    return Moments(count, total, squares)


def _map(name: str, given: object) -> Mapping[str, object]:
    if not isinstance(given, Mapping):
        raise Malformed(f"{name} is a map")
    return cast("Mapping[str, object]", given)


def _count(name: str, given: object, most: int) -> int:
    if type(given) is not int or not 0 <= given <= most:
        raise Malformed(f"{name} is a count")
    return given


def _integer(name: str, given: object) -> int:
    digits = loose.text(given)
    if digits is None or not _DIGITS.fullmatch(digits):
        raise Malformed(f"{name} is a whole number in decimal digits")
    return int(digits)
