"""`rag mesh key`, and what is said where [mesh] of corvid.toml, its files or the mesh's library are not what they have to be."""

from __future__ import annotations

import builtins
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from station.station_keys import fixed_key

from rag_stdlib.cli.meshnode import MeshNode, node_of
from rag_stdlib.config import load_config
from rag_stdlib.contract.nodekeys import PROFILES
from rag_stdlib.keyfile import load_key, save_new_key
from rag_stdlib.meshconfig import MeshConfig

Rag = Any  # see conftest

NEEDED = {"key": 'key = "a.key"', "seeds": f'seeds = ["{"0a" * 32}@station.example.org:4433"]', "realm": 'realm = "io.example.test"',
          "realm_key": 'realm_key = "realm.key"', "org": 'org = "acme"', "profile": 'profile = "pq_pure"'}


def put(folder: Path, **changed: str | None) -> None:
    """Write corvid.toml with a whole [mesh], but for what is changed, or left out by None."""
    lines = [line for line in {**NEEDED, **changed}.values() if line is not None]
    (folder / "corvid.toml").write_text("\n".join(['[io]\nroot = "."\n[mesh]', *lines, ""]))


@pytest.fixture
def table(folder: Path) -> Callable[..., None]:
    """Write the files of a node, and give what writes corvid.toml for it."""
    pytest.importorskip("macula_py", reason="macula-py is not installed (it needs Python 3.11)")
    save_new_key(folder / "a.key", fixed_key("pq_pure", "a"))
    (folder / "realm.key").write_bytes(fixed_key("pq_pure", "realm").public)

    def write(**changed: str | None) -> None:
        put(folder, **changed)

    write()
    return write


class TestKey:
    """`rag mesh key`."""

    @pytest.mark.parametrize("profile", PROFILES)
    def test_a_key_is_made_for_its_owner_alone_and_its_node_is_told(self, rag: Rag, folder: Path, profile: str) -> None:
        done = rag("mesh", "key", "node.key", "--profile", profile)
        key = load_key(folder / "node.key", profile)  # type: ignore[arg-type]
        assert (done.code, done.out) == (0, f"node       {key.node_id}\nprofile    {profile}\n")
        assert done.err == f"rag: note: made a {profile} key in 'node.key'; keep it to yourself, and keep a copy in a safe place\n"
        assert stat.S_IMODE((folder / "node.key").stat().st_mode) == 0o600
        assert key.node_id.startswith("00")
        assert rag("mesh", "key", "node.key", "--show").out == done.out

    def test_a_file_that_is_there_is_left_alone(self, rag: Rag, folder: Path) -> None:
        (folder / "node.key").write_text("mine")
        done = rag("mesh", "key", "node.key", "--profile", "pq_pure")
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("rag: error [key_file_exists]: ")
        assert (folder / "node.key").read_text() == "mine"
        assert "[key_file_" in rag("mesh", "key", "node.key", "--show").err

    def test_the_profile_is_that_of_the_configuration(self, rag: Rag, folder: Path) -> None:
        put(folder)
        assert rag("mesh", "key", "one.key").out.endswith("pq_pure\n")
        (folder / "corvid.toml").write_text("[mesh]\nprofile = 'pq_pur'\n")
        assert "did you mean 'pq_pure'?" in rag("mesh", "key", "two.key").err
        assert not (folder / "two.key").exists()


