"""Recorded calls asked again: of the model that the record names, reached as the verifier says and no other way."""

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models import study_models
from guidebench.harness.models.backends import images
from guidebench.harness.models.budget import Limits
from guidebench.harness.models.calls import Answer, ChatCall, EmbedCall, JudgeCall, Message, Ticket, Usage, key_of
from guidebench.harness.models.calls.base import CANONICAL
from guidebench.harness.models.cassette import Cassette, CassetteEntry
from guidebench.results.submissions import packing
from guidebench.results.submissions.opening import unpacked
from guidebench.results.verification import reasking
from guidebench.results.verification.configuration import configuration
from guidebench.results.verification.reasking import ReaskingCost, RecordedCall
from guidebench.results.verification.record import Check
from tests.conftest import require
from tests.harness.models import tiny_models
from tests.harness.models.canned import completion, serving
from tests.results.verification.conftest import trained

require("openai")
require("transformers")

STUDY = (
    "suite=minigrid_doorkey", "method=vlm_rb", "judge.delay=64", "replay.clip_length=8", "drawing.tile_size=8",
    "training.steps=240", "evaluation.every=120", "learner.channels=4", "learner.features=8", "learner.hidden=[8]",
    "learner.batch_size=16", "learner.learning_starts=64",
)  # fmt: skip
SERVED = ("judge=openai", "judge.model=a-model", "judge.scoring=literal", "judge.attempts=1")


AMPLE = Limits(calls=10_000)


@contextmanager
def judging(says: str) -> Iterator[str]:
    """Serve a model that answers every clip with `says`; yield the address."""
    with serving(lambda path, body, headers: (200, completion(f"Answer: {says}"))) as url:
        yield url


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train a study whose judge is a served model that says yes."""
    with judging("Yes") as url:
        return trained(tmp_path_factory.mktemp("served") / "study", *STUDY, *SERVED, f"judge.base_url={url}")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Train a study whose judge is a local model with tiny random weights; return the study's and the model's
    directory."""
    root = tmp_path_factory.mktemp("local")
    model = tiny_models.qwen_vl(root / "qwen_vl")
    judge = ("judge=transformers", "judge.dtype=float32", f"judge.model={model}")
    return trained(root / "study", *STUDY, *judge), model


def check_of(
    study: Path, cassette: Path | None = None, count: int = 8, limits: Limits | None = AMPLE, **judge_settings: Any
) -> Check:
    """Return the check of `count` recorded calls of the judge, asked again within `limits` together."""
    study_models.settle(study_models.folder(study))
    path = next(study.glob("*/*/*/cell.json"))
    cell = configuration(path.parent, path.parent.name.rpartition("-")[2])
    settings = {f"judge.{name}": value for name, value in judge_settings.items()}
    file = cassette or study / "models" / "cassette.sqlite"
    with tempfile.TemporaryDirectory() as spent:
        account = None if limits is None else ReaskingCost(Path(spent) / "budget.json", limits)
        (check,) = reasking.checks(cell, [0], file, settings, count, 1, 120.0, account)
    return check


Change = Callable[[sqlite3.Connection], object]


def all_but_one(db: sqlite3.Connection) -> None:
    """Delete the images of all calls but the first."""
    (text,) = db.execute("SELECT text FROM requests ORDER BY key").fetchone()
    digests = [frame["image"] for frame in json.loads(text)["clip"]]
    db.execute(f"DELETE FROM images WHERE digest NOT IN ({', '.join('?' * len(digests))})", digests)


def put_to(name: str, new: str) -> Change:
    """Return a change that makes all recorded requests name another model, or another prompt."""

    def change(db: sqlite3.Connection) -> None:
        for key, text in db.execute("SELECT key, text FROM requests").fetchall():
            request = json.loads(text)
            (request["model"] if name == "model" else request)[name] = new
            other = CANONICAL.encode(request)
            db.execute("UPDATE requests SET key = ?, text = ? WHERE key = ?", (key_of(other), other, key))
            db.execute("UPDATE answers SET key = ? WHERE key = ?", (key_of(other), key))

    return change


FEW = ("1 of ", "were drawn, and the others' images", "1 of 1 answers agree", "fewer than half")
CHECKS: Mapping[str, tuple[str | None, Change | None, int, bool | None, tuple[str, ...]]] = {
    "a served model that answers as recorded agrees": (
        "Yes", None, 8, True, ("recorded calls asked again of a-model; 8 of 8 answers agree within 0.05",)
    ),
    "a served model that answers otherwise does not": ("No", None, 8, False, ("0 of 8 answers agree",)),
    "a model that is not there leaves the calls unchecked": (
        "", None, 8, None, ("8 got no answer (connection:",)
    ),
    "calls that were put to another model": (None, put_to("model", "another"), 8, False, ("they are another model's",)),
    "calls with another prompt": (None, put_to("prompt", "Well?"), 8, False, ("prompt is another",)),
    "frames that were not kept cannot be shown again": (
        "", lambda db: db.execute("DELETE FROM images"), 8, None, ("whose images or arrays were not kept",)
    ),
    "calls whose frames are left out stay in the sample": ("Yes", all_but_one, 10_000, None, FEW),
}  # fmt: skip
"""What is asked of the served model: its answer ("" if it is gone), or None if no server is named; a change of the
cassette; how many calls -> whether they agree, and what is said."""


