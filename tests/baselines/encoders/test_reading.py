"""Which encoder reads which part, and how parts are joined."""

import re
from collections.abc import Iterator

import numpy as np
import pytest
import torch

from guidebench.baselines.encoders import Encoder, Sizes, Vector, read, unread
from guidebench.baselines.encoders.reading import encoder_of
from guidebench.baselines.networks import MLP, Chain
from guidebench.baselines.parameters import Parameters
from guidebench.baselines.tensors import tensors
from guidebench.harness import registry
from guidebench.harness.interfaces import Observations
from guidebench.harness.registry import register
from tests.refusals import check_refused

GRID = Observations((3, 4, 2), "uint8", (5, 3))
IMAGE = Observations((15, 16, 4), "uint8", stack=2)
PLACE = Observations((3,), "float32")
WORD = Observations((2,), "int64", (3, 4))
SIZES = Sizes(channels=4, features=6)


@pytest.mark.parametrize(("part", "name"), [(GRID, "grid"), (IMAGE, "image"), (PLACE, "vector"), (WORD, "codes")])
def test_the_first_encoder_that_reads_a_part_is_taken(part: Observations, name: str) -> None:
    assert type(encoder_of(part)) is registry.get("encoder", name)


@pytest.fixture
def halving() -> Iterator[str]:
    """An encoder of another package, whose name comes before ours and which reads whatever is a vector."""

    with registry.fresh():

        @register.encoder("aaa")
        class Halving(Encoder):
            reading = "a vector to be halved"

            def reads(self, part: Observations) -> bool:
                return len(part.shape) == 1

            def width(self, part: Observations, sizes: Sizes) -> int:
                return 1

            def multiplications(self, part: Observations, sizes: Sizes) -> int:
                return 7

            def network(self, part: Observations, sizes: Sizes, name: str) -> MLP:
                return MLP(part.shape[0], (), 1, name)

        yield "aaa"


def test_an_encoder_of_others_is_taken_where_it_is_named_and_nowhere_else(halving: str) -> None:
    assert isinstance(encoder_of(PLACE), Vector)
    assert type(encoder_of(Observations((3,), "float32", encoder=halving))).__name__ == "Halving"
    assert "no encoder reads it unnamed" in unread(Observations((3,), "int32"))
    assert unread(Observations((3,), "int32")).endswith("; name encoder='aaa' in its Observations")
    reading = read(Observations(parts={"a": Observations((3,), "int32", encoder=halving), "b": PLACE}), SIZES)
    assert (reading.learns, reading.width, reading.multiplications) == (True, 4, 7)
    assert reading.network().specs().keys() == {"encoder.a.0.weight", "encoder.a.0.bias"}


def test_what_is_not_whole_is_not_registered() -> None:
    check_refused(
        r"encoder 'empty' is incomplete.*Encoder.*multiplications, network, reads, wid",
        register.encoder("empty"),
        type("Empty", (Encoder,), {}),
    )
    check_refused(r"encoder 'empty' is incomplete.*all abstract methods of Encoder", register.encoder("empty"), object)


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (
            Observations((4, 4), "float32"),
            r"part 'x' .* float32 of shape \(4, 4\): no encoder reads it \(known: codes,",
        ),
        (Observations((3,), "int32"), r"int32 of shape \(3,\): no encoder.*vector, a vector of floats"),
        (Observations((3,), "int32", (2, 2)), r"int32 of shape \(3,\) of codes: no encoder"),
        (Observations((3,), "float32", encoder="vectro"), r"unknown encoder 'vectro'; did you mean 'vector'\?"),
        (Observations((3,), "float32", encoder="image"), r"its encoder 'image' reads an image, uint8"),
    ],
)
def test_a_part_that_is_not_read_is_named(part: Observations, message: str) -> None:
    assert re.search(message, unread(Observations(parts={"place": PLACE, "x": part})))
    assert unread(part).startswith("the observations are") and unread(PLACE) == ""
    check_refused(message, read, Observations(parts={"place": PLACE, "x": part}), SIZES)


def test_features_of_parts_stand_side_by_side_in_their_order() -> None:
    """Word (1, 3) of (3, 4) values is 010 0001; place is as it is, half floats as floats."""
    space = Observations(parts={"word": WORD, "place": Observations((2,), "float16")})
    reading, record = read(space, SIZES), np.zeros((1, 1), space.numpy)
    record["word"], record["place"] = (1, 3), (0.5, -2)
    assert (reading.learns, reading.width, reading.multiplications) == (False, 9, 0)
    assert reading.network()({}, tensors(record, "cpu")).tolist() == [[[0, 1, 0, 0, 0, 0, 1, 0.5, -2]]]


def test_a_part_that_a_policy_did_not_read_gets_the_weights_0() -> None:
    """The layer of 3 features (a, then c) becomes one of 5 (a, b, c): rows of zeros stand between the others. A layer
    of another input, as wide as the narrower network's, is not touched."""
    pair, single = Observations((2,), "float32"), Observations((1,), "float32")
    reading = read(Observations(parts={"a": single, "b": pair, "c": pair}), SIZES)
    assert [reading.span(name) for name in "abc"] == [slice(0, 1), slice(1, 3), slice(3, 5)]
    policy = {"first": np.arange(6.0).reshape(3, 2), "second": np.ones((3, 2)), "bias": np.ones(3)}
    initial = {"first": np.ones((5, 2)), "second": np.ones((3, 2)), "bias": np.ones(3)}
    weights = reading.widened(policy, initial, "b")
    assert weights["first"].tolist() == [[0, 1], [0, 0], [0, 0], [2, 3], [4, 5]]
    assert weights["second"] is policy["second"] and weights["bias"] is policy["bias"]


def test_a_record_of_all_kinds_has_the_width_it_states() -> None:
    space = Observations(parts={"grid": GRID, "image": IMAGE, "place": PLACE, "word": WORD})
    reading = read(space, SIZES)
    assert reading.width == 6 + 6 + 3 + 7 == reading.encoder_width((50,)) and reading.learns
    network = reading.network()
    parameters = Parameters(network.specs(), 2, together=True)
    assert network(parameters.blocks[0].views, tensors(np.zeros((2, 5), space.numpy), "cpu")).shape == (2, 5, 22)


def test_where_nothing_is_learnt_hidden_layers_encode() -> None:
    """One part of two floats through x·(1, −1) with ReLU; without hidden layers there is nothing to encode by."""
    reading = read(Observations(parts={"x": Observations((1,), "float32")}), SIZES)
    encoder = reading.encoder((2,))
    assert isinstance(encoder, Chain) and reading.encoder_width((2,)) == 2
    views = {"encoder.0.weight": torch.tensor([[[1.0, -1.0]]]), "encoder.0.bias": torch.zeros(1, 2)}
    assert encoder(views, {"x": torch.tensor([[[3.0], [-2.0]]])}).tolist() == [[[3.0, 0.0], [0.0, 2.0]]]
    assert reading.encoder(()) is None and reading.encoder_width(()) == 0
