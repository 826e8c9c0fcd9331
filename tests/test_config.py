"""corvid.toml: strict, found upward, and the environment's root before the file's."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from rag_stdlib import config as config_module
from rag_stdlib.config import Config, CorpusConfig, RagConfig, find_config, load_config
from rag_stdlib.errors import Failure
from rag_stdlib.meshconfig import MeshConfig, Station
from rag_stdlib.result import RagError

EXAMPLE = Path(__file__).parents[1] / "corvid.toml.example"
NODE = "0a" * 32
KEY = {"OPENAI_API_KEY": "sk-canary-0123456789"}
GOOD = {
    "io": {"root": '"data"'},
    "rag": {"embedder": '"ollama"', "model": '"m"', "endpoint": '"https://h:1/v1"', "mode": '"vector"', "dim": "8", "timeout_s": "2.5",
            "max_batch": "3", "query_prefix": '""', "passage_prefix": '"passage: "', "vector_memory_mb": "7",
            "lexical_memory_mb": "8"},
    "corpus": {"list": '"repos.json"', "regime": '"head"', "max_repo_mb": "5", "max_file_mb": "2", "fetch_timeout_s": "3.5"},
    "mesh": {"key": '"node.key"', "seeds": f'["{NODE}@h:1"]', "realm": '"io.x"', "realm_key": '"realm.key"', "org": '"acme"', "shard_id": '"s"',
             "profile": '"pq_pure"', "query_timeout_ms": "1", "grant_retry_ms": "2", "summary_republish_ms": "3", "confidential": '"off"',
             "serve": '["shard"]', "operators": f'["{NODE}"]', "deposits": '"open"'},
    "effects": {"grant": '["rag_read"]'},
}


def load(folder: Path, text: str | bytes, env: dict[str, str] | None = None) -> Config:
    (folder / "corvid.toml").write_bytes(text if isinstance(text, bytes) else text.encode())
    return load_config(folder / "corvid.toml", env=env or {}, cwd=folder)


def refused(folder: Path, text: str | bytes, env: dict[str, str] | None = None) -> RagError:
    with pytest.raises(Failure) as caught:
        load(folder, text, env)
    assert caught.value.error.fix == "operator"
    assert str(folder) not in caught.value.error, "a message names the file, not where it lies"
    return caught.value.error


def test_every_key_is_read(tmp_path: Path) -> None:
    assert {section: set(keys) for section, keys in GOOD.items()} == {
        section: set(keys) for section, keys in config_module._SECTIONS.items()}
    text = "\n".join(line for section, keys in GOOD.items() for line in (f"[{section}]", *(f"{k} = {v}" for k, v in keys.items())))
    assert load(tmp_path, text) == Config(
        root=str(tmp_path / "data"), grant=frozenset({"rag_read"}), file=str(tmp_path / "corvid.toml"),
        corpus=CorpusConfig("repos.json", "head", max_repo_mb=5, max_file_mb=2, fetch_timeout_s=3.5),
        mesh=MeshConfig(str(tmp_path / "node.key"), (Station("h", 1, NODE),), "io.x", str(tmp_path / "realm.key"), "acme", "s", "pq_pure", 1, 2, 3,
                        "off", ("shard",), (NODE,), "open"),
        rag=RagConfig(embedder="ollama", model="m", endpoint="https://h:1/v1", mode="vector", dim=8, timeout_s=2.5, max_batch=3,
                      query_prefix="", passage_prefix="passage: ", vector_memory_mb=7, lexical_memory_mb=8))


def test_an_empty_file_configures_nothing(tmp_path: Path) -> None:
    read = load(tmp_path, "")
    assert (read.root, read.rag, read.grant) == (None, RagConfig(), frozenset({"rag_read", "rag_write"}))
    assert read.rag.mode == "lexical"


def test_no_file_at_all_configures_nothing(tmp_path: Path) -> None:
    (tmp_path / "inner").mkdir()
    assert load_config(env={}, cwd=tmp_path / "inner") == Config()


@pytest.mark.parametrize(("text", "mode"), [
    ('[rag]\nembedder = "local"', "hybrid"), ('[rag]\nembedder = "local"\nmode = "lexical"', "lexical"), ('[rag]\nmode = "lexical"', "lexical"),
    ('rag.embedder = "ollama"', "hybrid"), ('rag = { embedder = "local", mode = "vector" }', "vector"),
])
def test_the_mode_is_hybrid_with_an_embedder(tmp_path: Path, text: str, mode: str) -> None:
    assert load(tmp_path, text).rag.mode == mode


WRONG_TYPES = {str: ["1", "true", "1.5", '["a"]', "{ a = 1 }", "2024-01-01"], int: ['"1"', "true", "1.5", "[1]", "nan"],
               float: ['"1"', "true", "[1.0]", "12:00:00"], list: ['"rag_read"', "[1]", "1", "true", '[["rag_read"]]']}


@pytest.mark.parametrize(("section", "key"), [(section, key) for section, keys in GOOD.items() for key in keys])
def test_a_wrong_type_names_line_key_and_type(tmp_path: Path, section: str, key: str) -> None:
    kind = config_module._SECTIONS[section][key].kind
    for value in WRONG_TYPES[kind]:
        error = refused(tmp_path, f"# comment\n\n[{section}]\n{key} = {value}\n")
        assert error.code == "config_invalid"
        assert error.startswith(f"corvid.toml line 4: [{section}] {key} must be a"), value
        assert ", not a" in error


@pytest.mark.parametrize(("line", "words"), [
    ("[io]\nroot = ''", "must not be empty"), ("[io]\nroot = '  '", "must not be empty"), ('[io]\nroot = "a\\u0000b"', "U+0000"),
    ("[rag]\nmodel = ''", "must not be empty"), ("[rag]\nendpoint = ''", "must not be empty"),
    ('[rag]\nquery_prefix = "\\u0000"', "U+0000"), ("[rag]\ndim = 0", "between 1 and 16384, not 0"), ("[rag]\ndim = 16385", "16384"),
    ("[rag]\ndim = -1", "not -1"), ("[rag]\ntimeout_s = 0", "between 0.001 and 86400"), ("[rag]\ntimeout_s = nan", "not nan"),
    ("[rag]\ntimeout_s = inf", "not inf"), ("[rag]\ntimeout_s = 1" + "0" * 400, "between"), ("[rag]\nmax_batch = 2049", "2048"),
    ("[rag]\nvector_memory_mb = 0", "between 1 and"), ("[rag]\nlexical_memory_mb = 0", "between 1 and"), ("[rag]\nembedder = 'Local'", "did you mean 'local'"),
    ("[rag]\nembedder = 'openia'", "did you mean 'openai'"), ("[rag]\nembedder = 'cohere'", "there are: openai, ollama, local"),
    ("[rag]\nmode = 'hybird'", "did you mean 'hybrid'"), ("[effects]\ngrant = ['rag_raed']", "did you mean 'rag_read'"),
    ("[effects]\ngrant = ['rag_read', 'sudo']", "names 'sudo' (there are: rag_read, rag_write)"),
])
def test_a_value_outside_its_range_is_refused_at_its_line(tmp_path: Path, line: str, words: str) -> None:
    error = refused(tmp_path, line)
    assert error.code == "config_invalid"
    assert error.startswith("corvid.toml line 2: ")
    assert words in error


@pytest.mark.parametrize(("text", "number", "words"), [
    ("[oi]\nroot = '.'", 1, "unknown section [oi]; did you mean 'io'?"),
    ("[io]\nroot = '.'\n[ragg]\nembedder = 'local'", 3, "did you mean 'rag'?"),
    ("\n[observability]\nx = 1", 2, "unknown section [observability] (there are: io, rag, corpus, mesh, effects)"),
    ("title = 'x'", 1, "unknown section [title]"),
    ("[io]\n\nroots = '.'", 3, "unknown key 'roots' in [io]; did you mean 'root'?"),
    ("[rag]\nembedder = 'local'\nmodell = 'x'", 3, "did you mean 'model'?"),
    ("[rag]\nembedder = 'local'\nzzz = 1", 3, "(there are: embedder, model"),
    ("[effects]\ngrants = []", 2, "did you mean 'grant'?"),
    ("[io]\nroot = '.'\n[rag.extra]\nx = 1", 3, "unknown key 'extra' in [rag]"),
    ("[io]\nroot = '.'\n[ rag ]\n'embeder' = 'local'", 4, "did you mean 'embedder'?"),
    ('[io]\nroot = "."\n["rag"]\n"embeder" = "local"', 4, "did you mean 'embedder'?"),
    ("a.b = 1", 1, "unknown section [a]"),
    ("io.root = '.'\nrag.embeder = 'local'", 2, "did you mean 'embedder'?"),
    ("io.root = '.'\nrag = { embeder = 'local' }", 2, "did you mean 'embedder'?"),
    ("[http]\nembeder = 'x'\n[rag]\nembeder = 'local'", 4, "did you mean 'embedder'?"),
    ("io = 3", 1, "[io] must be a table"), ("\n[[rag]]\nembedder = 'local'", 2, "[rag] must be a table"),
])
def test_misspelt_names_come_with_their_line_and_the_nearest_right_one(tmp_path: Path, text: str, number: int, words: str) -> None:
    error = refused(tmp_path, text)
    assert error.startswith(f"corvid.toml line {number}: ")
    assert words in error
    assert refused(tmp_path, text.replace("\n", "\r\n")) == error


@pytest.mark.parametrize(("text", "number"), [
    ("[io\nroot = '.'", 1), ("[io]\nroot = .", 2), ("[io]\nroot = '.'\nroot = '.'", 3), ("[io]\n[io]", 2), ("x", 1), ("a = 'b", 1),
    ("[io]\nroot = '''\n\n", 3), ("[io]\nroot = '.' # \x01", 2), ("[rag]\ntimeout_s = 2024-99-99", 2), ("\x00", 1),
])
def test_malformed_toml_names_its_line(tmp_path: Path, text: str, number: int) -> None:
    error = refused(tmp_path, text)
    assert error.code == "config_invalid"
    assert error.startswith(f"corvid.toml line {number}: not TOML: ")


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "[rag]\ndim = " + "9" * 5_000])
def test_toml_beyond_the_parser_is_still_one_message(tmp_path: Path, text: str) -> None:
    assert refused(tmp_path, text).code == "config_invalid"


@pytest.mark.parametrize(("data", "words"), [
    (b"[io]\nroot = '\xff'", "byte 13 is not UTF-8"), ("[io]\nroot = 'ü'".encode("latin-1"), "not UTF-8"), ("[io]".encode("utf-16"), "not UTF-8"),
])
def test_other_encodings_are_refused(tmp_path: Path, data: bytes, words: str) -> None:
    assert words in refused(tmp_path, data)


@pytest.mark.parametrize("text", ["\ufeff[io]\nroot = 'x'\n", "[io]\r\nroot = 'x'\r\n", "\ufeff[io]\r\nroot = 'x'"])
def test_a_byte_order_mark_and_crlf_are_read(tmp_path: Path, text: str) -> None:
    assert load(tmp_path, text).root == str(tmp_path / "x")


def test_corvids_own_sections_are_let_be(tmp_path: Path) -> None:
    text = "\n".join(f"[{name}]\nanything = [1, {{ a = 2 }}]" for name in config_module._CORVID_SECTIONS)
    assert load(tmp_path, text + "\n[mcp.servers.x]\ncommand = 'y'\n[io]\nroot = '.'").root == str(tmp_path)


@pytest.mark.parametrize(("text", "words"), [
    ("[rag]\nmodel = 'x'", 'names no embedder; add embedder = "local"'), ("[rag]", "names no embedder"),
    ("[rag]\nmode = 'vector'", "mode 'vector' needs an embedder"), ("[rag]\nmode = 'hybrid'\ndim = 3", "needs an embedder"),
    ("[rag]\nembedder = 'ollama'\nendpoint = 'localhost:11434'", "must start with http:// or https://"),
    ("[rag]\nembedder = 'ollama'\nendpoint = 'ftp://h'", "must start with"), ("[rag]\nembedder = 'ollama'\nendpoint = 'http://'", "and a host"),
])
def test_keys_that_do_not_fit_together(tmp_path: Path, text: str, words: str) -> None:
    error = refused(tmp_path, text)
    assert error.startswith("corvid.toml line ")
    assert words in error


# --- the key ---

@pytest.mark.parametrize("env", [{}, {"OPENAI_API_KEY": ""}, {"OPENAI_API_KEY": " \n"}, {"openai_api_key": "x"}])
def test_a_missing_key_is_an_error_and_never_a_silent_downgrade(tmp_path: Path, env: dict[str, str]) -> None:
    error = refused(tmp_path, "[rag]\nembedder = 'openai'", env)
    assert error.code == "key_missing"
    assert "OPENAI_API_KEY" in error


@pytest.mark.parametrize("embedder", ["local", "ollama"])
def test_other_embedders_read_no_key(tmp_path: Path, embedder: str) -> None:
    assert load(tmp_path, f"[rag]\nembedder = '{embedder}'", KEY).openai_key is None


def test_the_key_is_never_shown(tmp_path: Path) -> None:
    read = load(tmp_path, "[rag]\nembedder = 'openai'", {"OPENAI_API_KEY": f" {KEY['OPENAI_API_KEY']}\n"})
    assert read.openai_key == KEY["OPENAI_API_KEY"]
    assert "canary" not in repr(read) + str(read) + f"{read}"


# --- where the root comes from ---

@pytest.mark.parametrize(("variable", "in_file", "expected"), [
    (None, None, None), (None, "data", "project/data"), (None, "../x", "x"), (None, ".", "project"), (None, "/abs/./r", "/abs/r"),
    ("env", None, "cwd/env"), ("env", "data", "cwd/env"), ("/abs/e", "data", "/abs/e"), (" env ", "data", "cwd/env"), ("", "data", "project/data"),
    ("  ", None, None), ("..", "data", "."),
])
@pytest.mark.parametrize("relative", [True, False])
def test_precedence_and_anchoring_of_the_root(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, in_file: str | None, expected: str | None, relative: bool) -> None:
    for name in ("project", "cwd"):
        (tmp_path / name).mkdir()
    file = tmp_path / "project" / "corvid.toml"
    file.write_text(f"[io]\nroot = '{in_file}'" if in_file else "")
    monkeypatch.chdir(tmp_path / "cwd")
    monkeypatch.delenv("CORVID_IO_ROOT", raising=False)
    if variable is not None:
        monkeypatch.setenv("CORVID_IO_ROOT", variable)
    root = load_config("../project/corvid.toml" if relative else file).root
    assert root == (None if expected is None else os.path.normpath(tmp_path / expected))
    assert root is None or os.path.isabs(root)  # noqa: PTH117 - a string


def test_the_environment_names_a_root_without_any_file(tmp_path: Path) -> None:
    assert load_config(env={"CORVID_IO_ROOT": "r"}, cwd=tmp_path).root == str(tmp_path / "r")


# --- which file ---

def test_the_nearest_file_upward_is_read(tmp_path: Path) -> None:
    inner = tmp_path / "a" / "b" / "c"
    inner.mkdir(parents=True)
    (tmp_path / "corvid.toml").write_text("[io]\nroot = 'top'")
    assert load_config(env={}, cwd=inner).root == str(tmp_path / "top")
    (tmp_path / "a" / "corvid.toml").write_text("[io]\nroot = 'near'")
    assert load_config(env={}, cwd=inner).root == str(tmp_path / "a" / "near")
    (inner / "corvid.toml").mkdir()
    assert find_config(inner) == tmp_path / "a" / "corvid.toml", "a folder of that name is no file"


def test_a_folder_that_may_not_be_entered_configures_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "corvid.toml").write_text("[io]\nroot = 'top'")
    (tmp_path / "inner").mkdir()
    real = Path.is_file

    def closed(self: Path) -> bool:
        if self.parent.name == "inner":
            raise PermissionError(13, "Permission denied")
        return real(self)

    monkeypatch.setattr(Path, "is_file", closed)
    assert find_config(tmp_path / "inner") == tmp_path / "corvid.toml"


@pytest.mark.parametrize(("file", "code"), [
    ("none.toml", "config_missing"), (".", "config_invalid"), ("corvid.toml/x", "config_invalid"), ("a\0b", "config_invalid"),
])
def test_a_named_file_must_be_there(tmp_path: Path, file: str, code: str) -> None:
    (tmp_path / "corvid.toml").touch()
    with pytest.raises(Failure) as caught:
        load_config(file, env={}, cwd=tmp_path)
    assert (caught.value.error.code, caught.value.error.fix) == (code, "operator")


# --- the example ---

def test_the_example_loads_as_shipped(tmp_path: Path) -> None:
    read = load(tmp_path, EXAMPLE.read_text(encoding="utf-8"))
    assert read == Config(root=str(tmp_path), rag=RagConfig(embedder="local", mode="hybrid"), file=read.file)


def example_lines() -> list[tuple[int, str, str]]:
    """List (line number, section, key) of every optional line of the example."""
    section, found = "", []
    for number, line in enumerate(EXAMPLE.read_text(encoding="utf-8").splitlines()):
        if line.startswith("["):
            section = line.strip("[]")
        optional = re.match(r"# (\w+) = ", line)
        if optional:
            found.append((number, section, optional.group(1)))
    return found


def test_the_example_has_every_key_in_its_section() -> None:
    written = {(section, key) for _, section, key in example_lines()} | {("io", "root"), ("rag", "embedder")}
    assert written == {(section, key) for section, keys in config_module._SECTIONS.items() for key in keys}


@pytest.mark.parametrize(("number", "section", "key"), example_lines())
def test_each_optional_line_of_the_example_loads_when_it_is_uncommented(tmp_path: Path, number: int, section: str, key: str) -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    lines[number] = lines[number].removeprefix("# ")
    text = "\n".join(line for place, line in enumerate(lines) if place == number or not line.startswith(f"{key} = "))
    read = load(tmp_path, text, KEY)
    default = load(tmp_path, EXAMPLE.read_text(encoding="utf-8"))
    part = {"io": "root", "effects": "grant"}.get(section)
    inner = section if section in ("corpus", "mesh") else "rag"
    value = getattr(read, part) if part else getattr(getattr(read, inner), key)
    without_default = {"embedder", "model", "endpoint", "dim", "max_batch", "key", "seeds", "realm", "realm_key", "org", "shard_id", "confidential", "operators"}
    if key in without_default:
        assert value, "an example of a key without a default"
    else:
        assert value == (getattr(default, part) if part else getattr(getattr(default, inner), key)), "what is commented out is the default"