@pytest.mark.parametrize("case", CHECKS)
def test_calls_of_a_served_model_agree_or_it_is_said_why_not(served: Path, tmp_path: Path, case: str) -> None:
    says, change, count, passed, words = CHECKS[case]
    study_models.settle(study_models.folder(served))
    cassette = Path(shutil.copy(served / "models" / "cassette.sqlite", tmp_path / "c.sqlite"))
    with closing(sqlite3.connect(cassette)) as db, db:
        (change or id)(db)
    with judging(says or "Yes") as url:
        if says:
            check = check_of(served, cassette, base_url=url, count=count)
    if not says:  # the server is gone
        check = check_of(served, cassette, count=count, **({} if says is None else {"base_url": url, "attempts": 1}))
    assert check.passed is passed and check.what == "model calls (judge)"
    assert all(word in check.detail for word in words)


def test_a_model_that_runs_here_agrees_where_its_weights_are_named_and_no_path_of_a_record_is_opened(
    local: tuple[Path, Path], tmp_path: Path
) -> None:
    study, model = local
    check = check_of(study, model=str(model))
    assert check.passed is True and "8 of 8 answers agree within 0.05" in check.detail
    check = check_of(study)
    assert check.passed is None and "say where it is with judge.model=PATH" in check.detail
    other = Path(shutil.copytree(model, tmp_path / "other"))
    (other / "chat_template.jinja").write_text("{{ messages }}")
    check = check_of(study, model=str(other))
    assert check.passed is None and f"model={other}: its files have the digest" in check.detail
    cassette = Path(shutil.copy(study / "models" / "cassette.sqlite", tmp_path / "c.sqlite"))
    with closing(sqlite3.connect(cassette)) as db, db:
        db.execute("UPDATE answers SET value = 1.0")
    check = check_of(study, cassette, model=str(model))
    assert check.passed is False and "0 of 8 answers agree" in check.detail, "answers that nobody gave are noticed"
    cassette.write_bytes(b"SQLite format 3" + bytes(100))
    check = check_of(study, cassette, model=str(model))
    assert check.passed is None and "is no cassette" in check.detail


def test_no_server_is_asked_without_a_budget_nor_beyond_one(served: Path) -> None:
    requests = []

    def answers(path: str, body: Any, headers: Any) -> tuple[int, Any]:
        requests.append(path)
        return 200, completion("Answer: Yes")

    with serving(answers) as url:
        check = check_of(served, limits=None, base_url=url)
        assert not requests and check.passed is None and "say how much with models.budget_usd=AMOUNT" in check.detail
        check = check_of(served, limits=Limits(usd=1.0), base_url=url)
        assert not requests and "what a-model costs is not known: give its judge.price_in" in check.detail
        check = check_of(served, limits=Limits(calls=3), base_url=url)
        assert len(requests) == 3 and check.passed is None and "models.budget_calls=3 is reached" in check.detail
        priced = {"price_in": 1_000.0, "price_out": 1_000.0}
        check = check_of(served, limits=Limits(usd=0.001), base_url=url, **priced)
        assert len(requests) == 3 and check.passed is None and "models.budget_usd=0.001 is reached" in check.detail


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["judge.base_url=http://a/v1"], r"asking a server may cost money; say how much with models\.budget_usd"),
        (["chat.base_url=http://a/v1", "models.budget_usd=null"], "asking a server may cost money"),
        (["judge.base_url=http://a/v1", "models.budget_usd=-1"], "models.budget_usd"),
        (["models.mode=record"], "only how models are reached"),
        (["suite=classic"], "only how models are reached"),
    ],
)
def test_a_command_that_could_spend_without_end_is_refused(words: list[str], message: str) -> None:
    with pytest.raises(UserError, match=message):
        reasking.settings_of(words)
    good = ["judge.base_url=http://a/v1", "models.budget_usd=2.5", "models.budget_calls=100"]
    assert reasking.settings_of(good) == ({"judge.base_url": "http://a/v1"}, Limits(usd=2.5, calls=100))
    assert reasking.settings_of(["judge.model=here"]) == ({"judge.model": "here"}, None)


