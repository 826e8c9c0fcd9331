"""RFC 6962 and RFC 9162 trees: others' vectors, every proof of every small size, and every mutation of them."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_trees import Leaves, audit_path, entries, subproof, tree_hash

from rag_stdlib.proof.log import merkle
from rag_stdlib.proof.log.errors import ProofError

VECTORS = Path(__file__).parents[4] / "shared" / "vectors" / "merkle"
needs_vectors = pytest.mark.skipif(not VECTORS.is_dir(), reason="the vectors of transparency-dev are not beside this project")
MOST = 33  # entries of the trees that are gone through whole
OTHER = b"\x5a" * 32


def cases(kind: str) -> list[Path]:
    return sorted((VECTORS / kind).rglob("*.json"))


def decoded(texts: Sequence[str] | None) -> list[bytes]:
    return [base64.b64decode(text) for text in texts or ()]


def holds(code: str, check: Callable[[], None]) -> bool:
    try:
        check()
    except ProofError as error:
        found = error.code
    else:
        return True
    assert found == code
    return False


def included(leaf: Any, index: Any, size: Any, path: Any, root: Any) -> bool:
    return holds("inclusion_invalid", lambda: merkle.verify_inclusion(leaf, index, size, path, root))


def consistent(old_size: Any, old_root: Any, new_size: Any, new_root: Any, path: Any) -> bool:
    return holds("consistency_invalid", lambda: merkle.verify_consistency(old_size, old_root, new_size, new_root, path))


@needs_vectors
def test_the_vectors_are_all_there() -> None:
    assert (len(cases("inclusion")), len(cases("consistency"))) == (98, 98)


@needs_vectors
@pytest.mark.parametrize("file", cases("inclusion"), ids=lambda file: str(file.relative_to(VECTORS)))
def test_inclusion_as_transparency_dev_has_it(file: Path) -> None:
    case = json.loads(file.read_text())
    leaf, root = decoded([case["leafHash"], case["root"]])
    assert included(leaf, case["leafIdx"], case["treeSize"], decoded(case["proof"]), root) is not case["wantErr"]


@needs_vectors
@pytest.mark.parametrize("file", cases("consistency"), ids=lambda file: str(file.relative_to(VECTORS)))
def test_consistency_as_transparency_dev_has_it(file: Path) -> None:
    case = json.loads(file.read_text())
    old, new = decoded([case["root1"], case["root2"]])
    assert consistent(case["size1"], old, case["size2"], new, decoded(case["proof"])) is not case["wantErr"]


@pytest.mark.parametrize("size", range(MOST + 1))
def test_roots_and_proofs_are_those_of_the_rfc(size: int) -> None:
    data = entries(size)
    source = Leaves(data)
    assert merkle.root(size, source) == tree_hash(data)
    for index in range(size):
        assert merkle.inclusion_path(index, size, source) == audit_path(index, data)
    for old in range(1, size + 1):
        assert merkle.consistency_path(old, size, source) == subproof(old, data)
    assert merkle.consistency_path(0, size, source) == []


def path_mutations(path: list[bytes]) -> list[list[bytes]]:
    found = [[*path, OTHER], [OTHER, *path], [*path, b""], [*path, *path, OTHER]]
    for place, value in enumerate(path):
        found += [path[:place] + path[place + 1:], [*path[:place], OTHER, *path[place + 1:]], [*path[:place], value, *path[place:]],
                  [*path[:place], value[:31], *path[place + 1:]], [*path[:place], value + b"\0", *path[place + 1:]]]
        if place:
            found.append([*path[:place - 1], value, path[place - 1], *path[place + 1:]])
    return [mutation for mutation in found if mutation != path]


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 9, 16, 21, MOST])
def test_every_inclusion_verifies_and_no_mutation_does(size: int) -> None:
    data = entries(size)
    root, source = tree_hash(data), Leaves(data)
    for index in range(size):
        leaf, path = merkle.leaf_hash(data[index]), merkle.inclusion_path(index, size, source)
        assert included(leaf, index, size, path, root)
        assert [place for place in range(-1, 2 * size + 2) if included(leaf, place, size, path, root)] == [index]
        assert not included(leaf, index, size, path, OTHER)
        assert not included(OTHER, index, size, path, root)
        assert not any(included(leaf, index, size, mutation, root) for mutation in path_mutations(path))


@pytest.mark.parametrize("new", [1, 2, 3, 4, 6, 7, 8, 13, 16, 17, MOST])
def test_every_consistency_verifies_and_no_mutation_does(new: int) -> None:
    data = entries(new)
    source, roots = Leaves(data), [tree_hash(data[:size]) for size in range(new + 1)]
    for old in range(1, new + 1):
        path = merkle.consistency_path(old, new, source)
        assert consistent(old, roots[old], new, roots[new], path)
        others = {size for size in range(-1, 2 * new + 2) if consistent(size, roots[old], new, roots[new], path)}
        assert others == {old}
        assert not consistent(old, OTHER, new, roots[new], path)
        assert not consistent(old, roots[old], new, OTHER, path)
        assert not consistent(new, roots[new], old, roots[old], path) or old == new
        assert not any(consistent(old, roots[old], new, roots[new], mutation) for mutation in path_mutations(path))


def test_the_size_of_the_tree_is_bound_as_far_as_its_shape_is() -> None:
    """A path and a root fit the sizes whose path from this leaf is alike; a signed size is what binds the rest."""
    data = entries(8)
    path = merkle.inclusion_path(7, 8, Leaves(data))
    assert [size for size in range(40) if included(merkle.leaf_hash(data[7]), 7, size, path, tree_hash(data))] == [8]
    zero = merkle.inclusion_path(0, 8, Leaves(data))
    assert [size for size in range(40) if included(merkle.leaf_hash(data[0]), 0, size, zero, tree_hash(data))] == [5, 6, 7, 8]


def test_r146_r148_r149_small_trees() -> None:
    leaf = merkle.leaf_hash(b"only")
    assert included(leaf, 0, 1, [], leaf)
    assert not included(leaf, 0, 0, [], leaf)
    assert not included(leaf, 0, 0, [], merkle.EMPTY_ROOT)
    assert consistent(0, merkle.EMPTY_ROOT, 1, leaf, [])
    assert consistent(0, merkle.EMPTY_ROOT, 0, merkle.EMPTY_ROOT, [])
    assert not consistent(0, leaf, 1, leaf, [])
    assert not consistent(0, merkle.EMPTY_ROOT, 1, leaf, [leaf])
    assert not consistent(0, merkle.EMPTY_ROOT, 1, leaf[:31], [])
    assert not consistent(1, leaf, 0, merkle.EMPTY_ROOT, [])
    assert not consistent(1, leaf, 1, leaf, [leaf])


def test_r150_a_node_is_no_leaf_and_nothing_is_doubled() -> None:
    one, two = merkle.leaf_hash(b"a"), merkle.leaf_hash(b"b")
    assert merkle.leaf_hash(one + two) != merkle.node_hash(one, two)
    assert tree_hash([b"a", b"b", b"b"]) == merkle.node_hash(merkle.node_hash(one, two), two)


@pytest.mark.parametrize("number", [True, 1.0, "1", None, -1, 2**63, 2**64 - 1])
def test_numbers_that_no_log_has_are_refused(number: Any) -> None:
    leaf = merkle.leaf_hash(b"x")
    assert not included(leaf, number, 4, [leaf, leaf], leaf)
    assert not included(leaf, 0, number, [], leaf)
    assert not consistent(number, leaf, 4, leaf, [leaf, leaf])
    assert not consistent(1, leaf, number, leaf, [])


@pytest.mark.parametrize("value", [None, "a" * 32, bytearray(32), b"", b"\0" * 31, b"\0" * 33])
def test_hashes_of_another_type_or_length_are_refused(value: Any) -> None:
    leaf = merkle.leaf_hash(b"x")
    assert not included(value, 0, 1, [], value)
    assert not included(leaf, 0, 2, [value], leaf)
    assert not consistent(1, leaf, 2, leaf, [value])
    assert not consistent(1, value, 2, leaf, [leaf])


def test_a_path_beyond_every_tree_is_refused_before_it_is_read() -> None:
    class Endless(list[bytes]):
        def __len__(self) -> int:
            return 10**12

        def __iter__(self) -> Any:
            raise AssertionError

    assert not included(OTHER, 0, merkle.MAX_SIZE, Endless(), OTHER)
    assert not consistent(1, OTHER, merkle.MAX_SIZE, OTHER, Endless())


@pytest.mark.parametrize(("index", "size"), [(0, 0), (3, 3), (-1, 3)])
def test_there_is_no_path_to_an_entry_beyond_the_tree(index: int, size: int) -> None:
    with pytest.raises(ValueError, match="has none at"):
        merkle.inclusion_path(index, size, Leaves(entries(8)))


def test_there_is_no_path_back() -> None:
    with pytest.raises(ValueError, match="does not continue"):
        merkle.consistency_path(4, 3, Leaves(entries(8)))


class Numbered:
    """A source over a tree of any size, whose hashes say where they stand."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def hash_at(self, level: int, index: int) -> bytes:
        self.asked.append((level, index))
        return merkle.leaf_hash(f"{level}/{index}".encode())


