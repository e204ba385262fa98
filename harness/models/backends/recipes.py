"""Recipes of models by short name: supported calls, backends and prices. The data is in recipes.toml."""

from __future__ import annotations

import datetime
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib import resources
from typing import Any, Literal, NamedTuple, get_args

from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Usage
from guidebench.harness.settings import SHA256

BackendName = Literal["transformers", "openai"]
Scoring = Literal["prefill", "logprobs", "literal", "choice"]
Pricing = Literal["listed", "free", "unknown"]
Dtype = Literal["bfloat16", "float16", "float32"]
PACKAGE = "package:"
"""Prefix of the name of a model whose files lie in an installed package."""
PAPERS = ("vlm_rb", "lagea", "kagi", "dsadf", "rl_sallm_f")
MILLION = 1_000_000
SMALL = 1.0
"""Billion parameters below which a model is computed in float32: it fits into any memory so, and many CPUs have no fast
arithmetic in 16 bits (choice)."""
IMAGE_TOKENS = 1_100
"""Tokens of an image if the model's recipe does not say (choice: hosted models' count in high detail)."""


@dataclass(frozen=True)
class Price:
    """The maker's price in USD per million tokens, with the date on which it was valid."""

    usd_in: float
    usd_out: float
    held: datetime.date
    source: str


class PackedFile(NamedTuple):
    """A file of a model in an installed package."""

    parts: tuple[str, ...]
    """Paths in the package of the pieces that make the file, in order; PACKAGE:PATH of one in another package."""
    sha256: str
    """SHA-256 of the whole file."""


@dataclass(frozen=True)
class Recipe:
    """Facts for choosing a model; recipes.toml explains each field."""

    name: str
    title: str
    calls: tuple[str, ...]
    """Registered names of the kinds of call that the model answers."""
    backends: tuple[BackendName, ...]
    scoring: tuple[Scoring, ...]
    parameters: float
    dtype: Dtype
    """Precision of weights and computation where a command chooses none."""
    licence: str
    papers: tuple[str, ...]
    note: str
    repository: str = ""
    api: str = ""
    file: str = ""
    tokens_per_image: int = 0
    width: int = 0
    digest: str = ""
    package: str = ""
    package_version: str = ""
    extra: str = ""
    files: Mapping[str, PackedFile] = field(default_factory=dict)
    """Name in the model's folder -> the file of the package."""
    price: Price | None = None

    @property
    def packages(self) -> list[str]:
        """Return the names of the packages that hold the model's files, its own first."""
        parts = [part for file in self.files.values() for part in file.parts]
        return [*dict.fromkeys([self.package, *(self.place_of(part)[0] for part in parts)])]

    def place_of(self, part: str) -> tuple[str, str]:
        """Return package and path of a part."""
        package, colon, path = part.rpartition(":")
        return (package, path) if colon else (self.package, path)

    @property
    def pricing(self) -> Pricing:
        """`listed`: the maker publishes a price; `free`: open weights have no price per token; `unknown` otherwise."""
        if self.price is not None:
            return "listed"
        return "free" if self.repository or self.package else "unknown"

    @property
    def price_words(self) -> str:
        """Return the price in words."""
        if self.price is None:
            return {"free": "free by the token where its weights run"}.get(self.pricing, "price unknown")
        return f"{self.price.usd_in:g} / {self.price.usd_out:g} USD per million tokens, {self.price.held}"


def usual_dtype(parameters: float) -> Dtype:
    """Return the precision of a model of so many billion parameters; 0 stands for an unknown number.

    >>> usual_dtype(0.135), usual_dtype(3), usual_dtype(0)
    ('float32', 'bfloat16', 'bfloat16')
    """
    return "float32" if 0 < parameters < SMALL else "bfloat16"


def names() -> list[str]:
    """Return the short names, in the order of recipes.toml."""
    return list(_recipes())


def recipe(name: str) -> Recipe | None:
    """Return the recipe of a short name, repository id, API name or `package:NAME`; None for any other model."""
    return _recipes().get(name) or _by_published_name().get(name)


def of_digest(digest: str) -> Recipe | None:
    """Return the recipe of the published weights with this digest, or None."""
    return next(
        (model_recipe for model_recipe in _recipes().values() if digest and model_recipe.digest == digest), None
    )


