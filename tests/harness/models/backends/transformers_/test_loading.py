import json
import resource
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from guidebench.harness.errors import UserError
from guidebench.harness.models.backends.transformers_ import templates
from guidebench.harness.models.backends.transformers_.loaded_model import Source
from guidebench.harness.models.backends.transformers_.loading import load
from tests.refusals import check_refused


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("qwen_vl", "vision"),
        ("perception_lm", "vision"),
        ("llama", "text"),
        ("gpt2", "text"),
        ("clip", "embedding"),
        ("sentence_bert", "embedding"),
    ],
)
def test_an_architecture_is_loaded_as_what_it_is(tiny: Callable[..., Path], name: str, kind: str) -> None:
    loaded = load(Source(str(tiny(name)), dtype="bfloat16"))
    assert loaded.kind == kind and loaded.model.dtype == torch.bfloat16 and not loaded.model.training
    assert loaded.tokenizer.pad_token is not None


def test_an_unknown_model_is_named_with_what_to_do() -> None:
    check_refused(
        r"model 'nobody/nothing' at revision 'v2' .* name a local path", load, Source("nobody/nothing", revision="v2")
    )


def test_weights_that_are_no_safetensors_are_refused(tiny: Callable[..., Path], tmp_path: Path) -> None:
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((tiny("llama") / name).read_bytes())
    torch.save({}, tmp_path / "pytorch_model.bin")
    check_refused(r"cannot be loaded.*model.safetensors", load, Source(str(tmp_path)))
    check_refused(r"bench models convert LIV\.pt LIV\.safetensors", load, Source("LIV.pt"))


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("model.safetensors", None),
        ("config.json", b"{oops"),
        ("config.json", b'{"model_type": "llama", "hidden_size": "wide"}'),
        ("tokenizer.json", b""),
    ],
)
def test_a_damaged_directory_is_named(
    tiny: Callable[..., Path], tmp_path: Path, file: str, content: bytes | None
) -> None:
    directory = Path(shutil.copytree(tiny("llama"), tmp_path / "damaged"))
    (directory / file).write_bytes((directory / file).read_bytes()[:5000] if content is None else content)
    check_refused("damaged cannot be loaded: ", load, Source(str(directory)))


LARGER = r"describes a network of \d[\d,]* bytes .* have "


@pytest.mark.parametrize(
    ("name", "section", "change", "says"),
    [
        ("llama", "", {"hidden_size": 8_192, "intermediate_size": 65_536}, LARGER),
        ("llama", "", {"vocab_size": 10**9}, LARGER),
        ("gpt2", "", {"n_layer": 10**9}, r"describes a network of more than 2,\d+ arrays, and the weights .* have "),
        ("qwen_vl", "vision_config", {"hidden_size": 8_192, "intermediate_size": 65_536}, LARGER),
        ("clip", "vision_config", {"hidden_size": 8_192, "intermediate_size": 65_536}, LARGER),
        ("clip", "vision_config", {"num_channels": "many"}, r"that its library cannot build \(\w+: "),
    ],
)
def test_a_configuration_of_a_much_larger_network_than_the_weights_is_refused_before_they_are_loaded(
    tiny: Callable[..., Path], tmp_path: Path, name: str, section: str, change: dict[str, int], says: str
) -> None:
    directory = Path(shutil.copytree(tiny(name), tmp_path / "vast"))
    config = json.loads((directory / "config.json").read_text())
    changed = config[section] if section else config
    assert change.keys() <= changed.keys()
    changed |= change
    (directory / "config.json").write_text(json.dumps(config))
    weight_bytes = (directory / "model.safetensors").stat().st_size
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UserError, match=says) as refused:
        load(Source(str(directory)))
    assert str(directory / "config.json") in str(refused.value)
    assert says != LARGER or f"{weight_bytes:,}" in str(refused.value)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < before + 2**20  # kilobytes: 1 GiB


