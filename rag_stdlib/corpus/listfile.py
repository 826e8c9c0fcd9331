"""The corpus list: which repositories a provider ingests, read strictly (RAG service contract §3.3).

The list is ``{"repos": [entry, …]}``. In the regime `pinned` an entry names the reviewed commit; in the regime `head` it names none, and
may bound the first fetch and the paths. One table of rules makes both the check and the JSON Schema. Three rules are the check's alone,
since a schema cannot state the first two, and the published one does not state the third:

- the text is strict JSON, of at most `MAX_BYTES`: no key twice, no NaN, no lone surrogate, at most `MAX_DEPTH` levels;
- no two entries have the same id;
- a url holds no credentials, white space or control characters.

The first bad entry refuses the whole list: nothing moves, and no repository falls back to its branch.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from rag_stdlib.config import REGIMES, Regime
from rag_stdlib.embed.redact import one_line

MAX_BYTES: Final = 1_000_000
MAX_DEPTH: Final = 64
_MAX_DIGITS: Final = 4_000  # of a whole number; more would take Python a noticeable time
_SHOWN_CHARS: Final = 200
_ABSENT: Final = object()
# A host and a port. A colon before anything but a port begins a password, which the rest of it, with a slash in it, may hide.
_AUTHORITY: Final = re.compile(r"(?:\[[0-9A-Fa-f:.]*\]|[^:@\[\]]*)(?::[0-9]*)?")

# The end of the value: `$` would do in ECMA-262, but Python's and PCRE's also matches before a final line feed.
_END: Final = r"(?![\s\S])"


@dataclass(frozen=True, slots=True)
class ListedRepo:
    """One entry of the list; `commit` is None in the regime `head`, `depth` None means the full history, no `paths` all of them."""

    id: str
    url: str
    branch: str
    commit: str | None = None
    depth: int | None = None
    paths: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Rule:
    """What the value of a key must be, as JSON Schema, and the name of the refusal where it is not."""

    schema: Mapping[str, Any]
    refused: str
    required: bool = True
    absent: str = ""  # the refusal's name where the key is missing, if another
    item: str = ""  # the refusal's name for an item of a list


_RULES: Final[dict[str, _Rule]] = {  # in the order of the checks
    "id": _Rule({"type": "string", "pattern": f"^[a-z0-9][a-z0-9-]*{_END}",
                 "description": "The name of the mirror and the first part of every path; unique in the list, which no schema can state."},
                "malformed_id"),
    "url": _Rule({"type": "string", "pattern": "^(https://|/)",
                  "description": "Where git fetches from: an https address without credentials, or the absolute path of a repository here."},
                 "unsupported_url"),
    "branch": _Rule({"type": "string", "minLength": 1, "description": "The branch that is fetched."}, "missing_branch"),
    "commit": _Rule({"type": "string", "pattern": f"^[0-9a-f]{{40}}{_END}",
                     "description": "The reviewed commit: the branch's tip or an ancestor of it."},
                    "malformed_commit", absent="unpinned_repo"),
    "depth": _Rule({"type": "integer", "minimum": 1,
                    "description": "How many commits the first fetch brings at most; without it, the full history."},
                   "malformed_depth", required=False),
    "paths": _Rule({"type": "array", "minItems": 1,
                    "description": "Files and folders to ingest, from the repository's root; without them, everything.",
                    "items": {"type": "string", "pattern": rf"^(?!.*(?:^|/)\.\.(?:/|{_END}))[A-Za-z0-9][A-Za-z0-9._/-]*{_END}",
                              "description": "Whole path segments, ASCII; a slash at the end means nothing."}},
                   "malformed_paths", required=False, item="malformed_path"),
}
_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "pinned": ("id", "url", "branch", "commit"),
    "head": ("id", "url", "branch", "depth", "paths"),
}
_SENTENCES: Final = {  # of each refusal; {0}, {1}, {2} are its parts
    "config_read_failed": "cannot be read: {0}",
    "invalid_json": "is not strict JSON",
    "missing_repos_key": 'must be an object with a list "repos"',
    "malformed_entry": "must be an object with the keys that the list's rules name",
    "unknown_key": "id {0}: remove the key {1}, which is unknown",
    "malformed_id": "id {0}: must be lower-case letters, digits and hyphens, with no hyphen first",
    "unsupported_url": "id {0}: the url {1} must be https:// or an absolute path, without credentials, white space or control characters",
    "missing_branch": "id {0}: name a branch",
    "unpinned_repo": "id {0}: name the reviewed commit",
    "malformed_commit": "id {0}: the commit {1} must be 40 lower-case hex digits",
    "malformed_depth": "id {0}: the depth {1} must be a whole number of at least 1; remove it for the full history",
    "malformed_paths": "id {0}: the paths {1} must be a list with at least one path; remove it for all paths",
    "malformed_path": "id {0}: the path {1} must begin with a letter or digit, hold only these and . _ - /, and have no segment ..",
    "duplicate_id": "id {0}: stands in an earlier entry too; ids must be unique",
}


class ListRefused(ValueError):  # noqa: N818 - the contract's word for it
    """The list breaks a rule. `name` is the contract's name of it, `parts` what it is about: bounded, on one line, without credentials."""

    def __init__(self, name: str, *parts: object, where: str = "", detail: str = "") -> None:
        """Name the rule by a name of §3.3; `where` is the entry, `detail` what exactly is wrong."""
        self.name = name
        self.parts = tuple(_shown(part) for part in parts)
        sentence = _SENTENCES[name].format(*map(_quoted, parts))
        super().__init__(f"corpus list{where and f', {where}'}: {sentence}{detail and f': {one_line(detail)}'}")

    @property
    def term(self) -> str:
        """The contract's form of it, such as ``{malformed_id,Foo}``, or the name alone."""
        return f"{{{','.join((self.name, *self.parts))}}}" if self.parts else self.name


