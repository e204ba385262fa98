"""Every recipe is complete and consistent, a free model is told from one without a known price, and names are
unique."""

import datetime
from importlib.resources import files

import pytest

from guidebench.harness import registry
from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import Usage

OF_THE_PAPERS = (
    "perception_lm_1b", "perception_lm_3b", "perception_lm_8b", "qwen2_5_vl_3b", "qwen2_5_vl_7b", "gpt2", "sbert",
    "clip", "liv", "gpt-4o-mini", "gpt-4o", "gpt-4-vision", "gemini-1.5-pro", "gemini-3-pro", "qwen2.5-72b",
    "llama-3.1-405b", "deepseek", "llava-1.5", "minigpt-4", "imagebind", "sam2",
)  # fmt: skip
ENTRY = """
[model]
title = "Model"
repository = "maker/model"
calls = ["chat"]
backends = ["openai"]
scoring = []
parameters = 1
licence = "MIT"
papers = ["vlm_rb"]
note = "None."
"""


def test_the_models_of_the_papers_have_recipes() -> None:
    assert set(OF_THE_PAPERS) <= set(recipes.names())
    used = {paper for name in recipes.names() for paper in recipes.recipe(name).papers}
    assert used == set(recipes.PAPERS)


@pytest.mark.parametrize("name", recipes.names())
def test_every_recipe_can_be_asked_for_through_exactly_the_backends_it_names(name: str) -> None:
    recipe = recipes.recipe(name)
    assert recipe is not None and recipe.name == name and recipe.title and recipe.note.endswith(".")
    for backend, ask in (("transformers", recipes.repository), ("openai", recipes.server_name)):
        if backend in recipe.backends:
            assert ask(name) in {recipe.repository, recipe.api, f"package:{recipe.package}"} - {"", "package:"}
            assert recipes.recipe(ask(name)) == recipe
        else:
            with pytest.raises(UserError, match=r"no backend serves it yet|use it through"):
                ask(name)
    assert {*recipe.calls} <= {*registry.names("call")}
    if "judge" in recipe.calls:
        assert recipe.scoring and set(recipe.calls) >= {"chat"}
    assert bool(recipe.width) == ("embed" in recipe.calls)
    if recipe.width:
        assert f"{recipe.width} numbers" in recipe.note
    if not recipe.backends:
        assert "Not served yet" in recipe.note
    if recipe.price is not None:
        assert recipe.api, "a listed price is that of its maker's server"
        assert datetime.date(2023, 1, 1) < recipe.price.held < datetime.date(2027, 1, 1)
        assert 0 < recipe.price.usd_in <= recipe.price.usd_out


def test_names_under_which_recipes_are_found_are_all_different() -> None:
    names = [name for key in recipes.names() for name in {key, recipes.recipe(key).repository, recipes.recipe(key).api}]
    names = [name for name in names if name]
    assert len(names) == len(set(names))


def test_a_published_name_finds_its_recipe_and_a_strange_one_stands_as_it_is() -> None:
    assert recipes.recipe("gpt-4o-mini-2024-07-18").name == "gpt-4o-mini"
    assert recipes.recipe("Qwen/Qwen2.5-VL-3B-Instruct").name == "qwen2_5_vl_3b"
    assert recipes.recipe("/models/mine") is None
    assert recipes.repository("/models/mine") == recipes.server_name("/models/mine") == "/models/mine"
    assert recipes.server_name("deepseek") == "deepseek-chat"
    assert recipes.server_name("deepseek-ai/DeepSeek-V3") == "deepseek-ai/DeepSeek-V3"
    assert recipes.server_name("qwen2_5_vl_3b") == recipes.repository("qwen2_5_vl_3b") == "Qwen/Qwen2.5-VL-3B-Instruct"


def test_a_model_below_a_billion_parameters_is_computed_in_float32_unless_its_entry_says_otherwise() -> None:
    stated = {"parameters = 1": "bfloat16", "parameters = 0.999": "float32", "parameters = 0": "bfloat16"}
    stated |= {'parameters = 0.5\ndtype = "float16"': "float16"}
    dtypes = {text: recipes.parse(ENTRY.replace("parameters = 1", text))["model"].dtype for text in stated}
    assert dtypes == stated


def test_a_price_is_per_million_tokens_and_zero_is_told_apart() -> None:
    usage = Usage(calls=3, tokens_in=2_000_000, tokens_out=500_000)
    assert recipes.price("gpt-4o-mini", usage) == pytest.approx(2 * 0.15 + 0.5 * 0.60)
    assert recipes.price("gpt-4o-mini-2024-07-18", usage) == recipes.price("gpt-4o-mini", usage)
    assert recipes.price("clip", usage) == recipes.price("strange", usage) == 0.0
    assert [recipes.pricing(name) for name in ("gpt-4o", "clip", "strange")] == ["listed", "free", "unknown"]


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        ('title = "Model"', "", "title"),
        ('title = "Model"', 'title = "Model"\nurl = "x"', "url"),
        ('calls = ["chat"]', 'calls = [""]', "model.calls"),
        ('calls = ["chat"]', 'calls = ["chat", "chat"]', "model.calls"),
        ('calls = ["chat"]', "calls = []", "both or neither"),
        ('calls = ["chat"]', 'calls = ["judge"]', "way of scoring"),
        ('backends = ["openai"]', 'backends = ["magic"]', "model.backends"),
        ('repository = "maker/model"', "", "a server needs a name"),
        ('repository = "maker/model"\n', 'repository = ""\n', "model.repository"),
        ("parameters = 1", 'parameters = "1B"', "model.parameters"),
        ("parameters = 1", "parameters = inf", "model.parameters"),
        ("parameters = 1", "parameters = 1\nprice = 3", "model.price"),
        ("parameters = 1", 'parameters = 1\ndtype = "int8"', "model.dtype"),
        (
            "parameters = 1",
            'parameters = 1\nprice = {usd_in = 1, usd_out = 2, held = "2024", source = "x"}',
            "model.price.held",
        ),
        ('papers = ["vlm_rb"]', 'papers = ["furl"]', "model.papers"),
        ("parameters = 1", "parameters = 1\nwidth = 512", "only what embeds"),
        ('calls = ["chat"]', 'calls = ["embed"]\nwidth = 0', "model.width"),
        ('repository = "maker/model"', 'api = "model"\nfile = "model.pt"', "names none"),
        ('calls = ["chat"]', 'calls = ["embed"]\nwidth = 1.5', "model.width"),
        ("parameters = 1", 'parameters = 1\ndigest = "1a2b"', "digest is '1a2b'; expected 64 hexadecimal digits"),
        ('repository = "maker/model"', f'api = "model"\ndigest = "{64 * "a"}"', "a digest is of published weights"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused_by_its_field(old: str, new: str, field: str) -> None:
    assert recipes.parse(ENTRY)["model"].pricing == "free" and old in ENTRY
    with pytest.raises(ValueError, match=field):
        recipes.parse(ENTRY.replace(old, new))


def test_the_data_lies_beside_the_code_where_a_wheel_takes_it() -> None:
    assert files("guidebench.harness.models.backends").joinpath("recipes.toml").is_file()
