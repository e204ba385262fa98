"""Recorded calls asked again: of the model that the record names, reached as the verifier says and no other way."""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from guidebench.harness.errors import UserError
from guidebench.harness.models import keeping, keys
from guidebench.harness.models.backends import images
from guidebench.harness.models.budget import Limits
from guidebench.harness.models.calls import Asker, CallResult, ChatCall, EmbedCall, JudgeCall, Message, Usage
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
    """A server whose model answers every clip so."""
    with serving(lambda path, body, headers: (200, completion(f"Answer: {says}"))) as url:
        yield url


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study whose judge was a served model that says yes."""
    with judging("Yes") as url:
        return trained(tmp_path_factory.mktemp("served") / "study", *STUDY, *SERVED, f"judge.base_url={url}")


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A study whose judge was a model with tiny random weights that ran here, and where they are."""
    root = tmp_path_factory.mktemp("local")
    model = tiny_models.qwen_vl(root / "qwen_vl")
    judge = ("judge=transformers", "judge.dtype=float32", f"judge.model={model}")
    return trained(root / "study", *STUDY, *judge), model


def asked(
    study: Path, cassette: Path | None = None, count: int = 8, limits: Limits | None = AMPLE, **given: Any
) -> Check:
    """The check of `count` of the judge's calls, which may take `limits` together."""
    keeping.settle(keeping.folder(study))
    path = next(study.glob("*/*/*/cell.json"))
    cell = configuration(path.parent, path.parent.name.rpartition("-")[2])
    settings = {f"judge.{name}": value for name, value in given.items()}
    file = cassette or study / "models" / "cassette.sqlite"
    with tempfile.TemporaryDirectory() as spent:
        account = None if limits is None else ReaskingCost(Path(spent) / "budget.json", limits)
        (check,) = reasking.checks(cell, [0], file, settings, count, 1, 120.0, account)
    return check


def test_a_served_model_that_answers_as_recorded_agrees(served: Path) -> None:
    with judging("Yes") as url:
        check = asked(served, base_url=url)
    assert check.passed is True and check.what == "model calls (judge)"
    assert "recorded calls asked again of a-model; 8 of 8 answers agree within 0.05" in check.detail


def test_a_served_model_that_answers_otherwise_does_not(served: Path) -> None:
    with judging("No") as url:
        check = asked(served, base_url=url)
    assert check.passed is False and "0 of 8 answers agree" in check.detail


def test_no_server_is_asked_without_a_budget_nor_beyond_one(served: Path) -> None:
    requests = []

    def answers(path: str, body: Any, headers: Any) -> tuple[int, Any]:
        requests.append(path)
        return 200, completion("Answer: Yes")

    with serving(answers) as url:
        check = asked(served, limits=None, base_url=url)
        assert not requests and check.passed is None and "say how much with models.budget_usd=AMOUNT" in check.detail
        check = asked(served, limits=Limits(usd=1.0), base_url=url)
        assert not requests and "what a-model costs is not known: give its judge.price_in" in check.detail
        check = asked(served, limits=Limits(calls=3), base_url=url)
        assert len(requests) == 3 and check.passed is None and "models.budget_calls=3 is reached" in check.detail
        priced = {"price_in": 1_000.0, "price_out": 1_000.0}
        check = asked(served, limits=Limits(usd=0.001), base_url=url, **priced)
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


def test_what_a_command_says_of_servers_and_money() -> None:
    words = ["judge.base_url=http://a/v1", "models.budget_usd=2.5", "models.budget_calls=100"]
    assert reasking.settings_of(words) == ({"judge.base_url": "http://a/v1"}, Limits(usd=2.5, calls=100))
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
            check = asked(served)
        finally:
            path.write_text(before)
    assert not requests and check.passed is None
    assert "name a server that has 'a-model' with judge.base_url=URL" in check.detail


def test_a_model_that_is_not_there_leaves_the_calls_unchecked(served: Path) -> None:
    with judging("Yes") as url:
        pass  # and gone
    check = asked(served, base_url=url, attempts=1)
    assert check.passed is None and "8 got no answer (connection:" in check.detail