def parse(text: str | bytes, regime: Regime) -> tuple[ListedRepo, ...]:
    """Read a corpus list.

    Args:
        text: The file; bytes are UTF-8 without a byte order mark.
        regime: Whether entries pin a commit or follow their branch's head.

    Returns:
        The entries in list order, which is part of the corpus's identity.

    Raises:
        ListRefused: The list, or the first bad entry of it, breaks a rule.
    """
    keys = _keys(regime)
    content = _json(text)
    if not isinstance(content, dict) or not isinstance(content.get("repos"), list):
        raise ListRefused("missing_repos_key")
    repos: dict[str, ListedRepo] = {}
    for number, entry in enumerate(content["repos"], start=1):
        repo = _repo(entry, keys, f"entry {number}")
        if repo.id in repos:
            raise ListRefused("duplicate_id", repo.id, where=f"entry {number}")
        repos[repo.id] = repo
    return tuple(repos.values())


def json_schema(regime: Regime) -> dict[str, Any]:
    """Make the JSON Schema (2020-12) of the list in this regime, from the rules that `parse` checks."""
    keys = _keys(regime)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Corpus list ({regime})",
        "description": "The repositories that a RAG provider ingests, in the order that its corpus hash covers.",
        "type": "object",
        "required": ["repos"],
        "properties": {"repos": {"type": "array", "items": {"$ref": "#/$defs/repo"}}},
        "$defs": {"repo": {
            "type": "object",
            "required": [key for key in keys if _RULES[key].required],
            "additionalProperties": False,
            "properties": {key: _copied(_RULES[key].schema) for key in keys},
        }},
    }


def is_fit_url(url: str) -> bool:
    """Tell whether a url is one that a list may name: https or an absolute path, no credentials, all of it printable."""
    if not _fits(url, _RULES["url"].schema) or not url.isprintable() or " " in url:
        return False
    return url.startswith("/") or bool(_AUTHORITY.fullmatch(url.removeprefix("https://").partition("/")[0]))


def _keys(regime: str) -> tuple[str, ...]:
    if regime not in _KEYS:
        raise ValueError(f"regime must be one of {', '.join(REGIMES)}")
    return _KEYS[regime]