def repository(name: str) -> str:
    """Return the repository id of a short name, or `package:NAME` of one that only a package holds; return any other
    name, such as a local path, unchanged.

    Raises UserError for a short name that `transformers` cannot load."""
    model_recipe = _recipes().get(name)
    if model_recipe is None:
        return name
    if "transformers" not in model_recipe.backends:
        raise UserError(
            f"model {name!r} ({model_recipe.title}) cannot be loaded by transformers; {_instead(model_recipe)}"
        )
    return model_recipe.repository or f"{PACKAGE}{model_recipe.package}"


def of_package(package: str) -> Recipe | None:
    """Return the recipe of the model in a package, by the package's name in the index, or None."""
    return next((recipe for recipe in _recipes().values() if package and recipe.package == package), None)


def packages() -> list[str]:
    """Return the names of the packages that hold a model."""
    return [recipe.package for recipe in _recipes().values() if recipe.package]


def server_name(name: str) -> str:
    """Return the model name to send to a server: a short name's API name, or else its repository id, which vLLM and
    similar servers use; any other name unchanged. Raise UserError for a short name that no server offers."""
    model_recipe = _recipes().get(name)
    if model_recipe is None:
        return name
    if "openai" not in model_recipe.backends:
        raise UserError(
            f"model {name!r} ({model_recipe.title}) is behind no OpenAI-compatible server; {_instead(model_recipe)}"
        )
    return model_recipe.api or model_recipe.repository


def price(name: str, usage: Usage) -> float:
    """Return the cost of `usage` in USD at the listed price, 0.0 without one; `pricing` distinguishes free from
    unknown."""
    model_recipe = recipe(name)
    if model_recipe is None or model_recipe.price is None:
        return 0.0
    return (usage.tokens_in * model_recipe.price.usd_in + usage.tokens_out * model_recipe.price.usd_out) / MILLION


def pricing(name: str) -> Pricing:
    """Return whether `price(name, …)` is the maker's listed price, 0 for open weights, or 0 because no price is
    known."""
    model_recipe = recipe(name)
    return "unknown" if model_recipe is None else model_recipe.pricing


def parse(text: str) -> Mapping[str, Recipe]:
    """Parse recipes from TOML; raise ValueError naming an invalid entry and field."""
    return {name: _parse_one(name, table) for name, table in tomllib.loads(text).items()}


def _instead(model_recipe: Recipe) -> str:
    if not model_recipe.backends:
        return "no backend serves it yet"
    return "use it through " + " or ".join(model_recipe.backends)


@functools.cache
def _recipes() -> Mapping[str, Recipe]:
    return parse(
        resources.files("guidebench.harness.models.backends").joinpath("recipes.toml").read_text(encoding="utf-8")
    )


@functools.cache
def _by_published_name() -> Mapping[str, Recipe]:
    return {
        name: model_recipe
        for model_recipe in _recipes().values()
        for name in (model_recipe.repository, model_recipe.api, model_recipe.package and PACKAGE + model_recipe.package)
        if name
    }


def _parse_one(name: str, table: Any) -> Recipe:
    if not isinstance(table, dict):
        raise ValueError(f"recipe {name!r}: expected a table, got {table!r}")
    field_names = {field.name for field in fields(Recipe)} - {"name"}
    needed = field_names - {
        "repository", "api", "file", "tokens_per_image", "width", "digest", "package", "package_version", "extra",
        "files", "price", "dtype",
    }  # fmt: skip
    if wrong := (set(table) - field_names) | (needed - set(table)):
        raise ValueError(f"recipe {name!r}: unknown or missing: {', '.join(sorted(wrong))}")
    parameters = _number(f"{name}.parameters", table["parameters"])
    texts = ("title", "licence", "note", "repository", "api", "file", "digest", "package", "package_version", "extra")
    model_recipe = Recipe(
        name=name,
        **{field: _text(f"{name}.{field}", table[field]) for field in texts if field in table},
        calls=_several(f"{name}.calls", table["calls"], None),
        backends=_several(f"{name}.backends", table["backends"], get_args(BackendName)),
        scoring=_several(f"{name}.scoring", table["scoring"], get_args(Scoring)),
        papers=_several(f"{name}.papers", table["papers"], PAPERS),
        parameters=parameters,
        dtype=_dtype(f"{name}.dtype", table["dtype"]) if "dtype" in table else usual_dtype(parameters),
        tokens_per_image=int(_number(f"{name}.tokens_per_image", table.get("tokens_per_image", 0))),
        width=_count(f"{name}.width", table["width"]) if "width" in table else 0,
        files=_packed(f"{name}.files", table.get("files", {})),
        price=_price(f"{name}.price", table["price"]) if "price" in table else None,
    )
    if bool(model_recipe.calls) != bool(model_recipe.backends):
        raise ValueError(f"recipe {name!r}: it serves calls through backends: name both or neither")
    if bool(model_recipe.scoring) != ("judge" in model_recipe.calls):
        raise ValueError(f"recipe {name!r}: a judge has a way of scoring, and nothing else has")
    if model_recipe.width and "embed" not in model_recipe.calls:
        raise ValueError(f"recipe {name!r}: only what embeds has a width")
    published = model_recipe.repository or model_recipe.package
    if "transformers" in model_recipe.backends and not published:
        raise ValueError(f"recipe {name!r}: transformers loads weights, and it names no repository and no package")
    if len({bool(model_recipe.package), bool(model_recipe.package_version), bool(model_recipe.files)}) > 1:
        raise ValueError(f"recipe {name!r}: a package has a version and files of the model: name all or none")
    if model_recipe.digest and not SHA256.fullmatch(model_recipe.digest):
        raise ValueError(f"recipe {name!r}: digest is {model_recipe.digest!r}; expected 64 hexadecimal digits")
    if model_recipe.digest and not published:
        raise ValueError(f"recipe {name!r}: a digest is of published weights, and it names no repository or package")
    if model_recipe.file and not model_recipe.repository:
        raise ValueError(f"recipe {name!r}: a file lies in a repository, and it names none")
    if "openai" in model_recipe.backends and not (model_recipe.api or model_recipe.repository):
        raise ValueError(f"recipe {name!r}: a server needs a name to be asked for: api or repository")
    return model_recipe


