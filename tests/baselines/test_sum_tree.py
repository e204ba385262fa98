"""The sum tree against hand-worked numbers, a plain array, and its own rebuilt self."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from guidebench.baselines import sum_tree
from guidebench.baselines.sum_tree import MaxSumTree, SumTree
from guidebench.harness.interfaces import Span
from tests.refusals import check_refused


def test_mass_falls_into_the_slot_whose_share_holds_it() -> None:
    tree = SumTree(1, 5)
    tree.set(np.array([[0, 1, 3]]), np.array([[1.0, 2.0, 4.0]]))
    assert tree.total.tolist() == [7.0]
    # Laid end to end: slot 0 holds [0, 1), slot 1 [1, 3), slot 3 [3, 7); slots 2 and 4 nothing.
    mass = np.array([[0.0, 0.5, 1.0, 2.9, 3.0, 6.9]])
    assert tree.find(mass).tolist() == [[0, 0, 1, 1, 3, 3]]


@pytest.mark.parametrize("size", [4_096, 60_000, 1_000_000])
def test_slots_are_those_that_a_search_of_the_running_sum_finds(size: int) -> None:
    """Whole priorities, so that sums are exact, in trees without a level of blocks, with one and with two."""
    rng = np.random.default_rng(size)
    leaves = rng.integers(0, 9, size).astype(float)
    tree = SumTree(1, size)
    tree.load_leaves(0, leaves)
    mass = rng.random((1, 2000)) * leaves.sum()
    assert np.array_equal(tree.find(mass)[0], np.cumsum(leaves).searchsorted(mass[0], side="right"))


@pytest.mark.parametrize("size", [1, 16, 300, 5000, 70_000])
def test_mass_at_the_very_edge_never_finds_an_empty_slot(size: int) -> None:
    rng = np.random.default_rng(size)
    tree = SumTree(2, size)
    leaves = rng.random(size) * 10.0 ** rng.integers(-9, 9, size)
    leaves[rng.random(size) < 0.7] = 0.0
    leaves[size // 3] = 0.1
    leaves[size // 2 + 1 :] = 0.0
    tree.load_leaves(0, leaves)
    tree.load_leaves(1, leaves[::-1].copy())
    edges = np.cumsum(leaves)
    mass = np.concatenate([np.nextafter(edges, 0), edges, np.nextafter(edges, np.inf)])[None].repeat(2, axis=0)
    mass = np.minimum(mass, np.nextafter(tree.total, 0)[:, None])
    # Beyond the contract: even masses at and above the total land on a slot that can be drawn.
    mass = np.concatenate([mass, tree.total[:, None], tree.total[:, None] * 1.5], axis=1)
    assert (tree.get(tree.find(mass)) > 0).all()


def test_an_all_zero_row_beside_a_filled_one_does_no_harm() -> None:
    tree = SumTree(2, 5000)
    tree.set_row(1, np.array([4999]), 2.0)
    assert tree.total.tolist() == [0.0, 2.0]
    assert tree.find(np.array([[0.0], [1.0]]))[1].tolist() == [4999]


def test_storing_into_a_full_ring_lets_the_oldest_go() -> None:
    tree = SumTree(1, 4)
    for written, live in enumerate([Span(0, 1, 4), Span(0, 2, 4), Span(1, 2, 4), Span(2, 2, 4), Span(3, 2, 4)], 1):
        tree.store((written - 1) % 4, float(written), live)
    # Capacity 2 of 4 slots: the fourth and fifth transitions are live, in slots 3 and 0.
    assert tree.leaves(0).tolist() == [5.0, 0.0, 0.0, 4.0]


def test_storing_into_a_ring_without_slack_keeps_the_new_one() -> None:
    tree = SumTree(1, 2)
    for index, live in [(0, Span(0, 1, 2)), (1, Span(0, 2, 2)), (0, Span(1, 2, 2))]:
        tree.store(index, index + 1.0, live)
    assert tree.leaves(0).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("size", [40, 5000, 70_000])
def test_a_rebuilt_tree_has_the_same_bits(size: int) -> None:
    rng = np.random.default_rng(0)
    grown, rebuilt = SumTree(2, size), SumTree(1, size)
    for _ in range(50):
        grown.set(rng.integers(size, size=(2, 64)), rng.random((2, 64)) * 10.0 ** rng.integers(-6, 6, (2, 64)))
        grown.set_all_rows(int(rng.integers(size)), rng.random(2))
        grown.set_row(1, rng.integers(size, size=5), rng.random(5))
    rebuilt.load_leaves(0, grown.leaves(1))
    assert np.array_equal(grown._nodes[1], rebuilt._nodes[0])


def test_sums_do_not_drift() -> None:
    tree = SumTree(1, 5000)
    rng = np.random.default_rng(0)
    for _ in range(200):
        tree.set(rng.integers(5000, size=(1, 256)), rng.random((1, 256)) * 1e12)
    tree.set(np.arange(5000)[None], np.ones((1, 5000)))
    assert tree.total.tolist() == [5000.0]


@pytest.mark.parametrize("size", [40, 70_000])
def test_a_row_finds_the_same_slots_alone_and_beside_others(size: int) -> None:
    rng = np.random.default_rng(1)
    leaves, shares = rng.random((3, size)) ** 8, rng.random((3, 50))
    together, alone = SumTree(3, size), SumTree(1, size)
    for row in range(3):
        together.load_leaves(row, leaves[row])
    slots = together.find(shares * together.total[:, None])
    for row in range(3):
        alone.load_leaves(0, leaves[row])
        assert alone.total[0] == together.total[row]
        assert np.array_equal(alone.find(shares[row : row + 1] * alone.total[:, None])[0], slots[row])


@pytest.mark.parametrize("size", [1, 15, 17, 5000])
def test_leaves_of_another_size_are_refused(size: int) -> None:
    check_refused(f"{size} slots", SumTree(1, size).load_leaves, 0, np.zeros(16))
    check_refused("at least 1", SumTree, 0, size)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    size=st.integers(1, 700),
    top=st.sampled_from([16, 64, 4096]),
    seed=st.integers(0, 2**16),
    writes=st.lists(st.integers(1, 40), min_size=1, max_size=6),
)
def test_it_behaves_as_a_plain_array(size: int, top: int, seed: int, writes: list[int]) -> None:
    """Small top levels give every depth of tree; priorities are whole numbers, so that sums are exact."""
    rng = np.random.default_rng(seed)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sum_tree, "TOP", top)
        tree = SumTree(2, size)
    plain = np.zeros((2, size))
    for count in writes:
        index, priority = rng.integers(size, size=(2, count)), rng.integers(0, 9, (2, count)).astype(float)
        tree.set(index, priority)
        for row in range(2):
            for slot, value in zip(index[row], priority[row], strict=True):
                plain[row, slot] = value
        slot = int(rng.integers(size))
        tree.set_all_rows(slot, 3.0)
        plain[:, slot] = 3.0
    assert np.array_equal(tree.total, plain.sum(axis=1))
    assert np.array_equal(tree.leaves(1), plain[1])
    mass = rng.random((2, 30)) * tree.total[:, None]
    expected = [np.cumsum(plain[row]).searchsorted(mass[row], side="right") for row in range(2)]
    assert np.array_equal(tree.find(mass), expected)


def test_the_largest_priority_follows_every_change() -> None:
    tree, rng = MaxSumTree(2, 700), np.random.default_rng(0)
    plain = np.zeros((2, 700))
    for _ in range(200):
        index = rng.integers(700, size=(2, 8))
        priority = rng.random((2, 8)) * rng.integers(0, 2, (2, 8))
        tree.set(index, priority)
        for row in range(2):
            for slot, value in zip(index[row], priority[row], strict=True):
                plain[row, slot] = value
        slot = int(rng.integers(700))
        tree.set_all_rows(slot, 0.0)
        plain[:, slot] = 0.0
        tree.set_row(1, index[0], 0.25)
        plain[1, index[0]] = 0.25
        assert tree.largest.tolist() == plain.max(axis=1).tolist()
    restored = MaxSumTree(2, 700)
    restored.load_leaves(0, tree.leaves(1))
    assert restored.largest.tolist() == [plain[1].max(), 0.0]
