"""Settings that judges, chats and embedders share: how a foundation model is reached and how it generates text.

A configuration inherits `Served` for a model behind a server and `Local` for weights that run on this machine; all
their fields but `model` and `digest` are `Transport`. Every chat also inherits `Writing`, and `Choosing`
(`choosing.py`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args

from guidebench.harness import settings
from guidebench.harness.errors import UserError
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.calls import Call, ChatCall
from guidebench.harness.parts import AUTO, CHOICE, CellView, FilePart, ModelPart
from guidebench.harness.settings import Bounds, Cited, Digest, Later, Transport, Unit, Variable, cite

if TYPE_CHECKING:
    from guidebench.harness.execution import Models
    from guidebench.harness.models.backends.openai_.model import Prices
    from guidebench.harness.models.backends.openai_.server import Server
    from guidebench.harness.models.desk import Policy


@dataclass(frozen=True, kw_only=True)
class Served(ModelPart):
    """A model behind an OpenAI-compatible server, hosted or self-run."""

    model: str = ""
    """Recipe, or the server's name of the model."""
    base_url: Annotated[str | None, Transport] = None
    """Address of the server, such as http://localhost:8000/v1; null means the environment's OPENAI_BASE_URL, or else
    OpenAI's own server (choice)."""
    key_variable: Annotated[str, Variable, Transport] = "OPENAI_API_KEY"
    """Environment variable that holds the server's API key, if it needs one; the key itself is never written
    (choice)."""
    price_in: Annotated[float | None, Bounds(0), Unit("USD per million tokens"), Transport] = None
    """Price of input tokens; null means the recipe's price (choice)."""
    price_out: Annotated[float | None, Bounds(0), Unit("USD per million tokens"), Transport] = None
    """Price of output tokens; null means the recipe's price (choice)."""
    in_flight: Annotated[int, Bounds(1), Unit("calls"), Transport] = 8
    """Concurrent calls to the server per worker (choice: hides a hosted model's latency and rarely hits rate
    limits)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 60.0
    """Timeout of one call (choice)."""
    attempts: Annotated[int, Bounds(1), Transport] = 4
    """Attempts per call before it counts as failed (choice)."""

    citation: ClassVar[str | Path] = Path(__file__).with_name("openai.bib")
    backend: ClassVar[str] = "openai"
    extra: ClassVar[str] = "openai"
    answers: ClassVar[tuple[str, ...]] = ("judge", "chat", "embed")
    privileged: ClassVar[bool] = False
    section: ClassVar[str] = "judge"

    def server(self) -> Server:
        """Return the server's client; raise UserError for a missing package, key or address. Sends no call."""
        from guidebench.harness.models.backends.openai_.server import Server

        return Server(self.base_url, self.key_variable, self.timeout, self.section)

    def prices(self) -> Prices:
        """Return the configured prices per million tokens."""
        from guidebench.harness.models.backends.openai_.model import Prices

        return Prices(self.price_in, self.price_out)

    def ready(self) -> None:
        """Raise UserError for a missing package, key or address. Sends no call."""
        self.server()

    def policy(self) -> Policy:
        """Return the timeout, attempts and concurrency of the desk's calls to this model."""
        from guidebench.harness.models.desk import Policy

        return Policy(timeout=self.timeout, attempts=self.attempts, in_flight=self.in_flight)


GGUF = ".gguf"
"""Ending of the names of files that hold a model of texts with quantized weights."""


