import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from guidebench.harness.models.backends.transformers_.batching import ON_CPU, ON_GPU, Batcher, Done, fitting
from guidebench.harness.models.calls import Failure

CPU = torch.device("cpu")


class Squares:
    """A computation that squares numbers, records its batches, and fits `room` numbers into memory at a time."""

    def __init__(self, room: int = 1000) -> None:
        self.room, self.batches = room, list[list[int]]()

    def __call__(self, numbers: Sequence[int]) -> list[Any]:
        assert torch.is_inference_mode_enabled()
        self.batches.append(list(numbers))
        if len(numbers) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return [number * number for number in numbers]


def answers(batcher: Batcher, compute: Any, numbers: Sequence[int], kinds: Sequence[str] | None = None) -> list[Any]:
    async def ask() -> list[Any]:
        names = kinds or ["square"] * len(numbers)
        calls = [batcher.put(kind, compute, number) for kind, number in zip(names, numbers, strict=True)]
        return await asyncio.gather(*calls, return_exceptions=True)

    return [outcome.value if isinstance(outcome, Done) else outcome for outcome in asyncio.run(ask())]


def test_what_waits_is_computed_together_in_order_up_to_the_batch_size() -> None:
    squares = Squares()
    assert answers(Batcher(4, CPU), squares, range(10)) == [n * n for n in range(10)]
    assert squares.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 9, 9]]


def test_every_batch_has_the_same_size_whatever_waits_unless_its_items_are_computed_one_by_one() -> None:
    squares, batcher = Squares(), Batcher(4, CPU)
    assert answers(batcher, squares, [5]) == [25] and answers(batcher, squares, [5, 6, 7]) == [25, 36, 49]
    assert squares.batches == [[5, 5, 5, 5], [5, 6, 7, 7]]

    async def ask() -> Done:
        return await batcher.put("square", squares, 8, filled=False)

    assert asyncio.run(ask()).value == 64 and squares.batches[-1] == [8]


def test_only_items_of_one_kind_are_computed_together() -> None:
    squares = Squares()
    assert answers(Batcher(4, CPU), squares, [1, 2, 3, 4], ["a", "b", "a", "b"]) == [1, 4, 9, 16]
    assert squares.batches == [[1, 3, 3, 3], [2, 4, 4, 4]]


def test_out_of_memory_halves_the_batch_and_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    squares = Squares(room=3)
    batcher = Batcher(16, CPU)
    assert answers(batcher, squares, range(16)) == [n * n for n in range(16)]
    assert [len(batch) for batch in squares.batches] == [16, 8, 4, 2, 2, 2, 2, 2, 2, 2, 2]
    assert answers(batcher, squares, range(4)) == [0, 1, 4, 9], "the size found is kept"
    assert [len(batch) for batch in squares.batches[-2:]] == [2, 2]
    assert "batches of 4 do not fit into memory; from here on they have 2" in capsys.readouterr().err


def test_an_item_that_does_not_fit_alone_is_a_failure_of_its_own() -> None:
    def compute(numbers: Sequence[int]) -> list[int]:
        if 3 in numbers:
            raise RuntimeError(
                "[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes"
            )
        return list(numbers)

    outcomes = answers(Batcher(4, CPU), compute, [1, 2, 3, 4])
    assert outcomes[:2] == [1, 2] and outcomes[3] == 4
    assert isinstance(outcomes[2], Failure) and outcomes[2].kind == "memory"


def test_a_failure_of_one_item_leaves_the_others() -> None:
    def compute(numbers: Sequence[int]) -> list[Any]:
        return [Failure("malformed", "not a number") if number == 2 else number for number in numbers]

    outcomes = answers(Batcher(4, CPU), compute, [1, 2, 3])
    assert outcomes[0] == 1 and outcomes[2] == 3
    assert isinstance(outcomes[1], Failure) and outcomes[1].kind == "malformed" and outcomes[1].usage.seconds > 0


def test_a_fault_of_the_code_reaches_who_asked_and_the_next_are_answered() -> None:
    def compute(numbers: Sequence[int]) -> list[int]:
        if 1 in numbers:
            raise ZeroDivisionError("by hand")
        return list(numbers)

    batcher = Batcher(2, CPU)
    outcomes = answers(batcher, compute, [1, 2, 3])
    assert [type(value) for value in outcomes[:2]] == [ZeroDivisionError] * 2 and outcomes[2] == 3
    assert answers(batcher, compute, [4]) == [4]


def test_what_nobody_waits_for_any_more_is_not_computed() -> None:
    squares = Squares()

    async def ask() -> None:
        batcher = Batcher(1, CPU)
        tasks = [asyncio.create_task(batcher.put("square", squares, number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(ask())
    assert squares.batches == [[0], [2]]


def test_on_a_cpu_memory_is_not_asked() -> None:
    squares = Squares()
    answers(Batcher(None, CPU), squares, range(ON_CPU + 1))
    assert squares.batches == [[0, 1, 2, 3], [4] * ON_CPU]


@pytest.mark.parametrize(
    ("one", "two", "free", "size"),
    [
        (10, 20, 1000, ON_GPU),
        (10, 20, 99, 4),
        (6, 10, 36, 4),
        (10, 20, 5, 1),
        (10, 10, 100, ON_GPU),
        (100, 200, 100, 1),
    ],
)
def test_what_fits_follows_from_what_one_and_two_took(one: int, two: int, free: int, size: int) -> None:
    """One more number takes two - one bytes, the rest is fixed; 80 % of the free memory is used, for a power of two of
    numbers up to ON_GPU."""
    assert fitting(one, two, free) == size


@pytest.mark.gpu
def test_on_a_gpu_the_size_is_what_fits_into_its_memory() -> None:
    device = torch.device("cuda")
    free, _ = torch.cuda.mem_get_info(device)
    sizes = []

    def compute(numbers: Sequence[int]) -> list[int]:
        sizes.append(len(numbers))
        torch.empty(len(numbers), free // 8, dtype=torch.uint8, device=device)
        return list(numbers)

    assert answers(Batcher(None, device), compute, range(16)) == list(range(16))
    assert max(sizes[3:]) == 4, "six fit into .8 of the memory"
