"""corvid.toml -> `Config`, strictly.

Read are ``[io]``, ``[rag]``, ``[corpus]``, ``[mesh]`` and ``[effects]``; sections that belong to Corvid's own compiler are let be.
An unknown section or key, a wrong type or value, or malformed TOML is one `Failure` that names the line and the nearest right name.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from rag_stdlib.configkeys import Key, nearest, problem
from rag_stdlib.effects import EFFECTS
from rag_stdlib.errors import Failure, fail
from rag_stdlib.meshconfig import KEYS as MESH_KEYS
from rag_stdlib.meshconfig import MeshConfig, mesh_config
from rag_stdlib.records import MODES, PROVIDERS, Mode, Provider

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILE_NAME: Final = "corvid.toml"
ROOT_VARIABLE: Final = "CORVID_IO_ROOT"
OPENAI_VARIABLE: Final = "OPENAI_API_KEY"

Regime: TypeAlias = Literal["pinned", "head"]
REGIMES: Final[tuple[Regime, ...]] = ("pinned", "head")

_CORVID_SECTIONS: Final = ("http", "mcp", "run", "package", "package-policy", "dependencies", "effect-system")

_SECTIONS: Final[dict[str, dict[str, Key]]] = {
    "io": {"root": Key(str)},
    "rag": {
        "embedder": Key(str, words=PROVIDERS),
        "model": Key(str),
        "endpoint": Key(str),
        "mode": Key(str, words=MODES),
        "dim": Key(int, least=1, most=16_384),
        "timeout_s": Key(float, least=0.001, most=86_400),
        "max_batch": Key(int, least=1, most=2_048),
        "query_prefix": Key(str, blank=True),
        "passage_prefix": Key(str, blank=True),
        "vector_memory_mb": Key(int, least=1, most=1_048_576),
        "lexical_memory_mb": Key(int, least=1, most=1_048_576),
    },
    "corpus": {
        "list": Key(str),
        "regime": Key(str, words=REGIMES),
        "max_repo_mb": Key(int, least=1, most=1_048_576),
        "max_file_mb": Key(int, least=1, most=15),
        "fetch_timeout_s": Key(float, least=1, most=86_400),
    },
    "mesh": MESH_KEYS,
    "effects": {"grant": Key(list, blank=True, words=tuple(sorted(EFFECTS)))},
}


@dataclass(frozen=True, slots=True)
class RagConfig:
    """The [rag] table, held to its rules also where a program makes it: a `Failure` config_invalid otherwise.

    `mode` is what searches use; None becomes hybrid with an embedder, and lexical without one.
    """

    embedder: Provider | None = None
    model: str | None = None
    endpoint: str | None = None
    mode: Mode | None = None
    dim: int | None = None
    timeout_s: float = 60.0
    max_batch: int | None = None
    query_prefix: str = ""
    passage_prefix: str = ""
    vector_memory_mb: int = 512
    lexical_memory_mb: int = 64

    def __post_init__(self) -> None:
        """Check every value that is set, and settle the mode."""
        for name, key in _SECTIONS["rag"].items():
            value = getattr(self, name)
            found = problem(key, value) if value is not None else ""
            if found:
                raise fail("config_invalid", where="RagConfig", detail=f"{name} {found}")
        if self.mode is None:
            object.__setattr__(self, "mode", "hybrid" if self.embedder else "lexical")


@dataclass(frozen=True, slots=True)
class CorpusConfig:
    """The [corpus] table: the corpus list, below the root, and whether its entries name commits (pinned) or follow branches (head).

    `max_repo_mb`, `max_file_mb` and `fetch_timeout_s` bound what one repository may cost.
    """

    list: str = "corpus-repos.json"
    regime: Regime = "pinned"
    max_repo_mb: int = 2_000
    max_file_mb: int = 8
    fetch_timeout_s: float = 600.0


@dataclass(frozen=True, slots=True)
class Config:
    """A read configuration. `root` is absolute or None; `grant` holds effect names; `openai_key` never shows in repr."""

    root: str | None = None
    rag: RagConfig = field(default_factory=RagConfig)
    corpus: CorpusConfig = field(default_factory=CorpusConfig)
    mesh: MeshConfig = field(default_factory=MeshConfig)
    grant: frozenset[str] = frozenset(EFFECTS)
    file: str | None = None
    openai_key: str | None = field(default=None, repr=False)


def find_config(start: Path) -> Path | None:
    """Find corvid.toml in `start` or the nearest folder above it."""
    for folder in (start, *start.parents):
        candidate = folder / FILE_NAME
        with suppress(PermissionError):  # a folder that we may not look into configures nobody below it
            if candidate.is_file():
                return candidate
    return None


def _working_directory() -> Path:
    try:
        return Path.cwd()
    except OSError as error:
        raise fail("config_invalid", where="the working directory", detail=f"cannot be used: {error.strerror}; change to another one") from None


def load_config(file: str | Path | None = None, *, env: Mapping[str, str] | None = None,
                cwd: Path | None = None) -> Config:
    """Read the given file, or the one found upward from `cwd`, or none; `env` and `cwd` default to the process's.

    ``CORVID_IO_ROOT`` (relative to `cwd`) wins over ``[io] root`` (relative to the file's folder).

    Raises:
        Failure: `config_missing` (a named file that is not there), `config_invalid`, `key_missing`.
    """
    environment = os.environ if env is None else env
    here = _working_directory() if cwd is None else cwd
    path = find_config(here) if file is None else here / file
    if path is None:
        return Config(root=_root_of({}, here, environment, here))
    text = _read(path)
    data = _parse(text, path.name)
    _check_names(data, text, path.name)
    rag = _rag_config(data.get("rag"), text, path.name)
    granted = data.get("effects", {}).get("grant")
    return Config(
        root=_root_of(data, path.absolute().parent, environment, here),
        rag=rag,
        corpus=CorpusConfig(**data.get("corpus", {})),
        mesh=mesh_config(data.get("mesh", {}), path.absolute().parent),
        grant=frozenset(EFFECTS if granted is None else granted),
        file=str(path.absolute()),
        openai_key=_openai_key(rag, environment),
    )


def _read(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise fail("config_missing", path=path.name) from None
    except UnicodeDecodeError as error:
        raise fail("config_invalid", where=path.name, detail=f"byte {error.start} is not UTF-8") from None
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        detail = error.strerror if isinstance(error, OSError) else str(error)
        raise fail("config_invalid", where=path.name, detail=f"cannot be read: {detail}") from None


def _parse(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        detail = str(error)
        at = re.search(r"\(at line (\d+), column \d+\)", detail)
        line = at.group(1) if at else str(max(1, len(text.splitlines())))
        raise fail("config_invalid", where=f"{name} line {line}", detail=f"not TOML: {detail}") from None
    except (ValueError, RecursionError):  # what the parser does not guard: numbers of thousands of digits, deep nesting
        raise fail("config_invalid", where=name, detail="not TOML that can be read: a number too long, or too deep") from None


def _line_of(text: str, section: str, key: str | None = None) -> int:
    """Find the line of a key in a section, or the section's first (headers, dotted and inline forms included)."""
    current, first = "", 0
    name = section if key is None else key
    for number, line in enumerate(text.splitlines(), 1):
        header = re.match(r"\s*\[+([^\]]+)\]", line)
        parts = [part.strip().strip("\"'") for part in (header.group(1) if header else line.partition("=")[0]).split(".")]
        if header:
            current = parts[0]
        elif "=" in line:
            parts = [current, *parts] if current else parts
        if parts[0] == section:
            first = first or number
            if parts[:2] == [section, name] or (header is None and not current and re.search(rf"\b{re.escape(name)}\b", line)):
                return number
    return first or 1


def _invalid(text: str, name: str, section: str, key: str | None, detail: str) -> Failure:
    return fail("config_invalid", where=f"{name} line {_line_of(text, section, key)}", detail=detail)


def _check_names(data: dict[str, Any], text: str, name: str) -> None:
    for section, table in data.items():
        if section in _CORVID_SECTIONS:
            continue
        known = _SECTIONS.get(section)
        if known is None:
            raise _invalid(text, name, section, None, f"unknown section [{section}]{nearest(section, tuple(_SECTIONS))}")
        if not isinstance(table, dict):
            raise _invalid(text, name, section, None, f"[{section}] must be a table")
        for key, value in table.items():
            if key not in known:
                detail = f"unknown key {key!r} in [{section}]{nearest(key, tuple(known))}"
                raise _invalid(text, name, section, key, detail)
            found = problem(known[key], value)
            if found:
                raise _invalid(text, name, section, key, f"[{section}] {key} {found}")


def _rag_config(table: dict[str, Any] | None, text: str, name: str) -> RagConfig:
    if table is None:
        return RagConfig()
    endpoint = table.get("endpoint")
    if endpoint is not None and not re.match(r"https?://[^/\s]+", endpoint):
        raise _invalid(text, name, "rag", "endpoint", "[rag] endpoint must start with http:// or https:// and a host")
    embedder = table.get("embedder")
    mode = table.get("mode", "hybrid" if embedder else "lexical")
    if embedder is None and mode != "lexical":
        raise _invalid(text, name, "rag", "mode", f"[rag] mode {mode!r} needs an embedder; add one of {', '.join(PROVIDERS)}")
    if embedder is None and "mode" not in table:
        detail = '[rag] names no embedder; add embedder = "local" (or openai, ollama), or say mode = "lexical"'
        raise _invalid(text, name, "rag", None, detail)
    timeout = float(table.get("timeout_s", 60.0))
    return RagConfig(**{**table, "mode": mode, "timeout_s": timeout})


def _openai_key(rag: RagConfig, environment: Mapping[str, str]) -> str | None:
    if rag.embedder != "openai":
        return None
    key = environment.get(OPENAI_VARIABLE, "").strip()
    if not key:
        raise fail("key_missing", provider="openai", variable=OPENAI_VARIABLE)
    return key


def _root_of(data: dict[str, Any], folder: Path, environment: Mapping[str, str], here: Path) -> str | None:
    variable = environment.get(ROOT_VARIABLE, "").strip()
    if variable:
        return os.path.abspath(here / variable)
    root = data.get("io", {}).get("root")
    return None if root is None else os.path.abspath(folder / root)