@dataclass(frozen=True, kw_only=True)
class Local(FilePart, ModelPart):
    """A model of the transformers library that runs on this machine. Its identity is the digest of its files; `model`
    and `revision` only say where these are."""

    model: str = ""
    """Recipe, repository id, `package:NAME` or local path; the weights must be safetensors, or of a chat GGUF."""
    digest: Annotated[str | None, Digest, Later] = None
    """SHA-256 of weights, configuration, tokenizer and processor, which identifies the model. It is computed where the
    files are; null means that it is unknown, or that the model is known by its name alone (choice)."""
    device: Annotated[str | None, Transport] = None
    """Device of the model: cpu, cuda, cuda:1, …, one of the command's GPUs if workers share the model; null means the
    worker's own device (choice)."""
    batch_size: Annotated[int | None, Bounds(1), Unit("calls"), Transport] = None
    """Calls computed together. A batch of fewer calls is filled up, so that no score depends on what else waits. null
    takes 4 on a CPU, and on a GPU as many as fit into its memory, at most 8 (choice)."""
    in_flight: Annotated[int, Bounds(1), Unit("calls"), Transport] = 64
    """Concurrent calls from which batches are formed (choice: as many as the largest batch)."""
    timeout: Annotated[float, Bounds(0.1), Unit("seconds"), Transport] = 600.0
    """Timeout of one call, including its time in the queue (choice: ample for a large model on a CPU)."""
    attempts: Annotated[int, Bounds(1), Transport] = 2
    """Attempts per call before it counts as failed (choice: a local model fails deterministically, so two suffice)."""

    citation: ClassVar[str | Path] = Path(__file__).with_name("transformers.bib")
    backend: ClassVar[str] = "transformers"
    extra: ClassVar[str] = "vlm"
    answers: ClassVar[tuple[str, ...]] = ("judge", "chat", "embed", "video")
    privileged: ClassVar[bool] = False
    file_settings: ClassVar[tuple[str, ...]] = ("model", "revision")
    of_files: ClassVar[Mapping[str, Any]] = {"dtype": recipes.usual_dtype(0)}

    @property
    def row_name(self) -> str:
        """The model's name in result rows: that of its recipe, found by digest or by name, or of its repository; for
        other files `local-` and the first digits of their digest. It is a path only while the digest is unknown."""
        if self.digest is None:
            return self.model
        if (recipe := recipes.of_digest(self.digest) or recipes.recipe(self.model)) is not None:
            return recipe.name
        if not is_path(self.model):
            return self.model
        return repository_in(self.model) or f"local-{self.digest[:8]}"

    def content(self) -> str | None:
        """Return the digest of the model's files; None if they are not on this machine, or not all of them. Raise
        UserError for files that cannot be read."""
        from guidebench.harness.identity import digests

        place = self._place()
        return None if place is None else digests.of_model(place)

    def follow_files(self) -> Mapping[str, Cited]:
        """Return the precision that the model's recipe states, found by name or by digest, or that follows from the
        number of parameters in the files here."""
        from guidebench.harness.models.backends import parameters

        if getattr(self, "dtype", None) != AUTO:
            return {}
        if (recipe := recipes.recipe(self.model) or recipes.of_digest(self.digest or "")) is not None:
            return {"dtype": cite(recipe.dtype, f"recipe {recipe.name}")}
        count = None if (place := self._place()) is None else parameters.of_model(place)
        if count is None:
            return {}
        billions = count / 1e9
        return {"dtype": cite(recipes.usual_dtype(billions), f"{billions:.3g} billion parameters in its files")}

    def _place(self) -> Path | None:
        """Return the path of the model's files, None if they are not on this machine."""
        from guidebench.harness.models.backends.transformers_.loading import local_path

        try:
            return local_path(recipes.repository(self.model), getattr(self, "revision", None))
        except UserError:
            return None

    def placed(self) -> Mapping[str, Any]:
        """Return the setting `model` with a leading "./" if it is a relative path, which distinguishes it from the
        name of a repository; return no setting otherwise."""
        relative = not is_path(self.model) and recipes.recipe(self.model) is None and Path(self.model).exists()
        return {"model": f"./{self.model}"} if relative else {}

    def published(self) -> str | None:
        """Return the digest that the model's recipe states for the published weights; None if it states none."""
        recipe = recipes.recipe(self.model)
        return recipe.digest or None if recipe is not None else None

    def on_record(self, role: str, models: Models, study: Path | None) -> Iterator[str | None]:
        """Yield the digests of the local models whose answers in a role are recorded in the study's cassettes; yield
        None for this model if it was recorded without a digest. A call that two roles make is recorded under only one
        of them, so for a role without answers, yield the digests of models with the same settings in any role."""
        from guidebench.harness.models import cassette, study_models

        files = _cassettes(models, study)
        without_files = {
            name: value for name, value in study_models.identity(self).items() if name not in self.file_settings
        }
        undigested = {**without_files, settings.DIGEST: None}
        has_answers = False
        for identity in cassette.identities(files, role):
            digest = _digest_in(identity)
            if digest is not None or identity.get("model") == self.model:
                has_answers = True
                yield digest
        for identity in () if has_answers else cassette.identities(files, None):
            digest = _digest_in(identity)
            if digest is not None and {**identity, settings.DIGEST: None} == undigested:
                yield digest

    def values_on_record(self, name: str, role: str, models: Models, study: Path | None) -> Iterator[Any]:
        """Yield the values of a setting with which models that ran where they were recorded answered in a role."""
        from guidebench.harness.models import cassette

        accepted = {self.of_files[name], *get_args(recipes.Dtype)}
        for identity in cassette.identities(_cassettes(models, study), role):
            is_same = self.digest in (None, _digest_in(identity)) and identity.get("backend") == self.backend
            if is_same and identity.get(name) in accepted:
                yield identity[name]

    def ready(self) -> None:
        """Raise UserError for a missing package, files that are not on this machine, or other files than those of
        `digest`; load and download nothing."""
        from guidebench.harness.models.backends.transformers_.loading import check

        check(self.model, getattr(self, "revision", None))
        self.verify()

    def policy(self) -> Policy:
        """Return the timeout, attempts and concurrency of the desk's calls to this model."""
        from guidebench.harness.models.desk import Policy

        return Policy(timeout=self.timeout, attempts=self.attempts, in_flight=self.in_flight)


