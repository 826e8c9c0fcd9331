"""The house: which module may import which, what stays unopened, and how large a room may get."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = {
    ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): file
    for package in ("rag_stdlib", "replay") for file in sorted((ROOT / package).rglob("*.py"))
}

# From the top to the bottom; a module imports from its own layer and from those below it.
LAYERS = [
    ("rag_stdlib.cli", "rag_stdlib.serve", "rag_stdlib.adapters", "rag_stdlib.__main__"),
    ("rag_stdlib", "rag_stdlib.mesh", "rag_stdlib.proof", "rag_stdlib.corpus", "rag_stdlib.tools", "rag_stdlib.edge", "rag_stdlib.aio",
     "rag_stdlib.runtime", "rag_stdlib.options"),
    ("rag_stdlib.index", "rag_stdlib.embed", "rag_stdlib.text"),
    ("rag_stdlib.contract", "rag_stdlib.effects", "rag_stdlib.config", "rag_stdlib.root", "rag_stdlib.values",
     "rag_stdlib.keyfile", "rag_stdlib.configkeys", "rag_stdlib.meshconfig", "rag_stdlib.wholefile"),
    ("rag_stdlib.records",),
    ("rag_stdlib.errors",),
    ("rag_stdlib.result", "rag_stdlib.audit"),
]
REPLAY_LAYERS = [
    ("replay.pytest_plugin", "replay.testing"),
    ("replay.runs",),
    ("replay.modes", "replay.decorator"),
    ("replay.session",),
    ("replay.scripts",),
    ("replay.matching", "replay.quarantine", "replay.ambient", "replay.endings", "replay.reports"),
    ("replay.tracefile",),
    ("replay.redaction", "replay.recorder", "replay.ed25519"),
    ("replay.jsontext",),
    ("replay.errors",),
]
VERIFYING = ("strict", "forms", "format", "bodychecks", "decisions", "provenance", "trust", "policy", "verdicts", "verify", "logchecks", "render", "log.errors", "log.keytext",
             "log.merkle", "log.notes", "log.cosignatures", "log.checkpoints", "log.receipts", "log.pinned")
DRAWN = ("rag_stdlib.proof.recording",)  # whose calls are events of a trace, beside those of the tools
HEAVY = ("numpy", "apsw", "openai", "ollama", "rich", "typer", "onnxruntime", "simsimd", "sqlite_vec", "regex", "pypdf", "docx", "selectolax",
         "tokenizers", "asyncio", "pathspec", "httpx")
WORLD = {"os", "io", "socket", "time", "datetime", "pathlib", "subprocess", "sqlite3", "tempfile", "shutil", "urllib", "http", "ssl", "random",
         "secrets", "threading", "asyncio", "apsw", "openai", "ollama", "httpx"}


@cache
def imports(module: str) -> dict[str, int]:
    """Return every module that a module imports anywhere (for a type only, too), with its line."""
    found: dict[str, int] = {}
    for node in ast.walk(ast.parse(SOURCES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno} imports relatively"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                found[inner if inner in SOURCES else str(node.module)] = node.lineno
    return found


def layer(module: str, layers: list[tuple[str, ...]] = LAYERS) -> int:
    names = [(name, number) for number, layer_names in enumerate(layers) for name in layer_names]
    return max(((len(name), number) for name, number in names if module == name or module.startswith(f"{name}.")), default=(0, -1))[1]


@cache
def inner_imports(module: str) -> list[str]:
    return [name for name in imports(module) if name in SOURCES]


@cache
def type_only(module: str) -> set[str]:
    """Return what a module imports under TYPE_CHECKING alone."""
    tree = ast.parse(SOURCES[module].read_text(encoding="utf-8"))
    blocks = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    guarded = {inner for block in blocks for inner in ast.walk(block) if isinstance(inner, ast.ImportFrom)}
    names = {str(node.module) for node in guarded}
    others = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node not in guarded}
    return names - others


def test_there_is_a_house() -> None:
    assert len(SOURCES) > 60
    assert layer("rag_stdlib.index.store") == 2
    assert layer("rag_stdlib.text.loaders.pdf") == 2
    assert layer("rag_stdlib.toolshed") == 1, "what is not listed stands with the public face"


def test_arrows_point_down() -> None:
    backwards = [
        f"{module} -> {name} (line {line})" for module in SOURCES if module.startswith("rag_stdlib")
        for name, line in imports(module).items() if name in SOURCES and name.startswith("rag_stdlib") and layer(name) < layer(module)]
    assert backwards == []


@pytest.mark.parametrize(("one", "other"), [
    ("rag_stdlib.text", "rag_stdlib.embed"), ("rag_stdlib.embed", "rag_stdlib.text"), ("rag_stdlib.text", "rag_stdlib.index"),
    ("rag_stdlib.embed", "rag_stdlib.index"), ("rag_stdlib.contract", "rag_stdlib.root"), ("rag_stdlib.contract", "rag_stdlib.config"),
    ("rag_stdlib.contract", "rag_stdlib.effects"), ("rag_stdlib.root", "rag_stdlib.config"), ("rag_stdlib.index", "rag_stdlib.config"),
    ("rag_stdlib.embed", "rag_stdlib.config"), ("rag_stdlib.text", "rag_stdlib.root"), ("rag_stdlib.corpus", "rag_stdlib.mesh"),
    ("rag_stdlib.corpus", "rag_stdlib.tools"), ("rag_stdlib.index", "rag_stdlib.corpus"), ("rag_stdlib.mesh", "rag_stdlib.corpus.git"),
    ("rag_stdlib.contract", "rag_stdlib.values"),
])
def test_neighbours_that_know_nothing_of_each_other(one: str, other: str) -> None:
    def below(module: str, package: str) -> bool:
        return module == package or module.startswith(f"{package}.")

    known = [(module, name) for module in SOURCES if below(module, one) for name in inner_imports(module) if below(name, other)]
    assert known == []


def test_arrows_point_down_inside_replay() -> None:
    inside = [module for module in SOURCES if module.startswith("replay.")]
    assert [module for module in inside if layer(module, REPLAY_LAYERS) < 0] == []
    backwards = [f"{module} -> {name} (line {line})" for module in inside for name, line in imports(module).items()
                 if name in inside and name not in type_only(module) and layer(name, REPLAY_LAYERS) < layer(module, REPLAY_LAYERS)]
    assert backwards == []


def test_replay_knows_nothing_of_retrieval() -> None:
    for module in SOURCES:
        if module.startswith("replay"):
            assert [name for name in imports(module) if name.startswith("rag_stdlib")] == []


def test_the_contract_opens_no_file_socket_or_clock() -> None:
    for module, file in SOURCES.items():
        if module.startswith("rag_stdlib.contract"):
            assert {name.partition(".")[0] for name in imports(module)} & WORLD == set(), module
            names = {node.id for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))) if isinstance(node, ast.Name)}
            assert names & {"open", "__import__", "eval", "exec"} == set(), module


def test_verification_opens_no_file_socket_or_clock_and_needs_nothing_above_the_contract() -> None:
    for name in VERIFYING:
        module = f"rag_stdlib.proof.{name}"
        found = imports(module)
        assert {each.partition(".")[0] for each in found} & (WORLD - {"datetime"}) == set(), module
        ours = {".".join(each.split(".")[:2]) for each in found if each.startswith("rag_stdlib.")}
        assert ours <= {"rag_stdlib.proof", "rag_stdlib.contract"}, module
        inner = {each.removeprefix("rag_stdlib.proof.") for each in found if each in SOURCES and each.startswith("rag_stdlib.proof.")}
        assert inner <= {*VERIFYING, "log"}, module
        tree = ast.parse(SOURCES[module].read_text(encoding="utf-8"))
        assert {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} & {"open", "__import__", "eval", "exec"} == set(), module
        assert "now" not in {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}, module


def test_only_the_edge_the_runtime_and_what_an_answer_is_drawn_from_know_the_recorder() -> None:
    """The command line starts sessions; below it, what is no part of the edge may know of replay no more than its exceptions and its Ed25519."""
    users = {(module, name) for module in SOURCES if module.startswith("rag_stdlib") and layer(module) > 0
             for name in imports(module) if name.partition(".")[0] == "replay" and not name.startswith("replay.ed25519")}
    users -= {(module, "replay") for module in SOURCES if "replay.ed25519" in imports(module)}
    assert {module for module, name in users if name != "replay.errors"} == {"rag_stdlib.edge", "rag_stdlib.runtime", *DRAWN}
    assert {module for module, name in users if name == "replay.errors"} <= {"rag_stdlib.embed.boundary", "rag_stdlib.corpus.reposync"}


def test_the_standard_sqlite_module_is_never_used() -> None:
    assert [module for module in SOURCES if "sqlite3" in imports(module)] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module: {name for name in inner_imports(module) if name not in type_only(module) and name != module} for module in SOURCES}
    order = list(TopologicalSorter(graph).static_order())
    assert order.index("rag_stdlib.result") < order.index("rag_stdlib.errors") < order.index("rag_stdlib.tools")


@pytest.mark.parametrize("statement", ["import rag_stdlib", "import replay", "import rag_stdlib.contract.provenance"])
def test_importing_loads_nothing_heavy(statement: str) -> None:
    program = f"{statement}\nimport sys\nprint([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-I", "-c", f"import sys; sys.path.insert(0, {str(ROOT)!r})\n{program}"],
                          capture_output=True, text=True, timeout=60, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_a_file_has_at_most_400_lines_and_a_function_50() -> None:
    long = []
    for module, path in SOURCES.items():
        text = path.read_text(encoding="utf-8")
        long += [module] if len(text.splitlines()) > 400 else []
        long += [f"{module}.{node.name}" for node in ast.walk(ast.parse(text))
                 if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and (node.end_lineno or 0) - node.lineno >= 50]
    assert not long, f"too long: {long}"
