"""The right edge of a tree tells its root, and grows as the tree does."""

from __future__ import annotations

import pytest
from log_trees import Leaves, audit_path, entries, tree_hash

from rag_stdlib.proof.log.frontier import Frontier
from rag_stdlib.proof.log.merkle import leaf_hash


def test_an_edge_that_grows_has_the_root_of_every_size_and_makes_every_complete_subtree_once() -> None:
    data, edge = entries(70), Frontier()
    made: dict[tuple[int, int], bytes] = {}
    for size, entry in enumerate(data):
        assert edge.root() == tree_hash(data[:size])
        assert list(reversed(edge.hashes)) == audit_path(size, data[:size + 1])
        for level, index, value in edge.push(leaf_hash(entry)):
            assert made.setdefault((level, index), value) == tree_hash(data[index << level:index + 1 << level])
    assert edge.size == 70
    assert sorted(made) == [(level, index) for level in range(7) for index in range(70 >> level)]


@pytest.mark.parametrize("size", range(20))
def test_an_edge_is_read_from_a_tree_of_any_size(size: int) -> None:
    data = entries(40)
    edge = Frontier.of(size, Leaves(data))
    for entry in data[size:]:
        edge.push(leaf_hash(entry))
    assert edge.root() == tree_hash(data)
    again = Frontier(edge.size, edge.hashes)
    assert again.root() == edge.root()


@pytest.mark.parametrize(("size", "count"), [(0, 1), (1, 0), (3, 1), (4, 2), (-1, 1), (-4, 1)])
def test_what_is_no_edge_of_such_a_tree_is_refused(size: int, count: int) -> None:
    with pytest.raises(ValueError, match="are no edge"):
        Frontier(size, [b"\0" * 32] * count)
