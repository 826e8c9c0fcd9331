"""[mesh] of corvid.toml: stations, names and files, each checked before anything is linked."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import get_args

import pytest

from rag_stdlib.config import Config, load_config
from rag_stdlib.errors import Failure
from rag_stdlib.mesh.errors import InvalidCall
from rag_stdlib.mesh.federation import settings
from rag_stdlib.mesh.provider import Deposits
from rag_stdlib.mesh.transport import checked_org
from rag_stdlib.meshconfig import KEYS, MeshConfig, Station, org_problem

NODE = "00ab" * 16


def load(folder: Path, *lines: str) -> Config:
    (folder / "corvid.toml").write_text("\n".join(["# the mesh", "[mesh]", *lines]))
    return load_config(folder / "corvid.toml", env={}, cwd=folder)


def refused(folder: Path, *lines: str) -> str:
    with pytest.raises(Failure) as caught:
        load(folder, *lines)
    assert caught.value.error.code == "config_invalid"
    assert str(folder) not in caught.value.error
    return str(caught.value.error)


def test_every_field_has_a_key_and_a_table_of_nothing_says_nothing(tmp_path: Path) -> None:
    assert set(KEYS) == {field.name for field in dataclasses.fields(MeshConfig)}
    assert load(tmp_path).mesh == MeshConfig() == Config().mesh


def test_defaults_and_words_are_those_of_the_federation_and_the_provider() -> None:
    mesh = MeshConfig()
    assert (mesh.query_timeout_ms, mesh.grant_retry_ms, mesh.summary_republish_ms) == (
        settings.QUERY_TIMEOUT_MS, settings.GRANT_RETRY_MS, settings.SUMMARY_REPUBLISH_MS)
    assert KEYS["confidential"].words == get_args(settings.Confidential)
    assert KEYS["deposits"].words == get_args(Deposits)


@pytest.mark.parametrize(("seed", "station"), [
    (f"{NODE}@station.example.org:4433", Station("station.example.org", 4433, NODE)),
    (f"{NODE.upper()}@127.0.0.1:1", Station("127.0.0.1", 1, NODE)),
    (f"{NODE}@[2001:db8::1]:65535", Station("2001:db8::1", 65535, NODE)),
    (f"{NODE}@a-b.c_d.:04433", Station("a-b.c_d.", 4433, NODE)),
])
def test_a_seed_is_a_pinned_station(tmp_path: Path, seed: str, station: Station) -> None:
    assert load(tmp_path, f"seeds = ['{seed}']").mesh.seeds == (station,)


@pytest.mark.parametrize(("seed", "words"), [
    ("", "NODE_ID@HOST:PORT"), ("station.example.org:4433", "NODE_ID@HOST:PORT"), ("@h:1", "64 hex digits"), (f"{NODE[:-1]}@h:1", "64 hex digits"),
    (f"{NODE[:-1]}g@h:1", "64 hex digits"), (f" {NODE}@h:1", "64 hex digits"), (f"{NODE}@h", "a port"), (f"{NODE}@h:", "a port"),
    (f"{NODE}@h:0", "a port"), (f"{NODE}@h:65536", "1 to 65535"), (f"{NODE}@h:1x", "a port"), (f"{NODE}@h:-1", "a port"), (f"{NODE}@h:٣", "a port"),
    (f"{NODE}@:1", "a host is"), (f"{NODE}@a b:1", "a host is"), (f"{NODE}@quic://h:1", "stands in brackets"), (f"{NODE}@münchen.de:1", "a host is"),
    (f"{NODE}@2001:db8::1:1", "stands in brackets"), (f"{NODE}@[2001:db8::1:1", "in brackets is an IPv6"), (f"{NODE}@[h]:1", "in brackets is an IPv6"),
    (f"{NODE}@[127.0.0.1]:1", "in brackets is an IPv6"), (f"{NODE}@h:1 ", "a port"), (f"{NODE}@h@i:1", "a host is"),
])
def test_another_seed_is_refused_at_its_line_with_what_is_wrong(tmp_path: Path, seed: str, words: str) -> None:
    error = refused(tmp_path, "key = 'k'", f"seeds = ['{NODE}@h:1', '{seed}']")
    assert error.startswith(f"corvid.toml line 4: [mesh] seeds names '{seed}': ")
    assert words in error


@pytest.mark.parametrize(("line", "words"), [
    ("seeds = []", "seeds must not be empty"), ("serve = []", "serve must not be empty"), ("serve = ['providers']", "did you mean 'provider'?"),
    ("realm = 'a/b'", "no slash"), ("realm = 'a b'", "no blank"), ("realm = ''", "must not be empty"), (f"realm = '{'r' * 256}'", "at most 255 bytes, not 256"),
    ("org = '_'", "and not _"), ("org = 'a/b'", "without a slash"), ("org = '~ab'", "and its node id"), (f"org = '~{NODE}0'", "and its node id"),
    (f"org = '{'ü' * 128}'", "at most 255 bytes, not 256"), ("shard_id = ' '", "must not be empty"), ('shard_id = "a\\u0000"', "U+0000"),
    ("profile = 'pq_hybird'", "did you mean 'pq_hybrid'?"), ("confidential = 'always'", "there are: off, preferred, required"),
    ("deposits = 'on'", "did you mean 'open'?"), ("operators = ['me']", "names 'me': a node id is 64 hex digits"), ("key = ''", "must not be empty"),
    ("query_timeout_ms = 0", "between 1 and"), ("grant_retry_ms = 86400001", "between 1 and"), ("summary_republish_ms = 1.5", "a whole number, not a float"),
    ("seed = []", "unknown key 'seed' in [mesh]; did you mean 'seeds'?"), ("realmkey = 'x'", "did you mean 'realm_key'?"),
])
def test_a_value_that_is_none_is_refused_at_its_line(tmp_path: Path, line: str, words: str) -> None:
    error = refused(tmp_path, "", line)
    assert error.startswith("corvid.toml line 4: ")
    assert words in error


def test_files_lie_where_the_table_stands_and_maybe_outside_of_the_root(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    mesh = load(tmp_path / "p", "key = '../keys/node.key'", "realm_key = '/etc/realm.key'").mesh
    assert (mesh.key, mesh.realm_key) == (str(tmp_path / "keys" / "node.key"), "/etc/realm.key")


def test_node_ids_are_lower_case_and_parts_in_their_order(tmp_path: Path) -> None:
    mesh = load(tmp_path, "serve = ['shard', 'provider', 'shard']", f"operators = ['{NODE.upper()}', '{NODE}']").mesh
    assert (mesh.serve, mesh.operators) == (("provider", "shard"), (NODE,))
    assert load(tmp_path, "operators = []").mesh.operators == ()


@pytest.mark.parametrize("org", ["acme", "_", "", "a/b", "ü", f"~{NODE}", "~x", "_a", "a~"])
def test_an_organisation_is_one_wherever_the_mesh_takes_it_for_one(org: str) -> None:
    try:
        fine = checked_org(org) == org
    except InvalidCall:
        fine = False
    assert (not org_problem(org)) == fine