def _packed(field_path: str, table: Any) -> dict[str, PackedFile]:
    """Return the files of a package; their names and those of their parts are plain relative paths."""
    if not isinstance(table, dict):
        raise ValueError(f"{field_path}: expected a table, got {table!r}")
    packed_files = {}
    for name, file_table in table.items():
        if not isinstance(file_table, dict) or set(file_table) != {"parts", "sha256"}:
            raise ValueError(f"{field_path}.{name}: expected parts, sha256; got {file_table!r}")
        parts = _several(f"{field_path}.{name}.parts", file_table["parts"], None)
        paths = [name, *(part.rpartition(":")[2] for part in parts)]
        if wrong := [path for path in paths if {"", ".", ".."} & set(path.split("/"))]:
            raise ValueError(f"{field_path}.{name}: {wrong[0]!r} is no relative path")
        if not parts or not SHA256.fullmatch(_text(f"{field_path}.{name}.sha256", file_table["sha256"])):
            raise ValueError(f"{field_path}.{name}: expected parts and a sha256 of 64 hexadecimal digits")
        packed_files[name] = PackedFile(parts, file_table["sha256"])
    return packed_files


def _price(field_path: str, table: Any) -> Price:
    if not isinstance(table, dict) or set(table) != {field.name for field in fields(Price)}:
        raise ValueError(f"{field_path}: expected usd_in, usd_out, held, source; got {table!r}")
    if type(table["held"]) is not datetime.date:
        raise ValueError(f"{field_path}.held: expected a date, got {table['held']!r}")
    usd_in, usd_out = (_number(f"{field_path}.{key}", table[key]) for key in ("usd_in", "usd_out"))
    return Price(usd_in, usd_out, table["held"], _text(f"{field_path}.source", table["source"]))


def _dtype(field_path: str, stated: Any) -> Dtype:
    options: tuple[Dtype, ...] = get_args(Dtype)
    chosen = next((option for option in options if option == stated), None)
    if chosen is None:
        raise ValueError(f"{field_path}: expected one of {', '.join(options)}; got {stated!r}")
    return chosen


def _text(field_path: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{field_path}: expected a text, got {value!r}")
    return value


def _number(field_path: str, value: Any) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < float("inf"):
        raise ValueError(f"{field_path}: expected a number of at least 0, got {value!r}")
    return float(value)


def _count(field_path: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise ValueError(f"{field_path}: expected a whole number of at least 1, got {value!r}")
    return value


def _several(field_path: str, value: Any, options: tuple[str, ...] | None) -> tuple[Any, ...]:
    """Return a list of distinct texts, each among `options` if given; raise ValueError otherwise."""
    listed = isinstance(value, list) and all(isinstance(text, str) and text for text in value)
    if not listed or len(set(value)) < len(value) or (options is not None and not set(value) <= set(options)):
        expected = "names" if options is None else f"some of {', '.join(options)}"
        raise ValueError(f"{field_path}: expected {expected}, each once; got {value!r}")
    return tuple(value)