@pytest.mark.parametrize(
    ("method", "says"),
    [({"quant_method": "none"}, LARGER), ({"bits": 4}, r"cannot build \(ValueError: .*quant_method")],
)
def test_a_network_is_measured_as_quantized_only_by_a_method_that_its_library_knows(
    tiny: Callable[..., Path], tmp_path: Path, method: dict[str, object], says: str
) -> None:
    directory = Path(shutil.copytree(tiny("llama"), tmp_path / "vast"))
    config = json.loads((directory / "config.json").read_text())
    config |= {"quantization_config": method, "vocab_size": 30_000_000 // config["hidden_size"]}
    (directory / "config.json").write_text(json.dumps(config))
    check_refused(says, load, Source(str(directory)))


def test_a_model_without_safetensors_is_told_as_that_and_not_measured(
    tiny: Callable[..., Path], tmp_path: Path
) -> None:
    directory = Path(shutil.copytree(tiny("llama"), tmp_path / "model"))
    (directory / "model.safetensors").rename(directory / "pytorch_model.bin")
    config = json.loads((directory / "config.json").read_text())
    (directory / "config.json").write_text(json.dumps(config | {"vocab_size": 10**9}))
    check_refused(r"cannot be loaded: .*model\.safetensors", load, Source(str(directory)))


def test_weights_that_lie_elsewhere_bound_no_network(tiny: Callable[..., Path], tmp_path: Path) -> None:
    directory = Path(shutil.copytree(tiny("llama"), tmp_path / "model"))
    (directory / "a/b").mkdir(parents=True)
    (directory / "model.safetensors").rename(directory / "a/b/model.safetensors")
    index = {"weight_map": {"lm_head.weight": "a/b/model.safetensors"}}
    (directory / "model.safetensors.index.json").write_text(json.dumps(index))
    check_refused(
        r"index.json names the weights 'a/b/model.safetensors', which are no file bes", load, Source(str(directory))
    )


def test_code_of_a_repository_does_not_run_unasked(tiny: Callable[..., Path], tmp_path: Path) -> None:
    config = json.loads((tiny("llama") / "config.json").read_text())
    config |= {"model_type": "strange", "auto_map": {"AutoConfig": "code.Config"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "code.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Config: pass\n")
    check_refused("trust_remote_code", load, Source(str(tmp_path)))
    assert not (tmp_path / "ran").exists()


def test_a_missing_package_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    check_refused(r"install the extra vlm \(\d+ MB\): ", load, Source("perception_lm_1b"))


@pytest.mark.parametrize("device", ["cuda:99", "tpu9"])
def test_a_device_that_is_not_there_is_named(tiny: Callable[..., Path], device: str) -> None:
    check_refused(rf"device '{device}' cannot be used.*expected cpu", load, Source(str(tiny("llama")), device=device))


def test_a_model_that_transformers_cannot_serve_says_what_can() -> None:
    check_refused("use it through openai", load, Source("gpt-4o"))


@pytest.mark.parametrize(
    ("template", "message"),
    [
        ("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "takes longer than 8 s"),
        ("{{ 'a' * 200000 }}", "200,000 characters of a message of two; at most 100,000"),
        ("{% include '/etc/hostname' %}", "writes no message .*no loader"),
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "writes no message .*SecurityError"),
        ("{{ open('/etc/hostname').read() }}", "writes no message .*'open' is undefined"),
        ("{% for m in messages", "writes no message .*TemplateSyntaxError"),
    ],
)
def test_a_chat_template_that_loops_or_reads_files_is_refused_by_name(
    template: str, message: str, tiny: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(templates, "SECONDS", 8.0)
    shutil.copytree(tiny("llama"), tmp_path / "hostile")
    (tmp_path / "hostile/chat_template.jinja").write_text(template)
    check_refused(f"hostile.*{message}", load, Source(str(tmp_path / "hostile")))