def _repo(entry: object, keys: tuple[str, ...], where: str) -> ListedRepo:
    if not isinstance(entry, dict):
        raise ListRefused("malformed_entry", "not_an_object", where=where)
    named = entry.get("id", _ABSENT)
    unknown = sorted(entry.keys() - set(keys))
    if unknown:
        raise ListRefused("unknown_key", named, unknown[0], where=where, detail=f"the keys are {', '.join(keys)}")
    for key in keys:
        _check(key, entry.get(key, _ABSENT), named, where)
    depth = entry.get("depth")
    return ListedRepo(entry["id"], entry["url"], entry["branch"], entry.get("commit"), None if depth is None else int(depth),
                      tuple(entry.get("paths", ())))


def _check(key: str, value: object, named: object, where: str) -> None:
    rule = _RULES[key]
    if value is _ABSENT and not rule.required:
        return
    if value is _ABSENT and rule.absent:
        raise ListRefused(rule.absent, named, where=where)
    if _fits(value, rule.schema) and (key != "url" or is_fit_url(str(value))):
        return
    if key == "id":
        raise ListRefused(rule.refused, value, where=where)
    if key == "branch":
        raise ListRefused(rule.refused, named, where=where)
    if rule.item and _fits(value, {**rule.schema, "items": {}}) and isinstance(value, list):
        bad = next(item for item in value if not _fits(item, rule.schema["items"]))
        raise ListRefused(rule.item, named, bad, where=where)
    raise ListRefused(rule.refused, named, _without_credentials(value) if key == "url" else value, where=where)


def _fits(value: object, schema: Mapping[str, Any]) -> bool:
    """Check a value against the few words of JSON Schema that the rules use; as there, 1.0 is an integer, and true is none."""
    kind = schema.get("type")
    if kind == "string":
        return isinstance(value, str) and len(value) >= schema.get("minLength", 0) and bool(re.search(schema.get("pattern", ""), value))
    if kind == "integer":
        whole = isinstance(value, (int, float)) and not isinstance(value, bool) and value == int(value)
        return whole and value >= schema["minimum"]
    if kind == "array":
        return isinstance(value, list) and len(value) >= schema["minItems"] and all(_fits(item, schema["items"]) for item in value)
    return True


def _copied(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {word: _copied(value) if isinstance(value, Mapping) else value for word, value in schema.items()}


def _without_credentials(url: object) -> object:
    """Hide what may be a password: it may itself hold slashes and at signs, so everything up to the last one is taken for it."""
    return re.sub(r"(?s)(?<=://).*@", "\u2026@", url) if isinstance(url, str) else url


def _shown(value: object) -> str:
    if value is _ABSENT:
        return "undefined"
    return one_line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), _SHOWN_CHARS)


def _quoted(value: object) -> str:
    return "(missing)" if value is _ABSENT else f'"{_shown(value)}"' if isinstance(value, str) else _shown(value)


def _json(text: str | bytes) -> object:
    try:
        data = text.encode() if isinstance(text, str) else text
        if len(data) > MAX_BYTES:
            raise ValueError(f"it is {len(data):,} bytes; the most is {MAX_BYTES:,}")
        content = json.loads(data.decode(), object_pairs_hook=_object, parse_constant=_constant, parse_float=_float, parse_int=_int)
        for string in _strings(content):
            string.encode()
    except RecursionError:
        raise ListRefused("invalid_json", detail=f"it is nested deeper than {MAX_DEPTH} levels") from None
    except (UnicodeDecodeError, UnicodeEncodeError) as error:
        raise ListRefused("invalid_json", detail=f"it is not Unicode text: {error.reason}") from None
    except ValueError as error:
        raise ListRefused("invalid_json", detail=str(error)) from None
    return content


def _object(pairs: list[tuple[str, object]]) -> dict[str, object]:
    content: dict[str, object] = {}
    for key, value in pairs:
        if key in content:
            raise ValueError(f"the key {_quoted(key)} stands twice in one object")
        content[key] = value
    return content


def _constant(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def _float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _int(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ValueError("a number is too large")
    return int(digits)


def _strings(content: object) -> Iterator[str]:
    """Give every string of a JSON value, keys too; ValueError where it is too deep."""
    pending = [(content, 1)]
    while pending:
        value, depth = pending.pop()
        if depth > MAX_DEPTH and isinstance(value, (dict, list)):
            raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict):
            yield from value
            pending.extend((item, depth + 1) for item in value.values())
        elif isinstance(value, list):
            pending.extend((item, depth + 1) for item in value)
