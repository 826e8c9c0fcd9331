"""Texts are embedded before a switch, each once, and a text that the embedder refuses is told by its file."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from embedder_double import EmbedderDouble
from git_repos import Repo
from syncing import INDEX, found, listed, synced

from rag_stdlib import Runtime
from rag_stdlib.errors import fail

PAGE = "# Page {0}\n\nWords of the page {0} about {1}, and a few more of them to make a sentence.\n"


@pytest.fixture
def alpha(make_repo: Callable[..., Repo]) -> Repo:
    made = make_repo("alpha")
    made.commit({"a.md": PAGE.format("a", "apples"), "bad.md": PAGE.format("bad", "poison"), "c.md": PAGE.format("c", "cherries")})
    return made


def refusing(embedder: EmbedderDouble, *codes: str) -> None:
    """Have every call with the word *poison* fail, with each code in turn, the last one for good."""
    left = list(codes)

    def refuse(texts: Sequence[str]) -> None:
        if any("poison" in text for text in texts):
            code = left.pop(0) if len(left) > 1 else left[0]
            raise fail(code, provider="double", status=400, where="", detail="not this one", endpoint="here")

    embedder.before = refuse


def test_one_text_that_is_refused_is_told_by_its_file_and_the_others_are_kept(hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo) -> None:
    refusing(embedder, "embedder_failed")
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.outcome, report.code, [path for path, *_ in report.failed]) == ("failed", "embedder_failed", ["bad.md"])
    assert report.error.startswith("bad.md: ")
    assert embedder.texts == 2
    embedder.before = None
    assert synced(hybrid, listed(alpha))["alpha"].embedded == 1
    assert len(found("apples poison cherries")) == 3


def test_an_embedder_that_fails_for_another_reason_while_files_are_tried_alone_ends_the_repository(
        hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo) -> None:
    refusing(embedder, "embedder_failed", "embedder_unreachable")
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.outcome, report.code, report.failed) == ("failed", "embedder_unreachable", ())


def test_an_embedder_that_is_away_is_asked_once(hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo) -> None:
    refusing(embedder, "embedder_unreachable")
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.code, report.failed, embedder.calls) == ("embedder_unreachable", (), [])


def test_a_text_of_many_files_is_embedded_once(hybrid: Runtime, embedder: EmbedderDouble, alpha: Repo) -> None:
    alpha.commit({f"copies/{n}.md": PAGE.format("copy", "quinces") for n in range(5)})
    report = synced(hybrid, listed(alpha))["alpha"]
    assert (report.chunks, report.embedded, embedder.texts) == (8, 4, 4)


def test_files_without_a_chunk_need_no_vector(hybrid: Runtime, embedder: EmbedderDouble, make_repo: Callable[..., Repo]) -> None:
    empty = make_repo("empty")
    empty.commit({"a.md": "", "b.md": "# B\n"})
    report = synced(hybrid, listed(empty, "empty"))["empty"]
    assert (report.outcome, report.new, report.chunks, embedder.calls) == ("switched", 2, 0, [])
    with hybrid.store.reading(INDEX) as connection:
        assert connection.execute("SELECT count(*) FROM rag_documents").fetchall() == [(2,)]
