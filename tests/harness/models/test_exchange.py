"""Recorded calls are exported and imported between studies; nothing else in a foreign file is taken over."""

import functools
import hashlib
import json
import lzma
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from guidebench.harness.commands import cli
from guidebench.harness.errors import UserError
from guidebench.harness.execution import Models
from guidebench.harness.models import cassette_checks, exchange, study_models
from guidebench.harness.models.backends import recipes
from guidebench.harness.models.backends.images import png
from guidebench.harness.models.calls import Answer, ChatCall, EmbedCall, JudgeCall, Message, Ticket, Usage
from guidebench.harness.models.cassette import MERGED, Cassette, CassetteEntry, files, merge
from guidebench.harness.models.exchange import export, import_, stats
from tests.refusals import check_refused

SCHEMA = {"type": "object", "properties": {"steps": {"type": "array"}}, "required": ["steps"]}
TOOK = Usage(calls=1, tokens_in=70, tokens_out=5, images=2, seconds=0.25, usd=0.5)
CALLS = (
    (JudgeCall(np.arange(96, dtype=np.uint8).reshape(2, 4, 4, 3), "Is it done?"), 0.25, ""),
    (ChatCall((Message("user", ("a plan?",)),), schema=SCHEMA), {"steps": ["key", "door"]}, ""),
    (ChatCall((Message("user", ("what is it?", np.ones((4, 4, 3), np.uint8))),), temperature=0.5), "a key", ""),
    (EmbedCall(("a", "b")), np.eye(2, 3, dtype=np.float32), ""),
    (EmbedCall(("c",)), None, "timeout"),
)


def ticket_of(number: int, run: str = "cell/0") -> Ticket:
    return Ticket(run, number, 10 * number)


def record(study: Path, name: str = "1", run: str = "cell/0", model: str = "tiny") -> Cassette:
    cassette = Cassette([], study / "models" / f"shard-{name}.sqlite")
    for number, (call, value, failure) in enumerate(CALLS):
        call_request = call.request({"model": "tiny"}, ticket_of(number, run))
        pngs = {digest: png(image) for digest, image in call_request.images.items()}
        cassette.record(
            CassetteEntry(call_request, ticket_of(number, run), model, Answer(value, failure, TOOK), pngs, TOOK)
        )  # type: ignore[arg-type]
    return cassette


def find_answers(study: Path, run: str = "cell/0") -> list[Answer | None]:
    cassette = Cassette(files(study / "models"), None)
    requests = [call.request({"model": "tiny"}, ticket_of(number, run)) for number, (call, *_) in enumerate(CALLS)]
    return [cassette.find(call_request, ticket_of(number, run)) for number, call_request in enumerate(requests)]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    record(tmp_path / "study").close()
    return tmp_path / "study"


@pytest.fixture
def file(study: Path, tmp_path: Path) -> Path:
    assert export(study, tmp_path / "calls.sqlite") == len(CALLS)
    return tmp_path / "calls.sqlite"


def test_an_exported_study_answers_the_same_where_it_is_imported(study: Path, file: Path, tmp_path: Path) -> None:
    assert import_(file, tmp_path / "new") == len(CALLS)
    for answer, original in zip(find_answers(tmp_path / "new"), find_answers(study), strict=True):
        assert np.array_equal(answer.value, original.value) and answer[1:] == original[1:]
    imported, original = stats(tmp_path / "new"), stats(study)
    assert imported.models[0].spent == Usage() and original.models[0].spent == Usage(
        *(len(CALLS) * field for field in TOOK)
    )
    assert imported.models[0][:3] == original.models[0][:3] and imported[1:] == original[1:]
    assert import_(file, tmp_path / "new") == len(CALLS)  # importing twice adds nothing
    assert stats(tmp_path / "new") == imported


