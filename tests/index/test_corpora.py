"""The corpus in the index: one transaction from one commit to another, and nothing else writes what belongs to it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from corpus_files import PATH, commit, new_file, repo, switch_to
from embedder_double import EmbedderDouble

from rag_stdlib import (
    Err,
    Failure,
    QueryOptions,
    Runtime,
    rag_check,
    rag_compact,
    rag_delete,
    rag_get,
    rag_ingest,
    rag_ingest_many,
    rag_query,
    rag_search,
    rag_stats,
)
from rag_stdlib.index import corpora, corpuswrite
from rag_stdlib.records import SourceDocument

ONE = {"a.md": "# Alpha\n\nThe first apple pie.\n", "docs/b.md": "# Beta\n\nBananas ripen fast.\n"}


def described(runtime: Runtime) -> list[tuple[str, str]]:
    with runtime.store.reading(PATH) as connection:
        return [(found.id, found.commit) for found in corpora.repos(connection)]


def metadata(query: str = "apple bananas") -> dict[str, object]:
    return {chunk.doc_id: chunk.metadata["commit"] for chunk in rag_search(PATH, query, 20).unwrap()}


def test_a_switch_stores_every_file_with_its_repository_and_commit(hybrid: Runtime) -> None:
    assert switch_to(hybrid, repo("alpha", "1"), ONE)
    assert described(hybrid) == [("alpha", commit("1"))]
    (chunk,) = rag_search(PATH, "bananas ripen", 1).unwrap()
    assert (chunk.doc_id, chunk.source) == ("corpus:alpha/docs/b.md", "alpha/docs/b.md")
    assert dict(chunk.metadata) == {"kind": "corpus", "repo_id": "alpha", "commit": commit("1"), "path": "alpha/docs/b.md"}
    assert rag_check(PATH).unwrap().clean


def test_x3_unchanged_files_name_the_new_commit_in_every_read_and_are_not_embedded_again(hybrid: Runtime, embedder: EmbedderDouble) -> None:
    assert switch_to(hybrid, repo("alpha", "1"), ONE)
    asked = embedder.texts
    assert switch_to(hybrid, repo("alpha", "2"), ONE)
    assert embedder.texts == asked
    assert set(metadata().values()) == {commit("2")}
    found = rag_get(PATH, "corpus:alpha/a.md").unwrap()
    assert found.metadata["commit"] == commit("2")
    filtered = rag_query(PATH, "apple", 5, QueryOptions("lexical", metadata={"commit": commit("2")})).unwrap()
    assert [chunk.doc_id for chunk in filtered] == ["corpus:alpha/a.md"]
    assert rag_query(PATH, "apple", 5, QueryOptions(metadata={"commit": commit("1")})).unwrap() == []
    assert rag_check(PATH).unwrap().clean


def test_b4_a_changed_file_has_only_its_new_chunks_and_a_gone_one_has_none(hybrid: Runtime) -> None:
    switch_to(hybrid, repo("alpha", "1"), {**ONE, "c.md": "Cherries. " * 40})
    switch_to(hybrid, repo("alpha", "2"), {"a.md": "# Alpha\n\nThe second quince pie.\n", "c.md": "Short cherry."})
    texts = [chunk.text for chunk in rag_query(PATH, "apple quince bananas cherry cherries", 50, QueryOptions(mode="lexical")).unwrap()]
    assert sorted(texts) == ["# Alpha\n\nThe second quince pie.", "Short cherry."]
    assert isinstance(rag_get(PATH, "corpus:alpha/docs/b.md"), Err)
    assert rag_check(PATH).unwrap().clean


def test_what_is_not_staged_switches_nothing(hybrid: Runtime) -> None:
    switch_to(hybrid, repo("alpha", "1"), ONE)
    before = rag_stats(PATH).unwrap()
    assert not switch_to(hybrid, repo("alpha", "2"), {"a.md": "Brand new words."}, staged=False)
    after = rag_stats(PATH).unwrap()
    assert (described(hybrid), after.content, after.generation) == ([("alpha", commit("1"))], before.content, before.generation)
    assert set(metadata().values()) == {commit("1")}


def test_what_was_staged_and_thrown_away_switches_nothing(hybrid: Runtime) -> None:
    switch_to(hybrid, repo("alpha", "1"), ONE)
    corpuswrite.unstage(hybrid.store, PATH)
    assert not switch_to(hybrid, repo("alpha", "2"), {"a.md": "Brand new words."}, staged=False)
    assert described(hybrid) == [("alpha", commit("1"))]


def test_files_are_counted_by_repository(lexical: Runtime) -> None:
    rag_ingest(PATH, "d", "s", "no file of any repository", 100).unwrap()
    with lexical.store.reading(PATH) as connection:
        assert corpora.files_by_repo(connection) == {}
    switch_to(lexical, repo("alpha", "1"), ONE)
    switch_to(lexical, repo("beta", "1"), {"c.md": "Cherries."}, position=1)
    with lexical.store.reading(PATH) as connection:
        assert corpora.files_by_repo(connection) == {"alpha": 2, "beta": 1}


def test_a_plan_for_another_state_is_refused(hybrid: Runtime) -> None:
    switch_to(hybrid, repo("alpha", "1"), ONE)
    stale = corpuswrite.Switch(corpora.State(), repo("alpha", "3"), "", 0, ())
    with pytest.raises(Failure) as caught:
        corpuswrite.switch(hybrid.store, PATH, stale, None)
    assert caught.value.error.code == "corpus_changed"
    assert described(hybrid) == [("alpha", commit("1"))]


def test_a_document_of_another_origin_is_never_replaced(lexical: Runtime) -> None:
    rag_ingest(PATH, "corpus:alpha/a.md", "mine", "my own words", 100).unwrap()
    with pytest.raises(Failure) as caught:
        switch_to(lexical, repo("alpha", "1"), ONE)
    assert caught.value.error.code == "corpus_conflict"
    assert rag_get(PATH, "corpus:alpha/a.md").unwrap().text == "my own words"
    assert described(lexical) == []


@pytest.mark.parametrize("write", [
    lambda: rag_ingest(PATH, "corpus:alpha/a.md", "x", "other words", 100),
    lambda: rag_delete(PATH, "corpus:alpha/a.md"),
    lambda: rag_ingest_many(PATH, [SourceDocument("fine", "s", "t"), SourceDocument("corpus:alpha/a.md", "x", "other")], 100),
], ids=["ingest", "delete", "many"])
def test_the_ordinary_tools_leave_a_corpus_alone(lexical: Runtime, write: object) -> None:
    switch_to(lexical, repo("alpha", "1"), ONE)
    before = rag_stats(PATH).unwrap().content
    result = write()  # type: ignore[operator]
    assert isinstance(result, Err)
    assert (result.error.code, result.error.fix) == ("corpus_document", "caller")
    assert "corpus:alpha/a.md" in result.error
    assert rag_stats(PATH).unwrap().content == before


def test_a_repository_is_taken_out_whole(hybrid: Runtime) -> None:
    switch_to(hybrid, repo("alpha", "1"), ONE)
    switch_to(hybrid, repo("beta", "2"), {"r.md": "Radishes grow."}, 1)
    assert corpuswrite.remove_repo(hybrid.store, PATH, "alpha") == 2
    assert described(hybrid) == [("beta", commit("2"))]
    assert [chunk.doc_id for chunk in rag_search(PATH, "apple radishes", 9).unwrap()] == ["corpus:beta/r.md"]
    assert rag_check(PATH).unwrap().clean


def test_the_order_is_the_lists(lexical: Runtime) -> None:
    for position, name in enumerate(("alpha", "beta", "gamma")):
        switch_to(lexical, repo(name, "1"), {"r.md": name}, position)
    corpuswrite.arrange(lexical.store, PATH, ["gamma", "missing", "alpha", "beta"])
    assert [name for name, _ in described(lexical)] == ["gamma", "alpha", "beta"]
    generation = rag_stats(PATH).unwrap().generation
    corpuswrite.arrange(lexical.store, PATH, ["gamma", "missing", "alpha", "beta"])
    assert rag_stats(PATH).unwrap().generation == generation


def test_the_content_is_that_of_an_index_that_never_held_anything_else(tmp_path: Path, embedder: EmbedderDouble) -> None:
    digests = []
    for name, states in (("straight", [("2", ONE)]), ("around", [("1", {"a.md": "x", "z.md": "gone"}), ("3", {}), ("2", ONE)])):
        (tmp_path / name).mkdir()
        with Runtime(root=tmp_path / name, embedder=embedder) as runtime:
            for digit, files in states:
                assert switch_to(runtime, repo("alpha", digit), files)
            digests.append(rag_stats(PATH).unwrap().content)
    assert digests[0] == digests[1] != ""


def test_compact_throws_staged_vectors_away_and_keeps_the_corpus(hybrid: Runtime) -> None:
    switch_to(hybrid, repo("alpha", "1"), ONE)
    assert hybrid.embedder is not None
    identity = hybrid.embedder.identity()
    with hybrid.store.reading(PATH) as connection:
        staged = {digest for (digest,) in connection.execute("SELECT digest FROM rag_corpus_staging")}
    assert staged
    assert corpuswrite.missing_vectors(hybrid.store, PATH, identity, staged) == set()
    rag_compact(PATH).unwrap()
    assert corpuswrite.missing_vectors(hybrid.store, PATH, identity, staged) == staged
    assert described(hybrid) == [("alpha", commit("1"))]
    assert rag_check(PATH).unwrap().clean


def test_vectors_staged_by_another_embedder_count_for_nothing(hybrid: Runtime) -> None:
    one, other = EmbedderDouble(model="one"), EmbedderDouble(model="other")
    corpuswrite.stage(hybrid.store, PATH, one.identity(), ["d1"], one.embed(["text"], "passage"))
    assert corpuswrite.missing_vectors(hybrid.store, PATH, one.identity(), ["d1", "d2"]) == {"d2"}
    assert corpuswrite.missing_vectors(hybrid.store, PATH, other.identity(), ["d1"]) == {"d1"}
    corpuswrite.stage(hybrid.store, PATH, other.identity(), ["d3"], other.embed(["text"], "passage"))
    assert corpuswrite.missing_vectors(hybrid.store, PATH, one.identity(), ["d1"]) == {"d1"}
    corpuswrite.unstage(hybrid.store, PATH)
    assert corpuswrite.missing_vectors(hybrid.store, PATH, other.identity(), ["d3"]) == {"d3"}
    corpuswrite.unstage(hybrid.store, PATH)


def test_vectors_of_documents_that_go_are_lent_by_their_texts(hybrid: Runtime) -> None:
    switch_to(hybrid, repo("alpha", "1"), ONE)
    assert hybrid.embedder is not None
    identity = hybrid.embedder.identity()
    moved = new_file(repo("alpha", "2"), "elsewhere.md", ONE["a.md"])
    found = corpuswrite.lendable(hybrid.store, PATH, identity, ["corpus:alpha/a.md"])
    assert found.keys() == moved.prepared.texts.keys()
    lent = corpuswrite.lent(hybrid.store, PATH, identity, found)
    ((digest, text),) = moved.prepared.texts.items()
    assert (lent[digest] == hybrid.embedder.embed([text], "passage")[0]).all()
    assert corpuswrite.lendable(hybrid.store, PATH, EmbedderDouble(model="other").identity(), ["corpus:alpha/a.md"]) == {}


def test_damage_to_the_corpus_is_found(hybrid: Runtime) -> None:
    switch_to(hybrid, repo("alpha", "1"), ONE)
    with hybrid.store.writing(PATH) as connection:
        connection.pragma("foreign_keys", 0)
        corpora.keep_original(connection, "corpus:alpha/a.md", b"bytes")
    with hybrid.store.exclusive(PATH) as connection:
        connection.pragma("foreign_keys", 0)
        connection.execute("UPDATE rag_corpora SET commit_id = ?", (commit("9"),))
        connection.execute("UPDATE rag_corpus_files SET sections = '[]' WHERE doc_id = 'corpus:alpha/a.md'")
        connection.execute("INSERT INTO rag_corpus_files VALUES ('corpus:alpha/lost.md', 'alpha', 'b', '[]'), ('corpus:b/x.md', 'b', 'b', '[]')")
        connection.execute("INSERT INTO rag_originals VALUES ('nobody', 'no digest', x'00')")
    problems = "\n".join(rag_check(PATH).unwrap().problems)
    for words in ("1 originals are kept", "the original of document 'nobody' does not have the stored digest", "does not name its repository and the commit", "'corpus:alpha/lost.md' is not stored",
                  "which is not served"):
        assert words in problems
    with hybrid.store.exclusive(PATH) as connection:
        connection.pragma("foreign_keys", 0)
        connection.execute("UPDATE rag_corpora SET commit_id = ?", (commit("1"),))
    assert "not as many sections" in "\n".join(rag_check(PATH).unwrap().problems)


def test_x4_an_answer_is_wholly_of_one_commit_while_heads_switch(tmp_path: Path, embedder: EmbedderDouble) -> None:
    states = {digit: {f"{name}.md": f"# {name}\n\ncommon words of {name} in state {digit if name < 'c' else 'any'}.\n"
                      for name in "abcdef"} for digit in "12"}
    stop, torn, seen = threading.Event(), [], set()
    with Runtime(root=tmp_path, embedder=embedder) as runtime:
        switch_to(runtime, repo("alpha", "1"), states["1"])

        def ask() -> None:
            with Runtime(root=tmp_path, embedder=EmbedderDouble()):
                while not stop.is_set():
                    chunks = rag_query(PATH, "common words", 20, QueryOptions(mode="lexical")).unwrap()
                    commits = {chunk.metadata["commit"] for chunk in chunks}
                    states_told = {chunk.text.split("state ")[1][0] for chunk in chunks} - {"a"}
                    if len(commits) != 1 or len(chunks) != 6 or states_told != {str(next(iter(commits)))[0]}:
                        torn.append(chunks)
                    seen.update(commits)

        readers = [threading.Thread(target=ask) for _ in range(2)]
        for reader in readers:
            reader.start()
        for turn in range(30):
            assert switch_to(runtime, repo("alpha", "21"[turn % 2]), states["21"[turn % 2]])
        stop.set()
        for reader in readers:
            reader.join()
    assert torn == []
    assert seen == {commit("1"), commit("2")}