class TestTable:
    """What a command says where the table is not whole."""

    @pytest.mark.parametrize(("name", "words"), [
        ("key", 'corvid.toml: [mesh] has no key; add key = "node.key" (rag mesh key makes one), or give --key'),
        ("seeds", 'corvid.toml: [mesh] has no seeds; add seeds = ["NODE_ID@HOST:PORT"], the stations to link to'),
        ("realm", 'corvid.toml: [mesh] has no realm; add realm = "NAME", the name of the realm'),
        ("realm_key", "corvid.toml: [mesh] has no realm_key, which vouches for the nodes of 'acme'; add realm_key = \"realm.key\", the file of the realm's public key"),
        ("org", 'corvid.toml: [mesh] has no org; add org = "NAME", the organisation, or "~" for the node\'s own namespace, or give --org'),
    ])
    def test_what_is_missing_is_named_in_one_line(self, rag: Rag, table: Callable[..., None], name: str, words: str) -> None:
        table(**{name: None})
        for command in (("serve", "x.db"), ("query", "x"), ("status",), ("providers",)):
            done = rag("mesh", *command)
            assert (done.code, done.out) == (1, "")
            assert done.err.splitlines()[-1] == f"rag: error [config_invalid]: {words}"
        assert f"FAIL mesh           {words}\n" in rag("doctor").out

    def test_without_any_file_that_is_said(self, rag: Rag, folder: Path, table: Callable[..., None]) -> None:
        assert table
        (folder / "corvid.toml").unlink()
        assert "no corvid.toml: [mesh] has no key" in rag("mesh", "query", "x").err

    def test_doctor_tells_the_node_of_a_whole_table_and_nothing_of_none(self, rag: Rag, folder: Path, table: Callable[..., None]) -> None:
        assert table
        done = rag("doctor")
        (line,) = [line for line in done.out.splitlines() if " mesh " in line]
        node = fixed_key("pq_pure", "a").node_id
        assert line.startswith(f"ok   mesh           node {node} (pq_pure), acme in io.example.test, 1 station, macula-py ")
        assert done.code == 0
        (folder / "corvid.toml").write_text('[io]\nroot = "."\n[mesh]\n')
        assert " mesh " not in rag("doctor").out

    def test_a_key_that_others_may_read_is_refused(self, rag: Rag, folder: Path, table: Callable[..., None]) -> None:
        assert table
        (folder / "a.key").chmod(0o640)
        assert "[key_file_unsafe]" in rag("mesh", "status").err
        assert "others may use it (mode 0640)" in rag("doctor").out
        assert "[key_file_missing]" in rag("mesh", "status", "--key", "none.key").err

    def test_a_key_of_another_profile_is_refused(self, rag: Rag, table: Callable[..., None]) -> None:
        table(profile='profile = "pq_hybrid"')
        assert "it holds a pq_pure key, and a pq_hybrid key is needed" in rag("mesh", "status").err

    @pytest.mark.parametrize(("data", "words"), [
        (None, "cannot be read: No such file or directory"), (b"", "holds no public key of the profile pq_pure"),
        (fixed_key("pq_pure", "realm").public + b"\n", "holds no public key"), (b"zz" * 2_592, "holds no public key"),
        (fixed_key("pq_pure", "realm").public.hex().encode() + b"\n", "holds the key as hex digits; it is to hold the bytes themselves"),
    ])
    def test_a_realm_key_that_is_none_is_refused(self, rag: Rag, folder: Path, table: Callable[..., None], data: bytes | None, words: str) -> None:
        assert table
        (folder / "realm.key").unlink()
        if data is not None:
            (folder / "realm.key").write_bytes(data)
        done = rag("mesh", "status")
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("rag: error [config_invalid]: [mesh] realm_key: ")
        assert words in done.err

    @pytest.mark.parametrize(("org", "name"), [
        ("acme", "acme"), ("~", f"~{fixed_key('pq_pure', 'a').node_id}"), ("~" + "AB" * 32, "~" + "ab" * 32)])
    def test_a_namespace_is_written_out(self, folder: Path, table: Callable[..., None], org: str, name: str) -> None:
        table(org=f'org = "{org}"')
        node = node_of(load_config(folder / "corvid.toml"))
        assert (node.org, node_of(load_config(folder / "corvid.toml"), org="other").org) == (name, "other")


class TestLibrary:
    """Where macula-py cannot be used."""

    @pytest.mark.parametrize("command", [("serve", "x.db"), ("query", "x"), ("status",), ("providers",)])
    def test_a_python_that_is_too_old_is_one_line(self, rag: Rag, folder: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...]) -> None:
        put(folder)
        monkeypatch.setattr(sys, "version_info", (3, 10, 14, "final", 0))
        done = rag("mesh", *command)
        assert (done.code, done.out) == (1, "")
        assert done.err.startswith("rag: error [mesh_not_installed]: ")
        assert "it needs Python 3.11 or later, and this is 3.10" in done.err
        assert "this is 3.10" in rag("doctor").out


def open_files() -> int:
    """Count the open files of this process; 0 where the system does not tell."""
    return len(list(Path("/proc/self/fd").iterdir())) if Path("/proc/self/fd").exists() else 0


class TestHolding:
    """One key is one process."""

    def node(self, folder: Path) -> MeshNode:
        save_new_key(folder / "a.key", fixed_key("pq_pure", "a"))
        return MeshNode(MeshConfig(), fixed_key("pq_pure", "a"), str(folder / "a.key"), "r", None, "acme")

    def test_a_key_is_held_once_and_who_asks_then_has_another(self, tmp_path: Path) -> None:
        pytest.importorskip("fcntl", reason="this system has no such locks")
        node = self.node(tmp_path)
        before = open_files()
        with node.held() as free, node.held() as again, node.asking() as asker:
            assert (free, again) == (True, False)
            assert asker.key.node_id != node.key.node_id
            assert asker.key.profile == "pq_pure"
        with node.held() as free:
            assert free
        with node.asking() as asker:
            assert asker is node
        assert open_files() == before

    def test_where_there_are_no_locks_everyone_has_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        node, real = self.node(tmp_path), builtins.__import__
        fcntl = pytest.importorskip("fcntl", reason="this system has no such locks")

        def refuse(*_: object) -> None:
            raise OSError(38, "Function not implemented")

        with monkeypatch.context() as patch:
            patch.setattr(fcntl, "flock", refuse)
            with node.held() as free:
                assert free

        def without(name: str, *rest: Any, **more: Any) -> Any:
            if name == "fcntl":
                raise ImportError(name)
            return real(name, *rest, **more)

        monkeypatch.setattr(builtins, "__import__", without)
        with node.held() as free, node.held() as again:
            assert free
            assert again