def test_no_address_of_a_record_is_ever_asked_and_what_to_pass_is_said(served: Path) -> None:
    requests = []

    def answers(path: str, body: Any, headers: Any) -> tuple[int, Any]:
        requests.append(path)
        return 200, completion("Answer: Yes")

    path = next(served.glob("*/*/*/cell.json"))
    before = path.read_text()
    with serving(answers) as url:
        content = json.loads(before)
        content["settings"]["judge.base_url"]["value"] = url
        content["settings"]["judge.key_variable"]["value"] = "HOME"
        content["overrides"]["judge.base_url"] = url
        path.write_text(json.dumps(content))
        try:
            check = check_of(served)
        finally:
            path.write_text(before)
    assert not requests and check.passed is None
    assert "name a server that has 'a-model' with judge.base_url=URL" in check.detail


def test_a_submission_s_cassette_is_that_of_its_study(served: Path, tmp_path: Path) -> None:
    archive = packing.pack(served, tmp_path / "study.zip", cassette=True).file
    bare = packing.pack(served, tmp_path / "bare.zip").file
    with unpacked(archive) as submission, judging("Yes") as url:
        assert check_of(submission.directory, base_url=url).passed is True
    with unpacked(bare) as submission:
        check = check_of(submission.directory)
    assert check.passed is None and "holds no recorded calls" in check.detail


def test_chats_and_embeddings_come_back_from_a_cassette_as_they_were_asked(tmp_path: Path) -> None:
    """Only a call whose schema has a pattern does not come back."""
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    chat = ChatCall(
        (Message("system", ("be brief",)), Message("user", ("what is", image, "this?"))), {"type": "object"}, 64, 0.5
    )
    embed, titled = EmbedCall((image, image + 1)), ChatCall((Message("user", ("?",)),), {"title": "?"})
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    cassette = Cassette([], tmp_path / "c.sqlite")
    answers = [(chat, {"it": "noise"}), (embed, np.eye(2, dtype=np.float32)), (titled, {"a": "b"})]
    for ordinal, (call, value) in enumerate(answers):
        ticket = Ticket(f"cell/{3 + ordinal // 2}", ordinal, 10, "chat")
        request = call.request({"backend": "openai"}, ticket)
        pngs = {digest: images.png(pixels) for digest, pixels in request.images.items()}
        text = request.text.replace('{"title":"?"}', json.dumps(schema))
        assert (text != request.text) == (call is titled)
        request = request._replace(key=key_of(text), text=text)
        cassette.record(CassetteEntry(request, ticket, "a-model", Answer(value), pngs, Usage()))
    cassette.close()

    def sample(kind: str, run: int) -> Any:
        return reasking.sample(tmp_path / "c.sqlite", ["chat"], [kind], [f"cell/{run}"], 5, 0)

    ((call_,), total) = sample("chat", 3)
    assert total == 1 and call_.value == {"it": "noise"}
    assert call_.call.request({}, None).key == chat.request({}, None).key
    ((call_,), total) = sample("embed", 3)
    assert total == 1 and call_.value.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert call_.call.request({}, None).key == embed.request({}, None).key
    ((call_,), total) = sample("chat", 4)
    assert (total, call_.call) == (1, None) and sample("embed", 4) == ([], 0)


CHAT = ChatCall((Message("user", ("?",)),), temperature=0.0)


@pytest.mark.parametrize(
    ("call", "then", "now", "passed"),
    [
        (JudgeCall(np.zeros((1, 2, 2, 3), np.uint8), "?"), 0.50, 0.54, True),
        (JudgeCall(np.zeros((1, 2, 2, 3), np.uint8), "?"), 0.50, 0.56, False),
        (CHAT, "a", "a", True),
        (CHAT, "a", "b", False),
        (ChatCall(CHAT.messages, temperature=0.7), "a", "b", None),
        (EmbedCall(("a",)), np.array([[1.0, 0.0]], np.float32), np.array([[2.0, 0.1]], np.float32), True),
        (EmbedCall(("a",)), np.array([[1.0, 0.0]], np.float32), np.array([[1.0, 0.2]], np.float32), False),
        (EmbedCall(("a",)), np.array([[1.0, 0.0]], np.float32), np.array([[1.0]], np.float32), False),
    ],
)
def test_what_counts_as_the_same_answer(call: Any, then: Any, now: Any, passed: bool | None) -> None:
    assert reasking.compared("calls", 1, [RecordedCall({}, call, then)], [Answer(now)], "").passed is passed


def test_a_tenth_of_the_answers_may_differ_and_less_than_half_of_the_sample_settle_nothing_unless_they_differ() -> None:
    recorded = [RecordedCall({}, CHAT, "a")] * 20
    for count, answered, other, passed in (
        (20, 20, 2, True), (20, 20, 3, False), (20, 10, 0, True), (20, 9, 0, None), (20, 9, 9, False)
    ):  # fmt: skip
        answers = [Answer("b")] * other + [Answer("a")] * (answered - other)
        check = reasking.compared("calls", count, recorded[:answered], answers, "")
        assert check.passed is passed
        assert ("fewer than half of the 20 that were drawn" in check.detail) == (passed is None)
