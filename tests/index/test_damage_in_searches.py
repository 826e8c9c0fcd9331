"""Damage in any table a search reads: an answer from memory is never worse than one from the file, and nothing is a defect."""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import Any

import apsw
import pytest
from embedder_double import EmbedderDouble
from search_oracle import MODES, PATH

from rag_stdlib import Config, Err, QueryOptions, Runtime, SourceDocument, rag_delete, rag_ingest_many, rag_query
from rag_stdlib.index import vectors
from rag_stdlib.index.resident.cache import RESIDENTS

DIM = 8
ASKED: list[tuple[str, dict[str, Any]]] = [("alpha beta1", {}), ("gamma", {}), ("alpha beta1", {"doc_id": "d1"}), ("gamma", {"per_document": 1})]
Answers = dict[tuple[Any, ...], Any]
REFUSALS = ("index_corrupt", "vectors_missing", "embedding_mismatch", "index_too_new", "not_an_index")

STATEMENTS = [
    "UPDATE rag_vectors_rowids SET chunk_offset = -1 WHERE rowid = 2",
    "UPDATE rag_vectors_rowids SET chunk_offset = NULL WHERE rowid = 2",
    "UPDATE rag_vectors_rowids SET chunk_id = NULL WHERE rowid = 2",
    "UPDATE rag_vectors_rowids SET chunk_offset = 1000 WHERE rowid = 2",
    "UPDATE rag_vectors_rowids SET rowid = 99 WHERE rowid = 2",
    "DELETE FROM rag_vectors_rowids WHERE rowid = 2", "DELETE FROM rag_vectors_rowids",
    "UPDATE rag_vectors_chunks SET validity = 'abcd'",
    "UPDATE rag_vectors_chunks SET validity = x'00000000'", "UPDATE rag_vectors_chunks SET validity = x'fdffffff'",
    "UPDATE rag_vectors_chunks SET rowids = x''", "UPDATE rag_vectors_chunks SET rowids = 'abc'",
    "DELETE FROM rag_vectors_chunks",
    "UPDATE rag_vectors_chunks SET rowids = CAST(substr(rowids, 1, 8) || substr(rowids, 1, 8) || substr(rowids, 17) AS BLOB)",
    "UPDATE rag_vectors_chunks SET rowids = CAST(substr(rowids, 1, 8) || x'6300000000000000' || substr(rowids, 17) AS BLOB)",
    "DELETE FROM rag_vectors_vector_chunks00", "UPDATE rag_vectors_vector_chunks00 SET vectors = 7",
    "UPDATE rag_vectors_vector_chunks00 SET vectors = CAST(vectors AS TEXT)",
    *("UPDATE rag_vectors_vector_chunks00 "
      f"SET vectors = CAST(substr(vectors, 1, 32) || x'{number}' || substr(vectors, 37) AS BLOB)"
      for number in ("0000c07f", "0000807f", "000080ff", "ffff7f7f")),
    "DELETE FROM rag_lexical_docsize WHERE id = 2", "UPDATE rag_lexical_docsize SET sz = x'05' WHERE id = 2",
    "UPDATE rag_lexical_docsize SET sz = NULL WHERE id = 2",
    "UPDATE rag_lexical_docsize SET sz = x'ffffffffffffffffff03' WHERE id = 2",
    "UPDATE rag_lexical_docsize SET sz = x'' WHERE id = 2", "UPDATE rag_lexical_docsize SET sz = 'x' WHERE id = 2",
    "UPDATE rag_lexical_docsize SET id = 99 WHERE id = 2", "DELETE FROM rag_lexical_data WHERE id = 1",
    "UPDATE rag_lexical_data SET block = x'06ff' WHERE id = 1", "UPDATE rag_lexical_data SET block = x'0619' WHERE id = 1",
    "DELETE FROM rag_lexical_data WHERE id > 10", "DELETE FROM rag_lexical_idx", "DELETE FROM rag_lexical_data WHERE id = 10",
    "DELETE FROM rag_chunks WHERE seq = 2", "UPDATE rag_chunks SET seq = 77 WHERE seq = 2",
    "DELETE FROM rag_documents WHERE id = 'd1'",
    "UPDATE rag_meta SET value = 'x' WHERE key = 'generation'", "UPDATE rag_meta SET value = 7 WHERE key = 'mark'",
    "UPDATE rag_meta SET value = '{' WHERE key = 'embedder'",
    "UPDATE rag_meta SET value = replace(value, '8', '16') WHERE key = 'embedder'",
    "UPDATE rag_meta SET value = 'x' WHERE key = 'last_seq'", "DELETE FROM rag_meta", "DROP TABLE rag_changes",
    "DROP TABLE rag_vectors_rowids", "DROP TABLE rag_vectors_chunks", "DROP TABLE rag_vectors_vector_chunks00",
    "DROP TABLE rag_lexical_docsize", "UPDATE rag_changes SET come_first = come_first + 1",
    "UPDATE rag_changes SET come_count = 0",
    "UPDATE rag_changes SET gone_count = 1000", "UPDATE rag_changes SET gone_first = 'x'",
    "UPDATE rag_changes SET come_count = -5",
    "DELETE FROM rag_changes WHERE generation = 2",
]


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("sound")
    with Runtime(Config(), root=root, embedder=EmbedderDouble(dim=DIM)):
        documents = [SourceDocument(f"d{number}", "s", f"alpha beta{number % 3} gamma" + " delta" * number)
                     for number in range(7)]
        assert rag_ingest_many(PATH, documents, 400).is_ok
        assert rag_delete(PATH, "d6").is_ok
    return root


