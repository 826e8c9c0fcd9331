"""The runtime: configuration, root, store, embedder and recorder that the tools of a context work with.

`with Runtime(root="data"):` makes one ambient for the block, in this context and those copied from it. Without a block the
tools use a runtime made from the corvid.toml found upward from the working directory; it is read again when that file,
the working directory or the environment variables it depends on change.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import ExitStack
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from rag_stdlib.config import OPENAI_VARIABLE, ROOT_VARIABLE, Config, find_config, load_config
from rag_stdlib.effects import authority
from rag_stdlib.errors import fail
from rag_stdlib.index.forks import GATE
from rag_stdlib.records import MODES, Mode, Provider
from rag_stdlib.root import Root
from replay import Recorder, current, hide

if TYPE_CHECKING:
    from typing_extensions import Self

    from rag_stdlib.embed import Embedder
    from rag_stdlib.index.connect import Synchronous
    from rag_stdlib.index.resident.cache import Limits
    from rag_stdlib.index.store import Store

_LEAST_KEY: Final = 4  # characters; what is shorter could not be told from other text


class Runtime:
    """What the tools work with; safe to share between threads. Close it, or use it as a context manager."""

    def __init__(
        self,
        config: Config | str | os.PathLike[str] | None = None,
        *,
        root: str | os.PathLike[str] | None = None,
        embedder: Embedder | None = None,
        mode: Mode | None = None,
        recorder: Recorder | None = None,
        synchronous: Synchronous = "normal",
        progress: Callable[[int, int], None] | None = None,
        resident: bool = True,
    ) -> None:
        """Take a `Config`, the path of a corvid.toml, or (None) the one found upward from the working directory.

        `root`, `embedder` and `mode` override what the configuration says; with an embedder given here, the mode is hybrid
        unless said otherwise. `synchronous="full"` makes each commit wait for the disk. `progress` is told (done, total) by
        tools that take long. `resident` lets searches keep codes and postings in memory for the next ones, up to what the
        configuration allows; without it each reads the file. `recorder` takes the calls of a `with` block of this runtime, and
        of runtimes' blocks inside it; without one they go to the replay session around them, if any.

        Raises:
            Failure: `config_*`, `key_missing`.
        """
        _check_options(root, mode, synchronous)
        read = config if isinstance(config, Config) else load_config(None if config is None else os.fspath(config))
        if root is not None:
            read = replace(read, root=os.path.abspath(root))
        given = embedder is not None and read.rag.embedder is None and read.rag.mode == "lexical"
        self.config = read
        self.mode: Mode = mode or ("hybrid" if given else read.rag.mode or "lexical")
        self.recorder = recorder
        self.progress = progress
        self.resident = resident
        self._embedder = embedder
        self._synchronous: Synchronous = synchronous
        self._store: Store | None = None
        self._lock = threading.Lock()
        key = (read.openai_key or "").strip()
        if len(key) >= _LEAST_KEY:
            hide(key)  # whatever session is on: no trace of this process holds it

    @property
    def root(self) -> Root:
        """The [io] root; `Failure` root_unconfigured without one."""
        if not self.config.root:
            raise fail("root_unconfigured")
        return Root(self.config.root)

    @property
    def store(self) -> Store:
        """The index files below the root, opened on first use."""
        store = self._store
        if store is not None:  # the common case, without a lock
            return store
        root = self.root
        with GATE.passing(), self._lock:
            if self._store is None:
                from rag_stdlib.index.store import Store

                self._store = Store(root, synchronous=self._synchronous)
            return self._store

    @property
    def limits(self) -> Limits | None:
        """How much of an index may stay in memory for later searches; None for nothing."""
        from rag_stdlib.index.resident.cache import Limits

        rag = self.config.rag
        return Limits(rag.vector_memory_mb * 1_000_000, rag.lexical_memory_mb * 1_000_000) if self.resident else None

    @property
    def has_embedder(self) -> bool:
        """Whether vectors are configured at all."""
        return self._embedder is not None or self.config.rag.embedder is not None

    @property
    def embedder(self) -> Embedder | None:
        """The configured embedder, made on first use; None for lexical search only."""
        if self._embedder is not None:
            return self._embedder
        with GATE.passing(), self._lock:
            if self._embedder is None and self.config.rag.embedder is not None:
                self._embedder = _make_embedder(self.config, self.config.rag.embedder)
            return self._embedder

    def close(self) -> None:
        """Close the index files; the runtime can be used again afterwards."""
        with self._lock:
            store, self._store = self._store, None
        if store is not None:
            store.close()

    def __enter__(self) -> Self:
        """Make this runtime the ambient one. Holding it is authority: the block is granted what its configuration grants."""
        block, outer = ExitStack(), _active.get()
        block.enter_context(authority())
        block.callback(_active.set, outer)
        recorder = self.recorder if self.recorder is not None or outer is None else outer.recorder
        _active.set(_Active(self, block, recorder))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        """Restore the ambient runtime of before and close this one."""
        active = _active.get()
        if active is not None and active.runtime is self:
            active.block.close()
        self.close()


def _check_options(root: str | os.PathLike[str] | None, mode: Mode | None, synchronous: Synchronous) -> None:
    if root is not None and not os.fspath(root).strip():
        raise fail("config_invalid", where="Runtime", detail='root must not be blank; the working directory is "."')
    for name, value, words in (("mode", mode, (None, *MODES)), ("synchronous", synchronous, ("normal", "full"))):
        if value not in words:
            allowed = ", ".join(word for word in words if word)
            raise fail("config_invalid", where="Runtime", detail=f"{name} is {value!r}, not one of {allowed}")


def _make_embedder(config: Config, provider: Provider) -> Embedder | None:
    from rag_stdlib.embed import EmbedderSettings, make_embedder

    rag = config.rag
    return make_embedder(EmbedderSettings(
        provider=provider, model=rag.model, endpoint=rag.endpoint, dim=rag.dim, timeout_s=rag.timeout_s,
        max_batch=rag.max_batch, query_prefix=rag.query_prefix, passage_prefix=rag.passage_prefix,
        api_key=config.openai_key))


class _Active(NamedTuple):
    """The innermost block and how to leave it: kept in the context, since several threads and tasks can be in blocks of one runtime."""

    runtime: Runtime
    block: ExitStack
    recorder: Recorder | None


_active: ContextVar[_Active | None] = ContextVar("rag_stdlib_runtime", default=None)
_ambient_lock: Final = threading.Lock()
_ambient: dict[tuple[object, ...], Runtime] = {}


def current_runtime() -> Runtime:
    """Return the runtime of this context: the innermost `with Runtime(...)` block's, or the ambient one.

    Raises:
        Failure: `config_*`, `key_missing` where the ambient configuration cannot be read.
    """
    active = _active.get()
    return active.runtime if active is not None else _ambient_runtime()


def active_recorder() -> Recorder | None:
    """Return what takes the calls of this context: the blocks' recorder, or the replay session, or None. No configuration is read.

    Raises:
        ReplayError: a session that cannot be told or cannot be used.
    """
    active = _active.get()
    if active is not None and active.recorder is not None:
        return active.recorder
    return current()


def _ambient_runtime() -> Runtime:
    state = _ambient_state()
    with GATE.passing(), _ambient_lock:  # a fork in the middle would leave the child a lock that nobody opens
        runtime = _ambient.get(state)
        if runtime is None:
            runtime = Runtime()
            for old in _ambient.values():
                old.close()
            _ambient.clear()
            _ambient[state] = runtime
    return runtime


def _ambient_state() -> tuple[object, ...]:
    """Everything the ambient configuration is made from, cheap to look at."""
    stamp: tuple[object, ...] = ()
    try:
        here = Path.cwd()
        file = find_config(here)
        if file is not None:
            status = file.stat()
            stamp = (str(file), status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino)
    except OSError as error:
        raise fail("config_invalid", where="the working directory", detail=f"cannot be searched for corvid.toml: {error.strerror}") from None
    return (str(here), stamp, os.environ.get(ROOT_VARIABLE), os.environ.get(OPENAI_VARIABLE))