def _cassettes(models: Models, study: Path | None) -> list[Path]:
    """Return the files of recorded calls that a command uses in a study; none if they are missing."""
    if not models.cassettes and (study is None or not study.is_dir()):
        return []
    from guidebench.harness.models import study_models

    try:
        return study_models.sources(models, None if study is None else study_models.folder(study))
    except UserError:  # a cassette that is missing; it is named before anything starts
        return []


def _digest_in(identity: Mapping[str, Any]) -> str | None:
    """Return the digest in a recorded identity; None if it has none, or anything else in its place."""
    digest = identity.get(settings.DIGEST)
    return digest if isinstance(digest, str) and settings.SHA256.fullmatch(digest) else None


def sees_nothing(model: str) -> str:
    """Return why a local model cannot be a judge or an embedder: it is a GGUF file; "" if it is none."""
    recipe = recipes.recipe(model)
    names = [model] if recipe is None else recipe.files
    if not any(name.endswith(GGUF) for name in names):
        return ""
    return f"its model {model} is a GGUF file, which holds a model of texts alone: it can be a chat, and embeds nothing"


def unchoosable(model: str, scoring: str) -> str:
    """Return why a judge's model cannot be scored by a choice, since its recipe lists other ways alone; ""
    otherwise."""
    recipe = recipes.recipe(model)
    if scoring != CHOICE or recipe is None or not recipe.scoring or CHOICE in recipe.scoring:
        return ""
    return (
        f"its model {model!r} ({recipe.title}) tells no likelihoods, so judge.scoring=choice cannot be read; use "
        f"{' or '.join(recipe.scoring)}"
    )


def is_path(model: str) -> bool:
    """Return whether a model is named by a path rather than by a recipe or repository, judged by the text alone.

    >>> is_path("./encoder"), is_path("/srv/encoder"), is_path("clip.safetensors"), is_path("openai/clip")
    (True, True, True, False)
    """
    return model.startswith(("/", ".", "~")) or model.endswith((".safetensors", GGUF))


def repository_in(path: str) -> str:
    """Return the repository whose download is at a path in the download cache, or "".

    >>> repository_in("/srv/hub/models--openai--clip-vit-base-patch32/snapshots/3d74acf")
    'openai/clip-vit-base-patch32'
    """
    folders = [part for part in Path(path).parts if part.startswith("models--")]
    return "/".join(folders[-1].split("--")[1:]) if folders else ""


@dataclass(frozen=True, kw_only=True)
class Writing(ModelPart):
    """Sampling settings of a chat, and the delay until its answer is used."""

    model: str = ""
    """Recipe, or another name of the model."""
    temperature: Annotated[float, Bounds(0)] = 0.0
    """Sampling temperature; 0 decodes greedily, and only then is an answer shared between equal questions (RL-SaLLM-F's
    released code)."""
    max_tokens: Annotated[int, Bounds(1), Unit("tokens")] = 1000
    """Most tokens in one answer (RL-SaLLM-F's released code)."""
    delay: Annotated[int | None, Bounds(0), Unit("environment steps")] = 1
    """Steps between a question and the use of its answer. With 1, training waits for every answer, and a spent budget
    stops the run before the step that lacks one; null applies answers on arrival, which is not reproducible (choice:
    negligible beside the 5,000 steps between the paper's sessions)."""

    def sampled(self, call: Call) -> Call:
        """Return a chat call with this chat's sampling settings; return other kinds of call unchanged."""
        if not isinstance(call, ChatCall):
            return call
        return dataclasses.replace(call, max_tokens=self.max_tokens, temperature=self.temperature)

    def fits(self, view: CellView) -> str:
        """Return why this chat cannot be used in the given cell, or ""."""
        recipe = recipes.recipe(self.model)
        if recipe is None or "chat" in recipe.calls or (self.answer_form == CHOICE and CHOICE in recipe.calls):
            return ""
        if CHOICE in recipe.calls:
            return (
                f"its model {self.model!r} ({recipe.title}) is a base model, which goes on with a text and answers "
                f"none; set chat.answer=choice"
            )
        return f"its model {self.model!r} ({recipe.title}) answers no chats; choose another chat.model"