def answers(root: Path, *, resident: bool) -> Answers:
    """Ask everything; an Err by its code."""
    found: Answers = {}
    with Runtime(Config(), root=root, embedder=EmbedderDouble(dim=DIM), resident=resident):
        for mode in MODES:
            for number, (query, options) in enumerate(ASKED):
                result = rag_query(PATH, query, 5, QueryOptions(mode=mode, **options))  # type: ignore[arg-type]
                found[mode, number] = result.error.code if isinstance(result, Err) else [chunk.to_dict() for chunk in result.value]
    return found


@pytest.fixture(scope="module")
def right(sound: Path) -> Answers:
    """What the sound index answers."""
    return answers(sound, resident=False)


def compare(right: Answers, damaged: Path, what: str) -> None:
    """Hold the answers from memory against those from the file and against those before the damage."""
    from_memory, from_file = answers(damaged, resident=True), answers(damaged, resident=False)
    for key, answer in from_memory.items():
        other = from_file[key]
        assert "internal" not in (answer, other), (what, key, answer, other)
        if isinstance(answer, list):
            assert answer in (right[key], other), (what, key, answer, other)
        else:
            assert answer in REFUSALS, (what, key, answer)


def damage(file: Path, statement: str) -> None:
    connection = apsw.Connection(str(file))
    vectors.load_extension(connection)
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("statement", STATEMENTS)
@pytest.mark.parametrize("asked_before", [True, False])
def test_damage_by_a_statement(sound: Path, right: Answers, tmp_path: Path, statement: str, asked_before: bool) -> None:
    shutil.copy(sound / PATH, tmp_path / PATH)
    if asked_before:
        assert "index_corrupt" not in answers(tmp_path, resident=True).values()
    damage(tmp_path / PATH, statement)
    compare(right, tmp_path, statement)


JOURNAL = [
    "come_first = come_first + 1", "come_first = come_first - 1", "come_count = come_count + 1", "come_count = 0",
    "come_count = -5", "come_first = 'x'",
    "come_first = 1.5", "come_count = 9000000000000000000", "gone_first = 1, gone_count = 1",
    "gone_first = 1, gone_count = 1, come_count = come_count + 1",
    "gone_first = 'x', gone_count = 1", "gone_count = -1", "gone_count = 0",
    "gone_first = -9000000000000000000, gone_count = 9000000000000000000", "follows = 'x'",
    "generation = generation + 1", "come_first = 1", "come_first = 2, come_count = 1",
    "gone_first = 3, gone_count = 2, come_count = come_count + 2"]


@pytest.mark.parametrize("change", JOURNAL)
def test_a_damaged_journal_brings_nothing_up_to_a_wrong_date(sound: Path, tmp_path: Path, change: str) -> None:
    shutil.copy(sound / PATH, tmp_path / PATH)
    answers(tmp_path, resident=True)
    with Runtime(Config(), root=tmp_path, embedder=EmbedderDouble(dim=DIM)):
        documents = [SourceDocument("new", "s", "alpha beta1 new"), SourceDocument("d2", "s", "gamma")]
        assert rag_ingest_many(PATH, documents, 400).is_ok
    right = answers(tmp_path, resident=False)
    connection = apsw.Connection(str(tmp_path / PATH))
    connection.execute(f"UPDATE rag_changes SET {change} WHERE generation = (SELECT max(generation) FROM rag_changes)")
    connection.close()
    assert answers(tmp_path, resident=True) == right
    assert answers(tmp_path, resident=False) == right


BLOBS = [("rag_vectors_chunks", "validity", "chunk_id"), ("rag_vectors_chunks", "rowids", "chunk_id"),
         ("rag_lexical_docsize", "sz", "id"), ("rag_lexical_data", "block", "id")]


@pytest.mark.parametrize(("table", "column", "key"), BLOBS)
@pytest.mark.parametrize("seed", range(6))
def test_flipped_bits(sound: Path, right: Answers, tmp_path: Path, table: str, column: str, key: str, seed: int) -> None:
    rng = random.Random(f"{table}{column}{seed}")
    for turn in range(4):
        root = tmp_path / str(turn)
        root.mkdir()
        shutil.copy(sound / PATH, root / PATH)
        connection = apsw.Connection(str(root / PATH))
        found: list[Any] = connection.execute(f"SELECT {key}, {column} FROM {table} WHERE length({column}) > 0").fetchall()
        row, value = rng.choice(found)
        flipped = bytearray(value)
        at = rng.randrange(len(flipped) if len(flipped) < 200 or column != "rowids" else 7 * 8)
        flipped[at] ^= 1 << rng.randrange(8)
        connection.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (bytes(flipped), row))
        connection.close()
        compare(right, root, f"{table}.{column} of {row}, byte {at}: {value[at]} -> {flipped[at]}")


@pytest.mark.parametrize("seed", range(25))
def test_flipped_bits_anywhere_in_the_file(sound: Path, tmp_path: Path, seed: int) -> None:
    """What SQLite itself finds, or nobody can: at least no exception, and no defect."""
    rng = random.Random(seed)
    shutil.copy(sound / PATH, tmp_path / PATH)
    data = bytearray((tmp_path / PATH).read_bytes())
    data[rng.randrange(100, len(data))] ^= 1 << rng.randrange(8)
    (tmp_path / PATH).write_bytes(data)
    for resident in (True, False):
        RESIDENTS.clear()
        assert "internal" not in answers(tmp_path, resident=resident).values()
