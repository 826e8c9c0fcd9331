"""What is known of the shards, and how it is kept so (RAG service contract §4.7, directory tests)."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from fed_mesh import (
    ME,
    MINILM,
    NOMIC,
    REALM,
    SUMMARIZED,
    WITHDRAWN,
    A,
    B,
    C,
    Run,
    Shards,
    StillClock,
    options,
    settle,
    until,
)

from rag_stdlib.mesh.errors import InvalidCall, PayloadRefused, RelayError
from rag_stdlib.mesh.federation import directory as directory_module
from rag_stdlib.mesh.federation.directory import SUMMARY_BYTES, Directory, Shard
from rag_stdlib.mesh.federation.failures import NotConfigured
from rag_stdlib.mesh.federation.payloads import Summary, Withdrawn
from rag_stdlib.mesh.federation.shard import Federation

SUMMARY = Summary("label", NOMIC, ("a/b",), b"\x01", 7)
FAST: dict[str, Any] = {"summary_republish_ms": 100}


def known(clock: StillClock | None = None) -> tuple[Directory, StillClock]:
    clock = clock or StillClock()
    return Directory(clock, 0.3), clock


# --- what is kept ------------------------------------------------------------------------------------------------------------


def test_a_summary_belongs_to_its_publisher_whatever_it_says() -> None:
    directory, _ = known()
    directory.hear_summary(A, {**SUMMARY.payload(), "shard_id": B, "node_id": B})
    assert directory.summary(B) is None
    assert directory.shards() == [Shard(A, B, NOMIC, ("a/b",), b"\x01", 7)]


def test_a_withdrawal_forgets_the_publishers_summary_whatever_id_it_names() -> None:
    directory, _ = known()
    for node in (A, B):
        directory.hear_summary(node, SUMMARY.payload())
    directory.hear_withdrawal(A, Withdrawn(B, 0).payload())
    assert [shard.node_id for shard in directory.shards()] == [B]
    directory.hear_withdrawal(C, Withdrawn("label", 0).payload())
    assert [shard.node_id for shard in directory.shards()] == [B]


async def _age(seconds: float, clock: StillClock) -> None:
    await clock.advance(seconds)


def test_a_summary_unheard_for_three_periods_is_stale(run: Run) -> None:
    directory, clock = known()
    directory.hear_summary(A, SUMMARY.payload())
    run(_age(0.3, clock))
    assert directory.summary(A) == SUMMARY
    run(_age(0.15, clock))
    assert directory.summary(A) is None
    assert directory.shards() == []


def test_the_latest_summary_heard_wins_whatever_the_publishers_clock_says() -> None:
    directory, _ = known()
    directory.hear_summary(A, Summary("new", NOMIC, (), b"", 9_000).payload())
    directory.hear_summary(A, Summary("old", MINILM, (), b"", -5).payload())
    assert [(shard.shard_id, shard.embedding, shard.published_at) for shard in directory.shards()] == [("old", MINILM, -5)]


@pytest.mark.parametrize("bad", [None, {}, {"shard_id": 7}, "text"])
def test_malformed_facts_change_nothing(bad: Any) -> None:
    directory, _ = known()
    directory.hear_summary(A, SUMMARY.payload())
    directory.hear_summary(A, bad)
    directory.hear_withdrawal(A, bad)
    assert directory.summary(A) == SUMMARY


def test_the_own_summary_does_not_get_stale(run: Run) -> None:
    directory, clock = known()
    directory.keep_own(ME, SUMMARY)
    directory.hear_summary(A, SUMMARY.payload())
    assert [shard.node_id for shard in directory.shards()] == [A, ME]
    run(_age(9.0, clock))
    assert directory.summary(ME) == SUMMARY
    directory.drop_own()
    assert directory.shards() == []


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, run: Run) -> None:
    directory, clock = known()
    directory.hear_summary(A, Summary("s", NOMIC, (), bytes(SUMMARY_BYTES), 0).payload())
    assert directory.shards() == []
    monkeypatch.setattr(directory_module, "DIRECTORY_BYTES", 3_000)
    for node in (A, B, C):
        directory.hear_summary(node, SUMMARY.payload())
    assert [shard.node_id for shard in directory.shards()] == [A, B]
    directory.hear_summary(B, SUMMARY.payload())
    assert [shard.node_id for shard in directory.shards()] == [A, B]
    assert "directory of shards is full" in caplog.text
    run(_age(1.0, clock))
    directory.hear_summary(C, SUMMARY.payload())
    assert [shard.node_id for shard in directory.shards()] == [C]


# --- the own summary ---------------------------------------------------------------------------------------------------------


def test_the_own_summary_is_published_and_kept_under_the_own_id(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, member = await mesh.asker(**FAST)
            _, other = await mesh.asker(A, **FAST)
            assert not member.status().advertised
            await member.advertise(["library/books"], b"\x01\x02")
            await settle()
            shard = Shard(ME, "s", NOMIC, ("library/books",), b"\x01\x02", 1_000_000)
            assert member.shards() == other.shards() == [shard]
            assert member.status().advertised
            assert (member.status().shards, other.status().shards) == (1, 1)
            assert node.published == [(SUMMARIZED, Summary("s", NOMIC, ("library/books",), b"\x01\x02", 1_000_000).payload())]

    run(body())


def test_the_own_summary_is_published_each_period_until_it_is_withdrawn(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, member = await mesh.asker(**FAST)
            _, other = await mesh.asker(A, **FAST)
            await member.advertise()
            await clock.advance(0.35)
            assert [payload["at_ms"] for _, payload in node.published] == [1_000_000, 1_000_100, 1_000_200, 1_000_300]
            await member.withdraw()
            await settle()
            assert node.published[-1] == (WITHDRAWN, {"shard_id": "s", "at_ms": 1_000_350})
            assert member.shards() == other.shards() == []
            assert not member.status().advertised
            await clock.advance(1.0)
            assert len(node.published) == 5

    run(body())


def test_a_new_summary_takes_the_place_of_the_old_one_in_one_loop(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, member = await mesh.asker(**FAST)
            await member.advertise(["old"])
            await member.advertise("new")
            await clock.advance(0.25)
            assert [payload["topics"] for _, payload in node.published] == [["old"], ["new"], ["new"], ["new"]]

    run(body())


def test_a_failed_publication_is_raised_and_made_good_after_a_period(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, member = await mesh.asker(**FAST)
            node.no_publishing = RelayError("overloaded")
            with pytest.raises(RelayError):
                await member.advertise()
            assert [shard.node_id for shard in member.shards()] == [ME]
            await clock.advance(0.1)
            node.no_publishing = RuntimeError("a defect")
            await clock.advance(0.1)
            assert node.published == []
            node.no_publishing = None
            await clock.advance(0.1)
            assert len(node.published) == 1
            node.no_publishing = RelayError("overloaded")
            with pytest.raises(RelayError):
                await member.withdraw()
            assert member.shards() == []

    run(body())
    assert caplog.text.count("could not be published") == 2


@pytest.mark.parametrize(("topics", "bloom", "error"), [([7], b"", InvalidCall), (["\ud800"], b"", InvalidCall), ([], "text", InvalidCall),
                                                        ([], None, InvalidCall), ([], bytearray(1), InvalidCall),
                                                        ([], bytes(SUMMARY_BYTES), InvalidCall),
                                                        (["t"] * 140_000, b"", InvalidCall)])
def test_what_nobody_could_read_is_not_published(topics: Any, bloom: Any, error: type[Exception], run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, member = await mesh.asker()
            with pytest.raises(error):
                await member.advertise(topics, bloom)
            assert (node.published, member.shards(), member.status().advertised) == ([], [], False)

    run(body())


def test_an_echo_of_the_own_summary_does_not_bring_it_back(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, member = await mesh.asker()
            await node.inner.publish(SUMMARIZED, SUMMARY.payload())
            await settle()
            assert member.shards() == []

    run(body())


# --- subscriptions -----------------------------------------------------------------------------------------------------------


def test_a_new_configuration_ends_the_subscriptions_where_they_were_made(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            old, member = await mesh.asker()
            new = mesh.node(A)
            await member.configure(new, REALM, options())
            assert sorted(old.unsubscribed) == [SUMMARIZED, WITHDRAWN]
            assert [each.topic for each in new.subscribed] == [SUMMARIZED, WITHDRAWN]
            assert (len(old.subscribed), new.unsubscribed) == (2, [])

    run(body())


def test_a_subscription_that_the_mesh_drops_is_made_again(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, member = await mesh.asker()
            other = mesh.node(A)
            await node.subscribed[0].stop()
            await clock.advance(0.9)
            assert len(node.subscribed) == 2
            await clock.advance(0.4)
            assert len(node.subscribed) == 3
            await other.publish(SUMMARIZED, SUMMARY.payload())
            await settle()
            assert [shard.node_id for shard in member.shards()] == [A]

    run(body())


def test_a_dropped_subscription_is_back_within_real_time(run: Run) -> None:
    async def body() -> None:
        async with Shards() as mesh:
            node, _ = await mesh.asker()
            await node.subscribed[1].stop()
            await until(lambda: len(node.subscribed) == 3, 1.3)

    run(body())


@pytest.mark.parametrize("error", [RelayError("overloaded"), RuntimeError("a defect")])
def test_a_subscription_that_fails_is_tried_again(error: Exception, run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node = mesh.node(ME)
            node.no_subscription = error
            member = await mesh.member(node)
            await clock.advance(3.0)
            assert (node.subscribed, member.shards()) == ([], [])
            node.no_subscription = None
            await clock.advance(1.0)
            assert sorted(each.topic for each in node.subscribed) == [SUMMARIZED, WITHDRAWN]

    with caplog.at_level(logging.WARNING):
        run(body())
    assert SUMMARIZED in caplog.text


def test_what_a_subscription_fails_of_is_told_once_until_it_is_something_else(run: Run, caplog: pytest.LogCaptureFixture) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node = mesh.node(ME)
            node.no_subscription = RelayError("overloaded")
            await mesh.member(node)
            await clock.advance(3.0)
            node.no_subscription = RelayError("unreachable")
            await clock.advance(3.0)
            node.no_subscription = None
            await clock.advance(1.0)

    run(body())
    told = [record.getMessage() for record in caplog.records if WITHDRAWN in record.getMessage()]
    assert [message.rpartition(" ")[2] for message in told] == ["overloaded", "unreachable"]


def test_nobody_listens_on_over_a_transport_that_is_closed(run: Run) -> None:
    async def body() -> None:
        clock = StillClock()
        async with Shards(clock) as mesh:
            node, member = await mesh.asker()
            await node.close()
            await clock.advance(1.5)
            assert clock.sleepers == 0
            await member.close()

    run(body())


def test_what_cannot_be_unsubscribed_holds_nothing_up(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            node, member = await mesh.asker()
            node.no_end = RelayError("overloaded")
            await member.close()
            assert sorted(node.unsubscribed) == [SUMMARIZED, WITHDRAWN]

    run(body())


def test_withdrawals_reach_the_directory(run: Run) -> None:
    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            _, asking = await mesh.asker()
            _, shard = await mesh.shard(A)
            assert [each.node_id for each in asking.shards()] == [A]
            await shard.withdraw()
            await settle()
            assert asking.shards() == []

    run(body())


def test_without_a_configuration_nothing_is_told_or_known(run: Run) -> None:
    async def body() -> None:
        async with Federation() as alone:
            for act in (alone.advertise, alone.withdraw):
                with pytest.raises(NotConfigured):
                    await act()
            with pytest.raises(NotConfigured):
                alone.shards()

    run(body())


def test_a_summary_with_too_many_values_for_the_mesh_is_refused_before(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_module, "SUMMARY_BYTES", 1 << 40)

    async def body() -> None:
        async with Shards(StillClock()) as mesh:
            _, member = await mesh.asker()
            with pytest.raises(PayloadRefused):
                await member.advertise(["t"] * 140_000)
            assert not member.status().advertised

    run(body())