def test_a_compressed_export_is_smaller_and_answers_the_same(study: Path, file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "calls.sqlite.xz"
    assert export(study, packed) == len(CALLS) and packed.stat().st_size < file.stat().st_size / 4
    assert import_(packed, tmp_path / "other") == len(CALLS)
    assert stats(tmp_path / "other").models[0][:3] == stats(study).models[0][:3]
    assert not [path.name for path in tmp_path.iterdir() if path.name.startswith(".")]


def test_what_no_import_would_decompress_is_not_exported_so(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "MOST", 1_000)
    check_refused(r"name the file without \.xz", exchange._export, study, tmp_path / "calls.sqlite.xz", {})
    assert not [path.name for path in tmp_path.iterdir() if "calls" in path.name]


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        (lzma.compress(bytes(2**22)), "decompresses to more than"),
        (lzma.compress(os.urandom(2**12))[:-40], "is cut off"),
        (b"SQLite format 3", "cannot be decompressed"),
    ],
)
def test_a_compressed_file_that_is_none_of_ours_is_refused(stream: bytes, message: str, tmp_path: Path) -> None:
    packed = tmp_path / "calls.sqlite.xz"
    packed.write_bytes(stream)
    check_refused(message, import_, packed, tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_arrays_that_were_not_kept_are_handed_on_as_that(study: Path, tmp_path: Path) -> None:
    merge(study / "models", ["cell/0"])
    assert export(study, tmp_path / "calls.sqlite") == len(CALLS)
    assert import_(tmp_path / "calls.sqlite", tmp_path / "new") == len(CALLS)
    assert [None if answer is None else answer.failure for answer in find_answers(tmp_path / "new")] == [
        "",
        "",
        "",
        None,
        "timeout",
    ]
    assert stats(tmp_path / "new").models[0].answers.calls == 4, "the cost of a dropped answer stays known"
    record(tmp_path / "whole").close()
    export(tmp_path / "whole", tmp_path / "all.sqlite")
    import_(tmp_path / "all.sqlite", tmp_path / "new")
    restored = find_answers(tmp_path / "new")[3]
    assert restored is not None and np.array_equal(restored.value, CALLS[3][1])


def test_what_a_study_has_itself_comes_first(file: Path, tmp_path: Path) -> None:
    cassette = Cassette([], tmp_path / "mine" / "models" / "shard-0.sqlite")
    call_request = CALLS[0][0].request({"model": "tiny"}, None)
    cassette.record(CassetteEntry(call_request, ticket_of(0), "tiny", Answer(0.75, "", TOOK), {}, TOOK))
    cassette.close()
    merge(tmp_path / "mine" / "models")
    import_(file, tmp_path / "mine")
    assert find_answers(tmp_path / "mine")[0].value == 0.75


def test_a_study_that_runs_is_exported_and_counted_as_far_as_it_is(tmp_path: Path) -> None:
    writing = record(tmp_path / "study")
    assert export(tmp_path / "study", tmp_path / "calls.sqlite") == len(CALLS)
    counts = stats(tmp_path / "study")
    writing.close()
    assert counts == stats(tmp_path / "study") and stats(tmp_path / "calls.sqlite").models[0].answers.calls == 4


def test_questions_are_counted_once_and_models_apart(study: Path) -> None:
    record(study, "2", "cell/1").close()
    record(study, "3", "cell/2", "other").close()
    merge(study / "models")
    statistics = stats(study)
    tiny, other = (next(model for model in statistics.models if model.model == name) for name in ("tiny", "other"))
    # Three runs share a judgement, a chat without temperature and an embedding; chats at a temperature are three more.
    assert tiny.answers.calls + other.answers.calls == 6
    assert (tiny.failures, other.failures) == ({"timeout": 2}, {"timeout": 1})
    assert (tiny.spent.calls, tiny.spent.usd, other.spent.calls) == (10, 5.0, 5)
    assert statistics.images == 3


def test_a_cassette_tells_digests_licences_and_prices_of_its_models(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    smollm2, hosted = recipes.recipe("smollm2_135m"), recipes.recipe("gpt-4o")
    cassette = Cassette([], tmp_path / "models" / "shard-1.sqlite")
    identities = {"small": {"digest": smollm2.digest}, "gpt-4o": {"model": "gpt-4o", "digest": "no digest"}, "x": {}}
    for number, (name, identity) in enumerate(identities.items()):
        request = CALLS[1][0].request(identity, ticket_of(number))
        cassette.record(CassetteEntry(request, ticket_of(number), name, Answer("yes", "", TOOK), {}, TOOK))
    cassette.close()
    assert {model.model: model.digests for model in stats(tmp_path).models} == {
        "small": (smollm2.digest,), "gpt-4o": (), "x": ()
    }  # fmt: skip
    assert cli.main(["models", "stats", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert f"digest    {smollm2.digest}\n  licence   Apache-2.0\n  price     free by the token" in out
    assert f"licence   {hosted.licence}\n  price     2.5 / 10 USD per million tokens, 2024-08-06" in out
    assert "licence   unknown, since it has no recipe\n  price     unknown" in out
    assert cli.main(["models", "stats", "--json", str(tmp_path)]) == 0
    models = {model["model"]: model for model in json.loads(capsys.readouterr().out)["models"]}
    assert models["small"]["digests"] == [smollm2.digest] and models["gpt-4o"]["licence"] == hosted.licence


def test_an_export_replaces_nothing_and_leaves_nothing_behind(study: Path, file: Path) -> None:
    check_refused(r"calls.sqlite is there already", export, study, file)
    check_refused(r"nowhere holds no recorded calls", export, study.parent / "nowhere", study.parent / "new.sqlite")
    assert sorted(path.name for path in study.parent.iterdir()) == ["calls.sqlite", "study"]


def change(file: Path, *statements: str, parameters: tuple = ()) -> None:
    db = sqlite3.connect(file)
    for statement in statements:
        db.execute(statement, parameters)
    db.commit()
    db.close()


def forge(request: dict, value: str, data: bytes | None = None) -> Callable[[Path], None]:
    """Return a change of a file: it adds a call, with the bytes of an array, that no study made."""

    def add(file: Path) -> None:
        text = json.dumps({"model": {"model": "tiny"}, **request})
        key = hashlib.sha256(text.encode()).hexdigest()
        change(file, "INSERT INTO requests VALUES (?, ?)", parameters=(key, text))
        row = (key, "cell/0", value, "judge", "", 0, 0, "tiny", "{}", 1, 0, 0, 0, 0.0, 0.0)
        change(file, f"INSERT INTO answers VALUES ({','.join('?' * len(row))})", parameters=row)
        if data is not None:
            change(file, "INSERT INTO arrays VALUES (?, 'cell/0', ?)", parameters=(key, data))

    return add


def vectors(shape: str, data: bytes, items: tuple[str, ...] = ("a",)) -> Callable[[Path], None]:
    """Return a change of a file: it adds an answer to a call to embed."""
    return forge({"kind": "embed", "items": [*items]}, f'{{"array":"float32","shape":{shape}}}', data)


def chat(schema: object) -> dict:
    return {"kind": "chat", "messages": [], "schema": schema, "max_tokens": 9, "temperature": 0}


def sets(table: str, column: str, value: object) -> Callable[[Path], None]:
    return lambda file: change(file, f"UPDATE {table} SET {column} = ?", parameters=(value,))


HOSTILE = {
    "number for a run": sets("answers", "run", b"cell/0"),
    "long name": sets("answers", "model", "m" * 2_000),
    "negative cost": sets("answers", "usd", -1.0),
    "infinite cost": sets("answers", "usd", float("inf")),
    "text for a count": sets("failures", "tokens_in", "many"),
    "too much to add up": sets("answers", "calls", 2**62),
    "detail of lists": sets("answers", "detail", '{"a": [1]}'),
    "deep detail": sets("answers", "detail", "[" * 60_000),
    "unknown failure": sets("failures", "kind", "__import__('os')"),
    "probability of 2": sets("answers", "value", "2.0"),
    "answers of another kind": sets("answers", "value", '{"text": "yes"}'),
    "no JSON": sets("answers", "value", "{"),
    "other request": lambda file: change(file, "UPDATE requests SET text = text || ' '"),
    "no request": lambda file: change(file, "DELETE FROM requests"),
    "no request's JSON": lambda file: change(
        file, "INSERT INTO requests VALUES (?, ?)", parameters=(hashlib.sha256(b"[]").hexdigest(), "[]")
    ),
    "other image": lambda file: change(
        file, "UPDATE images SET png = ? ", parameters=(png(np.full((4, 4, 3), 9, np.uint8)),)
    ),
    "no image": sets("images", "png", b"GIF89a"),
    "text for an image": sets("images", "png", "text"),
    "image of 17 million pixels": lambda file: change(
        file, "INSERT INTO images VALUES ('0', ?)", parameters=(png(np.zeros((4_200, 4_100, 3), np.uint8)),)
    ),
    "blob of 70 MB": lambda file: change(file, "INSERT INTO images VALUES ('0', zeroblob(70000000))"),
    "object with a number beyond floats": forge(chat(SCHEMA), '{"object": {"steps": [1e999]}}'),
    "object with NaN": forge(chat(SCHEMA), '{"object": {"steps": [NaN]}}'),
    "detail with NaN": sets("answers", "detail", '{"mass": NaN}'),
    "object that does not fit": forge(chat(SCHEMA), '{"object": {"steps": 1}}'),
    "schema elsewhere": forge(chat({"$ref": "http://127.0.0.1:9/schema.json"}), '{"object": {}}'),
    "schema without end": forge(chat({"$ref": "#"}), '{"object": {}}'),
    "no schema": forge(chat({"type": 7}), '{"object": {}}'),
    "schema with a pattern": forge(chat({"properties": {"x": {"pattern": "^(a|a)*$"}}}), '{"object": {"x": "aaa!"}}'),
    "schema of doubled references": forge(
        chat({"$defs": {"1": {"allOf": [{"$ref": "#/$defs/1"}] * 2}}, "$ref": "#/$defs/1"}), '{"object": {}}'
    ),
    "schema that compares each with each": forge(
        chat({"properties": {"x": {"uniqueItems": True}}}), json.dumps({"object": {"x": [{"n": n} for n in range(9)]}})
    ),
    "schema of another kind": forge(chat({"required": 5}), '{"object": {}}'),
    "long schema": forge(chat({"title": "x" * 70_000}), '{"object": {}}'),
    "deep schema": forge(chat(functools.reduce(lambda inner, _: {"items": inner}, range(20), {})), '{"object": {}}'),
    "vectors for other items": vectors("[0,4]", b""),
    "shape of truths": vectors("[true,true]", bytes(4)),
    "shape beyond its bytes": vectors("[1,5]", bytes(16)),
    "shape beyond all memory": vectors("[1,99999999999999]", bytes(16)),
    "vector that is not finite": vectors("[1,1]", b"\0\0\xc0\x7f"),
    "vector of another type": forge({"kind": "embed", "items": ["a"]}, '{"array":"object","shape":[1,1]}', bytes(8)),
    "vector as text": sets("arrays", "data", "0" * 24),
    "array of 70 MB": sets("arrays", "data", bytes(70_000_000)),
    "array without an answer": lambda file: change(file, "INSERT INTO arrays VALUES ('0', 'cell/0', X'00')"),
    "array of a chat": lambda file: change(
        file, "INSERT INTO arrays SELECT key, run, X'00' FROM answers WHERE value LIKE '%text%'"
    ),
}
LAYOUTS = {
    "trigger": ("CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM requests; END",),
    "view": (
        "ALTER TABLE images RENAME TO hidden",
        "CREATE VIEW images AS WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT n, n FROM r",
    ),
    "table more": ("CREATE TABLE more (a)",),
    "column more": ("ALTER TABLE requests ADD COLUMN more TEXT",),
    "index of an expression": ("CREATE INDEX i ON requests (abs(key))",),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_row_that_is_not_ours_is_named_and_nothing_is_taken(file: Path, tmp_path: Path, name: str) -> None:
    """Neither by an import nor by a study that names the file with `models.cassette`."""
    HOSTILE[name](file)
    refusal = r"calls\.sqlite(: row \d+ of \w+ is not what this| is no cassette| holds a value of more than 64.0 MiB)"
    for reading in (
        lambda: import_(file, tmp_path / "new"),
        lambda: study_models.named_sources(Models(cassette=str(file))),
    ):
        with pytest.raises(UserError, match=refusal) as error:
            reading()
        assert len(str(error.value)) < 700 and not (tmp_path / "new").exists()


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_file_whose_layout_is_not_ours_is_not_read_at_all(file: Path, tmp_path: Path, name: str) -> None:
    change(file, *LAYOUTS[name])
    models = Models(cassette=str(file))
    for reading in (
        lambda: import_(file, tmp_path / "new"), lambda: stats(file), lambda: export(file, tmp_path / "again"),
        lambda: study_models.named_sources(models),
    ):  # fmt: skip
        check_refused(r"calls\.sqlite is no cassette", reading)
    assert not (tmp_path / "new").exists()


def test_a_file_that_is_still_written_is_refused(tmp_path: Path) -> None:
    writing = record(tmp_path / "study")
    with pytest.raises(UserError, match=r"shard-1.sqlite is being written.*bench models export"):
        import_(tmp_path / "study" / "models" / "shard-1.sqlite", tmp_path / "new")
    writing.close()


def test_a_damaged_page_is_found_before_anything_is_taken(file: Path, tmp_path: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4_200:8_000] = bytes(3_800)
    file.write_bytes(bytes(content))
    check_refused(r"calls.sqlite", import_, file, tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("text", [b"CREATE TABLE images", b"requests", b"key TEXT"])
def test_a_damaged_layout_is_named_wherever_it_is_met(file: Path, tmp_path: Path, text: bytes) -> None:
    """The file's SQL is then not valid UTF-8, nor is SQLite's message about it."""
    file.write_bytes(file.read_bytes().replace(text, text[:-3] + b"\xff" + text[-2:]))
    for reading in (lambda: import_(file, tmp_path / "new"), lambda: stats(file), lambda: export_of(file, tmp_path)):
        check_refused(r"is no cassette, or", reading)
    assert not (tmp_path / "new").exists()


def export_of(file: Path, root: Path) -> int:
    (root / "other" / "models").mkdir(parents=True, exist_ok=True)
    (root / "other" / "models" / MERGED).write_bytes(file.read_bytes())
    return export(root / "other", root / "again.sqlite")


def test_a_file_that_takes_for_ever_is_let_go(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cassette_checks, "SECONDS", 0.0)
    monkeypatch.setattr(cassette_checks, "SPEED", 2.0**60)
    check_refused(r"calls.sqlite: looking at it takes longer than", import_, file, tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_many_rows_are_taken_in_bounded_memory(tmp_path: Path) -> None:
    import tracemalloc

    cassette = Cassette([], tmp_path / "study" / "models" / "shard-1.sqlite")
    for number in range(1_500):
        embed_request = EmbedCall((f"{number}" * 2_000,)).request({"model": "tiny"}, None)
        cassette.record(
            CassetteEntry(
                embed_request, ticket_of(number), "tiny", Answer(np.ones((1, 8), np.float32), "", TOOK), {}, TOOK
            )
        )
    cassette.close()
    export(tmp_path / "study", tmp_path / "calls.sqlite")
    assert (tmp_path / "calls.sqlite").stat().st_size > 8 * 2**20
    tracemalloc.start()
    assert import_(tmp_path / "calls.sqlite", tmp_path / "new") == 1_500
    assert tracemalloc.get_traced_memory()[1] < 2 * 2**20
    tracemalloc.stop()


def test_the_commands_say_what_is_there(study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    change_name = "UPDATE {} SET model = 'tiny' || char(27) || '[31m'"
    change(
        study / "models" / "shard-1.sqlite", *(change_name.format(table) for table in ("answers", "failures", "spent"))
    )
    assert cli.main(["models", "export", str(study), str(tmp_path / "calls.sqlite")]) == 0
    assert cli.main(["models", "import", str(tmp_path / "calls.sqlite"), str(tmp_path / "new")]) == 0
    assert cli.main(["models", "stats", str(study)]) == 0
    out = capsys.readouterr().out
    assert "calls.sqlite: 5 answers and failures" in out and "\x1b" not in out
    assert "tiny\\x1b[31m\n  answered  4 questions, 280 tokens in, 20 out, 8 images, 1.0 s, 2.0000 USD" in out
    assert "failed    1 timeout" in out and "spent     5 calls" in out and "3 images, 0.0 MiB" in out
    assert cli.main(["models", "stats", "--json", str(tmp_path / "new" / "models" / MERGED)]) == 0
    (model,) = json.loads(capsys.readouterr().out)["models"]
    assert model["answers"]["calls"] == 4 and model["spent"]["calls"] == 0 and model["failures"] == {"timeout": 1}


def test_keys_leave_no_study(study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SERVER_KEY", "0123456789abcdef")
    echoed = json.dumps({"text": "you sent 0123456789abcdef"}, separators=(",", ":"))
    change(
        study / "models" / "shard-1.sqlite",
        f"UPDATE answers SET value = '{echoed}' WHERE key IN (SELECT key FROM answers LIMIT 1)",
        'UPDATE failures SET detail = \'{"message":"Bearer 0123456789abcdef"}\'',
    )
    export(study, tmp_path / "calls.sqlite")
    assert b"0123456789abcdef" not in (tmp_path / "calls.sqlite").read_bytes()
    assert b"you sent [removed]" in (tmp_path / "calls.sqlite").read_bytes()
    change(study / "models" / "shard-1.sqlite", "UPDATE requests SET text = text || '0123456789abcdef'")
    check_refused(r"questions recorded in .* hold the value of A_SERVER_KEY", export, study, tmp_path / "more.sqlite")
    assert not (tmp_path / "more.sqlite").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("stats", "nowhere"), "nowhere holds no recorded calls"),
        (("export", "nowhere", "calls.sqlite"), "nowhere holds no recorded calls"),
        (("import", "nowhere.sqlite", "study"), "nowhere.sqlite: no such cassette"),
    ],
)
def test_a_mistake_is_said_in_one_line(tmp_path, monkeypatch, capsys, words: tuple[str, ...], says: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(["models", *words]) == 2
    assert says in capsys.readouterr().err and list(tmp_path.iterdir()) == []