@given(st.integers(1, merkle.MAX_SIZE), st.data())
def test_proofs_in_huge_trees_are_short_and_ask_for_few_hashes_of_complete_subtrees(size: int, data: st.DataObject) -> None:
    index, source = data.draw(st.integers(0, size - 1)), Numbered()
    path = merkle.inclusion_path(index, size, source)
    height = (size - 1).bit_length()
    assert len(path) <= height
    assert len(source.asked) <= 2 * height
    assert all(place + 1 << level <= size for level, place in source.asked)
    old = data.draw(st.integers(0, size))
    proof = merkle.consistency_path(old, size, source)
    assert len(proof) <= min(height + 1, merkle.MAX_PATH)


@given(st.integers(1, 2**20), st.data())
def test_large_proofs_verify_and_fail_when_a_bit_turns(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    leaf, source = merkle.leaf_hash(f"0/{index}".encode()), Hashed()
    path, root = merkle.inclusion_path(index, size, source), merkle.root(size, source)
    leaf = source.hash_at(0, index)
    assert included(leaf, index, size, path, root)
    if path:
        place, bit = data.draw(st.integers(0, len(path) - 1)), data.draw(st.integers(0, 255))
        turned = (int.from_bytes(path[place], "big") ^ 1 << bit).to_bytes(32, "big")
        assert not included(leaf, index, size, [*path[:place], turned, *path[place + 1:]], root)
    old = data.draw(st.integers(1, size))
    proof = merkle.consistency_path(old, size, source)
    assert consistent(old, merkle.root(old, source), size, root, proof)


class Hashed:
    """The tree in which every leaf is alike, so that a complete subtree has one hash a level."""

    def __init__(self) -> None:
        self.levels = [merkle.leaf_hash(b"same")]
        for _ in range(63):
            self.levels.append(merkle.node_hash(self.levels[-1], self.levels[-1]))

    def hash_at(self, level: int, index: int) -> bytes:
        assert index >= 0
        return self.levels[level]


@given(st.binary(max_size=40), st.integers(), st.integers(), st.lists(st.binary(max_size=33), max_size=70), st.binary(max_size=33))
def test_anything_at_all_raises_nothing_else(leaf: bytes, one: int, other: int, path: list[bytes], root: bytes) -> None:
    assert not included(leaf, one, other, path, root) or (leaf == root and (one, other) == (0, 1))
    assert not consistent(one, leaf, other, root, path) or one in (0, other)


def told(old_size: int, old: Sequence[bytes], new: Sequence[bytes], path: list[bytes]) -> merkle.Compared:
    """Compare the signed roots of the first `old_size` of the entries `old`, and of all of `new`."""
    return merkle.compare(old_size, tree_hash(old[:old_size]), len(new), tree_hash(new), path)


@pytest.mark.parametrize("new", range(1, MOST + 1))
def test_a_log_that_goes_on_is_told_from_one_that_forked_at_any_entry(new: int) -> None:
    data = entries(new)
    forks = {at: [*data[:at], b"other", *data[at + 1:]] for at in range(new)}
    for old in range(1, new + 1):
        assert told(old, data, data, merkle.comparison_path(old, new, Leaves(data))) == "continued"
        assert told(old, data, data, merkle.consistency_path(old, new, Leaves(data))) == "continued"
        for at in {0, old // 2, old - 1}:
            assert told(old, data, forks[at], merkle.comparison_path(old, new, Leaves(forks[at]))) == "another"
            shorter = told(old, data, forks[at], merkle.consistency_path(old, new, Leaves(forks[at])))
            assert shorter == ("not_shown" if old < new and old.bit_count() == 1 else "another")
            if old < new:
                assert told(old, data, forks[at], merkle.comparison_path(old, new, Leaves(data))) == "not_shown", "the hashes are not those of the signed tree"
        if old < new:
            assert told(old, data, forks[old], merkle.comparison_path(old, new, Leaves(forks[old]))) == "continued", "it is another behind the old tree"


@pytest.mark.parametrize("new", [1, 2, 3, 4, 6, 7, 8, 13, 16, 17, MOST])
def test_no_mutation_of_a_path_makes_a_fork_of_an_honest_log_or_an_honest_one_of_a_fork(new: int) -> None:
    data = entries(new)
    fork = [b"other", *data[1:]]
    for old in range(1, new + 1):
        for shown in (data, fork):
            for whole in (merkle.comparison_path, merkle.consistency_path):
                for path in path_mutations(whole(old, new, Leaves(shown))):
                    assert told(old, data, data, path) != "another"
                    assert told(old, data, fork, path) != "continued"


@given(st.integers(1, 300), st.data())
def test_whatever_is_served_an_honest_log_is_never_another(new: int, data: st.DataObject) -> None:
    old, honest = data.draw(st.integers(0, new)), entries(new)
    real = merkle.comparison_path(old, new, Leaves(honest))
    hashes = st.one_of(st.binary(min_size=32, max_size=32), st.sampled_from([*real, tree_hash(honest), tree_hash(honest[:old]), *map(merkle.leaf_hash, honest[:3])]))
    path = data.draw(st.lists(hashes, min_size=max(0, len(real) - 2), max_size=len(real) + 2))
    assert told(old, honest, honest, path) != "another"
    if real:
        place, bit = data.draw(st.integers(0, len(real) - 1)), data.draw(st.integers(0, 255))
        turned = [*real[:place], (int.from_bytes(real[place], "big") ^ 1 << bit).to_bytes(32, "big"), *real[place + 1:]]
        assert told(old, honest, honest, turned) == "not_shown"


@given(st.integers(1, 300), st.data())
def test_a_fork_is_always_another_by_its_true_hashes_and_goes_on_by_none(new: int, data: st.DataObject) -> None:
    old, honest = data.draw(st.integers(1, new)), entries(new)
    at, change = data.draw(st.integers(0, old - 1)), data.draw(st.sampled_from(["changed", "dropped", "inserted"]))
    forked = {"changed": [*honest[:at], b"other", *honest[at + 1:]], "dropped": [*honest[:at], *honest[at + 1:], b"last"],
              "inserted": [*honest[:at], b"other", *honest[at:-1]]}[change]
    real = merkle.comparison_path(old, new, Leaves(forked))
    assert told(old, honest, forked, real) == "another"
    hashes = st.one_of(st.binary(min_size=32, max_size=32), st.sampled_from([*real, *merkle.comparison_path(old, new, Leaves(honest)), OTHER]))
    assert told(old, honest, forked, data.draw(st.lists(hashes, max_size=len(real) + 2))) != "continued"


def test_what_no_log_can_have_shows_nothing() -> None:
    one, two = merkle.leaf_hash(b"a"), merkle.leaf_hash(b"b")
    assert merkle.compare(0, merkle.EMPTY_ROOT, 5, one, []) == "continued"
    assert merkle.compare(3, one, 3, two, [b"garbage"]) == "another", "two signed trees of one size need no path"
    for numbers in ((-1, 3), (3, -1), (True, True), (1, 2**63), (5, 3), ("1", 1), (3, None)):
        assert merkle.compare(numbers[0], one, numbers[1], two, [one]) == "not_shown"  # type: ignore[arg-type]
    for roots in ((b"", two), (one, b"x" * 31), (None, two), (bytearray(32), two)):
        assert merkle.compare(3, roots[0], 3, roots[1], []) == "not_shown"  # type: ignore[arg-type]
    for path in ([], [b""], [one, b"x"], [one] * 65, [None]):
        assert merkle.compare(1, one, 2, two, path) == "not_shown"  # type: ignore[arg-type]
    assert merkle.compare(0, merkle.EMPTY_ROOT, 0, merkle.EMPTY_ROOT, [one]) == "not_shown"
    assert merkle.compare(0, merkle.EMPTY_ROOT, 2, two, [one]) == "not_shown"


@needs_vectors
@pytest.mark.parametrize("file", cases("consistency"), ids=lambda file: str(file.relative_to(VECTORS)))
def test_what_transparency_dev_accepts_goes_on_and_nothing_else_does(file: Path) -> None:
    case = json.loads(file.read_text())
    (old, new), path = decoded([case["root1"], case["root2"]]), decoded(case["proof"])
    preceded = file.stem == "preceding-root1" and case["size1"].bit_count() == 1  # as a path of comparison is, where one of consistency leaves that root out
    assert (merkle.compare(case["size1"], old, case["size2"], new, path) == "continued") is (preceded or not case["wantErr"])


@given(st.integers(1, merkle.MAX_SIZE), st.data())
def test_a_path_of_comparison_is_one_of_consistency_with_what_that_leaves_out(size: int, data: st.DataObject) -> None:
    old, source = data.draw(st.one_of(st.integers(0, size), st.integers(0, size.bit_length() - 1).map(lambda bit: 1 << bit))), Numbered()
    path = merkle.consistency_path(old, size, source)
    left_out = 0 < old < size and old.bit_count() == 1
    assert merkle.comparison_path(old, size, source) == ([merkle.root(old, source), *path] if left_out else path)
    assert len(path) + left_out <= merkle.MAX_PATH
