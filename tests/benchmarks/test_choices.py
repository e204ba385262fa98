"""The benchmark of choices, on a tiny random model: what is computed, what is counted, and what is left out."""

import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from benchmarks import __main__ as together
from benchmarks import choices
from guidebench.harness.models.backends.transformers_.choosing import Tree


def test_work_counts_products_attention_and_the_output_layer() -> None:
    """Two layers of two heads of 3; 4 tokens, the first kept, and candidates [5, 6], [5, 7]: 3 + 3 tokens computed.
    The prompt's attend to 2 + 3 + 4, the candidates' to 3 x 4 of the prompt and to 1 + 2 + 2 of their own."""
    config = SimpleNamespace(num_attention_heads=2, head_dim=3, num_hidden_layers=2, hidden_size=6, vocab_size=10)
    size = choices.work(config, 100, prompt=4, present=1, tree=Tree.of([[5, 6], [5, 7]]))
    assert size.tokens == 6
    assert size.flop == 2 * 100 * 6 + 4 * (2 * 3) * (9 + 12 + 5) * 2 + 2 * 6 * 10 * 4


def test_it_measures_a_gguf_file_and_names_the_peer_that_is_missing(
    tiny: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    """Here is no xllamacpp. The second prompt shares 250 of 300 tokens, so that three chunks of 64 are kept."""
    pytest.importorskip("gguf")
    file = tiny("gguf") / "model.gguf"
    words = ["--model", str(file), "--rounds", "1", "--tokens", "300", "--ending", "50", "--peers", sys.executable]
    figures = together.run("choices", sys.executable, words)
    assert f"llama.cpp is not measured: {sys.executable} has no xllamacpp" in capfd.readouterr().err
    (row,) = figures["rounds"]
    assert row["computed"][0] - row["computed"][1] - (row["prompt"][0] - row["prompt"][1]) >= 192
    assert min(row["seconds"]) > 0 and all(0 < share < 1 for share in row["share"])
    labels = [line.label for line in together.lines({"choices": figures})]
    assert len(labels) == 4 and not any("llama.cpp" in label for label in labels)


def test_without_the_package_nothing_is_measured_and_a_line_says_so(capfd: pytest.CaptureFixture[str]) -> None:
    figures = together.run("choices", sys.executable, ["--model", "package:no-such-package"])
    assert figures["rounds"] == [] and together.lines({"choices": figures}) == []
    assert "choices are not measured: " in capfd.readouterr().err


def test_ratios_are_those_of_a_round_and_differences_are_means() -> None:
    """Rounds in which the peer takes 2, 4 and 1 times as long."""
    rows = [
        {"prompt": [5, 5], "computed": [8, 4], "share": [0.5, 0.7], "seconds": [1.0, 0.5], "peer_computed": [5, 1],
         "peer_seconds": [ratio, ratio / 2]} for ratio in (2.0, 4.0, 1.0)
    ]  # fmt: skip
    gaps = {"likeliest": {"count": 3, "mean": 0.04, "most": 0.2}, "next": {"count": 2, "mean": 0.06, "most": 0.3}}
    table = [(line.figure, line.reached) for line in choices.lines({"rounds": rows, "agreement": gaps})]
    new, ending = [(1.0, "yes"), (0.5, "no"), (2.0, "")], [(0.5, "yes"), (0.7, "yes"), (2.0, "")]
    assert table == [*new, *ending, (0.04, "yes"), (0.06, "no")]