def test_a_model_that_runs_here_agrees_where_its_weights_are_named(local: tuple[Path, Path]) -> None:
    study, model = local
    check = asked(study, model=str(model))
    assert check.passed is True and "8 of 8 answers agree within 0.05" in check.detail


def test_no_path_of_a_record_is_ever_opened_and_what_to_pass_is_said(local: tuple[Path, Path]) -> None:
    check = asked(local[0])
    assert check.passed is None and "say where it is with judge.model=PATH" in check.detail


def altered(cassette: Path, target: Path, change: Callable[[sqlite3.Connection], None]) -> Path:
    shutil.copy(cassette, target)
    with closing(sqlite3.connect(target)) as db, db:
        change(db)
    return target


def test_answers_that_nobody_gave_are_noticed(local: tuple[Path, Path], tmp_path: Path) -> None:
    study, model = local
    keeping.settle(keeping.folder(study))
    invented = altered(
        study / "models" / "cassette.sqlite",
        tmp_path / "c.sqlite",
        lambda db: db.execute("UPDATE answers SET value = 1.0"),
    )
    check = asked(study, invented, model=str(model))
    assert check.passed is False and "0 of 8 answers agree" in check.detail


def test_calls_that_were_put_to_another_model_or_with_another_prompt_are_noticed(served: Path, tmp_path: Path) -> None:
    def change(name: str, new: str) -> Callable[[sqlite3.Connection], None]:
        def of(db: sqlite3.Connection) -> None:
            for key, text in db.execute("SELECT key, text FROM requests").fetchall():
                asked = json.loads(text)
                (asked["model"] if name == "model" else asked)[name] = new
                other = keys.CANONICAL.encode(asked)
                db.execute("UPDATE requests SET key = ?, text = ? WHERE key = ?", (keys.key_of(other), other, key))
                db.execute("UPDATE answers SET key = ? WHERE key = ?", (keys.key_of(other), key))

        return of

    cassette = served / "models" / "cassette.sqlite"
    keeping.settle(keeping.folder(served))
    check = asked(served, altered(cassette, tmp_path / "a.sqlite", change("model", "another")))
    assert check.passed is False and "they are another model's" in check.detail
    check = asked(served, altered(cassette, tmp_path / "b.sqlite", change("prompt", "Well?")))
    assert check.passed is False and "prompt is another" in check.detail


def test_frames_that_were_not_kept_cannot_be_shown_again(served: Path, tmp_path: Path) -> None:
    keeping.settle(keeping.folder(served))
    bare = altered(
        served / "models" / "cassette.sqlite", tmp_path / "c.sqlite", lambda db: db.execute("DELETE FROM images")
    )
    check = asked(served, bare, base_url="http://127.0.0.1:9/v1")
    assert check.passed is None and "whose images or arrays were not kept" in check.detail


def test_calls_whose_frames_are_left_out_stay_in_the_sample_and_are_not_said_to_be_asked(
    served: Path, tmp_path: Path
) -> None:
    def all_but_one(db: sqlite3.Connection) -> None:
        (text,) = db.execute("SELECT text FROM requests ORDER BY key").fetchone()
        kept = [frame["image"] for frame in json.loads(text)["clip"]]
        db.execute(f"DELETE FROM images WHERE digest NOT IN ({', '.join('?' * len(kept))})", kept)

    keeping.settle(keeping.folder(served))
    bare = altered(served / "models" / "cassette.sqlite", tmp_path / "c.sqlite", all_but_one)
    with judging("Yes") as url:
        check = asked(served, bare, base_url=url, count=10_000)
    assert (
        check.passed is None
        and check.detail.startswith("1 of ")
        and "were drawn, and the others' images" in check.detail
    )
    assert "1 of 1 answers agree" in check.detail and "fewer than half" in check.detail


def test_a_file_that_is_no_cassette_checks_nothing(served: Path, tmp_path: Path) -> None:
    file = tmp_path / "c.sqlite"
    file.write_bytes(b"SQLite format 3" + bytes(100))
    check = asked(served, file, base_url="http://127.0.0.1:9/v1")
    assert check.passed is None and "is no cassette" in check.detail


