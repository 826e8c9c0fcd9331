"""The tests' station as a process, and the parts of it that can be told right from wrong without a node."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from station.station_client import REAL, NotTheDouble, StationProcess
from station.station_frames import MAX_FRAME, BrokenProtocol, FrameReader, decoded, encoded, framed
from station.station_keys import NODES, fixed_key
from station.station_lies import Lie
from station.station_records import (
    DELEGATION,
    ORG_DIRECTORY,
    TOMBSTONE,
    Directory,
    Realm,
    read_record,
    signed_record,
    storage_key,
)

from rag_stdlib.contract.nodekeys import PROFILES, Profile

needs_aioquic = pytest.mark.skipif(
    importlib.util.find_spec("aioquic") is None or REAL in os.environ, reason="aioquic is not installed, or another station takes its place")

# A stand-in for the binary that MACULA_TESTSTATION names: it prints where it is, and admits whom it is told to.
FAKE = """#!{python}
import json, sys
print(json.dumps({told}), flush=True)
for line in sys.stdin:
    print("admitted", flush=True)
"""
TOLD = {"stations": [{"host": "h", "port": 7, "node_id": "00"}], "realm_name": "r", "realm_id": "01", "realm_key": "02", "org": "o"}


@pytest.fixture
def station() -> Iterator[StationProcess]:
    with StationProcess("pq_pure") as one:
        yield one


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@needs_aioquic
def test_a_station_that_is_started_again_is_the_same_one(station: StationProcess) -> None:
    station.admit(fixed_key("pq_pure", "a").node_id)
    before, pid = (station.host, station.port, station.node_id, station.realm_id, station.realm_key, station.org), station.pid
    station.restart()
    assert (station.host, station.port, station.node_id, station.realm_id, station.realm_key, station.org) == before
    assert gone(pid)
    assert not gone(station.pid)


@needs_aioquic
@pytest.mark.parametrize("how", ["end", "kill"])
def test_its_process_ends_with_it(how: str) -> None:
    station = StationProcess("pq_pure")
    getattr(station, how)()
    assert gone(station.pid)
    station.end()


@needs_aioquic
def test_it_takes_commands(station: StationProcess) -> None:
    node = fixed_key("pq_pure", "d").node_id
    station.admit(node)
    station.revoke(node)
    station.lie(Lie.REPLAYED)
    station.drop()
    assert station.lies_told() == 0
    with pytest.raises(RuntimeError, match="does not do 'dance'"):
        station._tell("dance")


@needs_aioquic
def test_a_station_that_ends_is_missed(station: StationProcess) -> None:
    with pytest.raises(RuntimeError, match="ended with 0"):
        station._tell("stop")


def test_a_real_station_takes_its_place_where_one_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    binary = tmp_path / "teststation"
    binary.write_text(FAKE.format(python=sys.executable, told=json.dumps(TOLD)), encoding="utf-8")
    binary.chmod(0o700)
    monkeypatch.setenv(REAL, str(binary))
    with StationProcess("pq_pure") as station:
        assert (station.host, station.port, station.realm_key, station.is_double) == ("h", 7, b"\2", False)
        station.admit("00")
        for act in (station.drop, lambda: station.lie(Lie.NONE), lambda: station.revoke("00"), station.restart):
            with pytest.raises(NotTheDouble):
                act()
    assert gone(station.pid)


@pytest.mark.parametrize("profile", PROFILES)
def test_the_keys_of_nodes_solve_the_stations_puzzle(profile: Profile) -> None:
    ids = [fixed_key(profile, role).node_id for role in ("station", *NODES)]
    assert len(set(ids)) == len(ids)
    assert all(node_id.startswith("00") for node_id in ids)


@given(bodies=st.lists(st.binary(max_size=40), max_size=6), cuts=st.lists(st.integers(1, 12), min_size=1))
def test_frames_come_out_whole_however_they_come_in(bodies: list[bytes], cuts: list[int]) -> None:
    stream, reader, found, number = b"".join(map(framed, bodies)), FrameReader(), [], 0
    while stream:
        size = cuts[number % len(cuts)]
        found += reader.feed(stream[:size])
        stream, number = stream[size:], number + 1
    assert found == bodies


def test_a_frame_is_a_map_of_a_bounded_size() -> None:
    assert decoded(encoded("hello", accepted=1)) == {"version": 5, "frame_type": "hello", "accepted": 1}
    with pytest.raises(BrokenProtocol):
        decoded(b"\x01")
    with pytest.raises(BrokenProtocol):
        list(FrameReader().feed((MAX_FRAME + 1).to_bytes(4, "big")))


def test_a_grant_lies_where_nodes_look_for_it_until_it_is_taken_back() -> None:
    directory, node = Directory("pq_pure"), bytes.fromhex(fixed_key("pq_pure", "a").node_id)
    realm, org = Realm("pq_pure", directory), bytes.fromhex(fixed_key("pq_pure", "org").key_id)
    realm.admit(node)
    (delegation,) = directory.find(storage_key(DELEGATION, org, node))
    (entry,) = directory.find(storage_key(ORG_DIRECTORY, realm.id, b"acme"))
    assert read_record(delegation, "pq_pure").payload == {"org_key": org, "advertiser": node}
    assert read_record(entry, "pq_pure").key_id.hex() == fixed_key("pq_pure", "realm").key_id
    assert directory.of_kind(DELEGATION) == [delegation]
    realm.revoke(node)
    assert directory.find(storage_key(DELEGATION, org, node)) == directory.of_kind(TOMBSTONE) == []


def test_a_record_that_was_changed_is_none() -> None:
    wire = signed_record(DELEGATION, {"org_key": bytes(32), "advertiser": bytes(32)}, fixed_key("pq_pure", "org"))
    for changed in (wire[:-1] + bytes([wire[-1] ^ 1]), wire[:-1], b"", wire + b"\0"):
        with pytest.raises(ValueError, match="MACULA-PQ-RECORD-V1"):
            Directory("pq_pure").put(changed)
