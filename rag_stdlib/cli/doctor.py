"""`rag doctor`: does everything that a search needs work here?"""

from __future__ import annotations

import platform
import sys
from collections.abc import Callable, Iterator
from typing import Annotated

import typer

from rag_stdlib import __version__
from rag_stdlib.cli.frame import AsJson, State, command, show_json
from rag_stdlib.cli.manage import held
from rag_stdlib.cli.meshnode import node_of
from rag_stdlib.cli.paths import below_root
from rag_stdlib.cli.terminal import clean, flush, plural, show, styled
from rag_stdlib.config import Config, load_config
from rag_stdlib.errors import Failure
from rag_stdlib.meshconfig import MeshConfig
from rag_stdlib.result import Err
from rag_stdlib.runtime import Runtime
from rag_stdlib.tools import rag_stats

_Line = tuple[bool, str, str]


@command("doctor", "See whether everything works here.")
def doctor(context: typer.Context,
           index: Annotated[str | None, typer.Argument(metavar="[INDEX]", help="Also look at this index.")] = None,
           as_json: AsJson = False) -> None:
    """Check the installation, the configuration, the root, the embedder, and [mesh] where there is one; exit 1 if anything fails."""
    findings: list[_Line] = []
    for finding in _findings(context, index):
        findings.append(finding)
        if not as_json:
            fine, name, detail = finding
            show(f"{styled('ok  ', 32) if fine else styled('FAIL', 1, 31)} {name:<14} {clean(detail)}")
            flush()  # the next check may take a while
    if as_json:
        show_json([{"check": name, "ok": fine, "detail": detail} for fine, name, detail in findings])
    if not all(fine for fine, _, _ in findings):
        raise typer.Exit(1)


def _findings(context: typer.Context, index: str | None) -> Iterator[_Line]:
    yield True, "rag-stdlib", f"{__version__} on Python {platform.python_version()}, {sys.platform} {platform.machine()}"
    yield _tried("SQLite", _sqlite)
    yield _tried("scan", _scan)
    state: State = context.obj
    try:
        config = load_config(state.config)
    except Failure as failure:
        yield False, "configuration", str(failure.error)
        return
    except OSError as error:
        yield False, "configuration", f"the working directory cannot be used: {error.strerror}"
        return
    yield True, "configuration", config.file or "no corvid.toml found; CORVID_IO_ROOT alone is used"
    with Runtime(config) as runtime:
        yield _tried("root", lambda: _root(runtime))
        yield _tried("embedder", lambda: _embedder(runtime, config))
        if config.mesh != MeshConfig():
            yield _tried("mesh", lambda: _mesh(config))
        if index is not None:
            yield _tried("index", lambda: _index(runtime, index))


def _tried(name: str, test: Callable[[], str]) -> _Line:
    try:
        return True, name, test()
    except Failure as failure:
        return False, name, str(failure.error)
    except (ImportError, OSError) as error:
        return False, name, f"{type(error).__name__}: {error}"


def _sqlite() -> str:
    import apsw

    from rag_stdlib.index.journal import log_is_safe
    from rag_stdlib.index.vectors import load_extension

    number = apsw.sqlite_lib_version()
    connection = apsw.Connection(":memory:")
    connection.execute("CREATE VIRTUAL TABLE probe USING fts5(words)")
    load_extension(connection)
    ((extension,),) = connection.execute("SELECT vec_version()").fetchall()
    connection.close()
    journal = "write-ahead log" if log_is_safe(number) else "rollback journal, since this version can lose a logged write"
    return f"{number} through apsw, FTS5, sqlite-vec {extension}, {journal}"


def _scan() -> str:
    from importlib.metadata import PackageNotFoundError, version  # every command loads this module

    import numpy as np

    try:
        return f"numpy {np.__version__}, simsimd {version('simsimd')}"
    except PackageNotFoundError:
        return f"numpy {np.__version__}; simsimd is not installed, so vector scans are slower"


def _root(runtime: Runtime) -> str:
    entries = runtime.root.list_folder(".")
    return f"{runtime.root.path} ({len(entries):,} {'entry' if len(entries) == 1 else 'entries'})"


def _embedder(runtime: Runtime, config: Config) -> str:
    embedder = runtime.embedder
    if embedder is None:
        return "none configured: searches are lexical"
    from rag_stdlib.embed.verify import verify_embedder

    problems = verify_embedder(embedder)
    if problems:
        from rag_stdlib.errors import fail

        raise fail("embedder_reply", provider=config.rag.embedder, where="", detail="; ".join(problems))
    where = "remote" if embedder.remote else "on this machine"
    return f"{embedder.identity().describe()} ({where}), mode {runtime.mode}"


def _mesh(config: Config) -> str:
    """See that a node could link as [mesh] says; no station is asked."""
    from importlib.metadata import version

    node = node_of(config)
    stations = plural(len(node.config.seeds), "stations")
    return f"node {node.key.node_id} ({node.key.profile}), {node.org} in {node.realm}, {stations}, macula-py {version('macula-py')}"


def _index(runtime: Runtime, index: str) -> str:
    result = rag_stats(below_root(runtime, index))
    if isinstance(result, Err):
        raise Failure(result.error)
    found = result.value
    notices = "".join(f"; {notice}" for notice in found.notices)
    return f"{held(found)}{notices}"