def test_a_submission_s_cassette_is_that_of_its_study(served: Path, tmp_path: Path) -> None:
    archive = packing.pack(served, tmp_path / "study.zip", cassette=True).file
    bare = packing.pack(served, tmp_path / "bare.zip").file
    with unpacked(archive) as submission, judging("Yes") as url:
        assert asked(submission.directory, base_url=url).passed is True
    with unpacked(bare) as submission:
        check = asked(submission.directory)
    assert check.passed is None and "holds no recorded calls" in check.detail


def test_chats_and_embeddings_come_back_from_a_cassette_as_they_were_asked(tmp_path: Path) -> None:
    image = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    chat = ChatCall(
        (Message("system", ("be brief",)), Message("user", ("what is", image, "this?"))), {"type": "object"}, 64, 0.5
    )
    embed = EmbedCall((image, image + 1))
    cassette = Cassette([], tmp_path / "c.sqlite")
    for ordinal, (call, value) in enumerate([(chat, {"it": "noise"}), (embed, np.eye(2, dtype=np.float32))]):
        asker = Asker("cell/3", ordinal, 10, "chat")
        request = keys.request({"backend": "openai"}, call, asker)
        pngs = {digest: images.png(pixels) for digest, pixels in request.images.items()}
        cassette.record(CassetteEntry(request, asker, "a-model", CallResult(value), pngs, Usage()))
    cassette.close()
    ((found,), total) = reasking.sample(tmp_path / "c.sqlite", ["chat"], ["chat"], ["cell/3"], 5, 0)
    assert total == 1 and found.value == {"it": "noise"}
    assert keys.call_key({}, found.call, None) == keys.call_key({}, chat, None)
    ((found,), total) = reasking.sample(tmp_path / "c.sqlite", ["chat"], ["embed"], ["cell/3"], 5, 0)
    assert total == 1 and found.value.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert keys.call_key({}, found.call, None) == keys.call_key({}, embed, None)
    assert reasking.sample(tmp_path / "c.sqlite", ["chat"], ["embed"], ["cell/4"], 5, 0) == ([], 0)


def test_a_call_whose_schema_has_a_pattern_is_not_asked_again(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}}
    asker, cassette = Asker("cell/3", 0, 10, "chat"), Cassette([], tmp_path / "c.sqlite")
    plain = keys.request({"backend": "openai"}, ChatCall((Message("user", ("?",)),), {"title": "?"}), asker)
    text = plain.text.replace('{"title":"?"}', json.dumps(schema))
    assert text != plain.text
    request = plain._replace(key=keys.key_of(text), text=text)
    cassette.record(CassetteEntry(request, asker, "a-model", CallResult({"a": "b"}), {}, Usage()))
    cassette.close()
    ((found,), total) = reasking.sample(tmp_path / "c.sqlite", ["chat"], ["chat"], ["cell/3"], 5, 0)
    assert total == 1 and found.call is None


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
    assert reasking.compared("calls", 1, [RecordedCall({}, call, then)], [CallResult(now)], "").passed is passed


def test_a_tenth_of_the_answers_may_differ() -> None:
    recorded = [RecordedCall({}, CHAT, "a")] * 20
    for count, passed in ((2, True), (3, False)):
        told = [CallResult("b")] * count + [CallResult("a")] * (20 - count)
        assert reasking.compared("calls", 20, recorded, told, "").passed is passed


def test_answers_of_less_than_half_of_the_sample_settle_nothing_unless_they_differ() -> None:
    recorded = [RecordedCall({}, CHAT, "a")] * 10
    assert reasking.compared("calls", 20, recorded, [CallResult("a")] * 10, "").passed is True
    check = reasking.compared("calls", 20, recorded[:9], [CallResult("a")] * 9, "")
    assert check.passed is None and "fewer than half of the 20 that were drawn" in check.detail
    assert reasking.compared("calls", 20, recorded[:9], [CallResult("b")] * 9, "").passed is False
