"""Recorded answers are found again by their own runs, whatever is killed, merged, damaged or full."""

import random
import shutil
import signal
import sqlite3
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from guidebench.harness.models.backends.images import png
from guidebench.harness.models.calls import Answer, ChatCall, EmbedCall, JudgeCall, Message, Request, Ticket, Usage
from guidebench.harness.models.cassette import MERGED, Cassette, CassetteEntry, check, files, lost_arrays, merge
from tests import programs
from tests.refusals import check_refused

TOOK = Usage(calls=1, tokens_in=70, tokens_out=1, images=2, seconds=0.25, usd=0.5)


def question(text: str) -> Request:
    return JudgeCall(np.zeros((0, 1, 1, 3), np.uint8), text).request({"model": "tiny"}, None)


def ticket_of(run: str = "cell/0", ordinal: int = 0) -> Ticket:
    return Ticket(run, ordinal, 10 * ordinal)


def tell(cassette: Cassette, request: Request, ticket: Ticket, value: object, failure: str = "") -> None:
    cassette.record(CassetteEntry(request, ticket, "tiny", Answer(value, failure, TOOK, TOOK, {"mass": 0.5}), {}, TOOK))  # type: ignore[arg-type]


def shard(directory: Path, name: str, *answers: tuple[Request, Ticket, object, str]) -> Path:
    """Write the shard of a process that has ended, and return its path."""
    path = directory / f"shard-{name}.sqlite"
    cassette = Cassette([], path)
    for answer in answers:
        tell(cassette, *answer)
    cassette.close()
    return path


def rows(path: Path, query: str) -> list[tuple]:
    db = sqlite3.connect(path)
    records = db.execute(query).fetchall()
    db.close()
    return records


A, B = question("a"), question("b")
TEXT = ChatCall((Message("user", ("a",)),)).request({"model": "tiny"}, None)
OBJECT = ChatCall((Message("user", ("a",)),), {"type": "object"}).request({"model": "tiny"}, None)
VECTORS = EmbedCall(("a",)).request({"model": "tiny"}, None)
NO_VECTORS = EmbedCall(()).request({"model": "tiny"}, None)


@pytest.mark.parametrize(
    ("call_request", "value"),
    [
        (A, 0.1 + 0.2),
        (A, 0.0),
        (TEXT, "yes 😀 {0} <b>\x00"),
        (TEXT, ""),
        (OBJECT, {"plan": ["key", 1, 2.5, None, {"é": "\n"}]}),
        (VECTORS, np.random.default_rng(0).normal(size=(1, 5)).astype(np.float32)),
        (NO_VECTORS, np.zeros((0, 4), np.float32)),
    ],
)
def test_an_answer_is_found_as_it_was_told(tmp_path: Path, call_request: Request, value) -> None:
    cassette = Cassette([], tmp_path / "shard-1.sqlite")
    assert cassette.find(call_request, ticket_of()) is None
    tell(cassette, call_request, ticket_of(), value)
    for answer in (
        cassette.find(call_request, ticket_of()),
        Cassette([tmp_path / "shard-1.sqlite"], None).find(call_request, ticket_of()),
    ):
        assert answer is not None and answer.failure == "" and type(answer.value) is type(value)
        assert np.array_equal(answer.value, value)
        assert (answer.usage, answer.billed, answer.detail) == (TOOK, Usage(), {"mass": 0.5})


def test_half_of_a_character_that_was_recorded_is_replaced(tmp_path: Path) -> None:
    cassette = Cassette([], tmp_path / "shard-1.sqlite")
    tell(cassette, TEXT, ticket_of(), "yes \ud800")
    tell(cassette, OBJECT, ticket_of(), {"plan\udc00": ["\ud83d"]})
    assert [cassette.find(request, ticket_of()).value for request in (TEXT, OBJECT)] == [
        "yes \ufffd",
        {"plan\ufffd": ["\ufffd"]},
    ]


def test_a_failure_counts_in_its_own_run_at_its_own_question_alone(tmp_path: Path) -> None:
    cassette = Cassette([], tmp_path / "shard-1.sqlite")
    tell(cassette, A, ticket_of("cell/0", 3), None, "timeout")
    assert cassette.find(A, ticket_of("cell/0", 3)) == Answer(None, "timeout", TOOK, Usage(), {"mass": 0.5})
    assert cassette.find(A, ticket_of("cell/0", 4)) is None and cassette.find(A, ticket_of("cell/1", 3)) is None
    assert cassette.find(B, ticket_of("cell/0", 3)) is None
    tell(cassette, A, ticket_of("cell/0", 4), 0.5)
    tickets = (ticket_of("cell/0", 3), ticket_of("cell/0", 5), ticket_of("cell/1", 3))
    assert [cassette.find(A, ticket).failure for ticket in tickets] == ["timeout", "", ""]


def test_a_failure_is_found_in_whatever_order_the_files_are_read(tmp_path: Path) -> None:
    """The run failed, was killed, and asked again later in another process."""
    failed = shard(tmp_path, "z", (A, ticket_of("cell/0", 3), None, "server"))
    retried = shard(tmp_path, "a", (A, ticket_of("cell/0", 9), 0.5, ""))
    for sources in ([failed, retried], [retried, failed]):
        assert Cassette(sources, None).find(A, ticket_of("cell/0", 3)).failure == "server"


def test_each_run_is_told_again_what_it_was_told_once(tmp_path: Path) -> None:
    """Two workers make the same call at the same time, and a model's scores may depend on its batch."""
    shard(tmp_path, "b", (A, ticket_of("cell/0"), 0.25, ""), (B, ticket_of("cell/0", 1), 0.1, ""))
    shard(tmp_path, "a", (A, ticket_of("cell/1"), 0.75, ""))
    third = Cassette([tmp_path / "shard-b.sqlite"], tmp_path / "shard-0.sqlite")
    assert third.adopt(A, ticket_of("cell/2", 5)).value == 0.25
    assert (
        third.find(B, ticket_of("cell/2", 6)).value == 0.1
    )  # `find` copies nothing into this run's records, `adopt` does
    third.close()
    merge(tmp_path)
    merged = Cassette([tmp_path / MERGED], None)
    scores = [merged.find(A, ticket_of(f"cell/{run}", 77)).value for run in range(3)]
    assert scores == [0.25, 0.75, 0.25]
    assert rows(tmp_path / MERGED, "SELECT key, run FROM answers WHERE run = 'cell/2'") == [(A.key, "cell/2")]
    assert merged.find(A, ticket_of("cell/9")).value == 0.25  # of the first run by name, always the same


def test_hearing_a_stranger_s_answer_makes_the_study_s_record_complete(tmp_path: Path) -> None:
    elsewhere = shard(tmp_path / "other", "1", (A, ticket_of("elsewhere/0"), 0.25, ""))
    cassette = Cassette([elsewhere], tmp_path / "shard-1.sqlite")
    assert cassette.adopt(A, ticket_of("cell/0", 2)).value == 0.25
    cassette.close()
    assert Cassette([tmp_path / "shard-1.sqlite"], None).find(A, ticket_of("cell/0", 2)).value == 0.25
    assert rows(tmp_path / "shard-1.sqlite", "SELECT key, text FROM requests") == [(A.key, A.text)]
    assert rows(tmp_path / "shard-1.sqlite", "SELECT * FROM spent") == []


def test_frames_are_kept_once_and_only_if_wanted(tmp_path: Path) -> None:
    clips = np.random.default_rng(0).integers(0, 256, (5, 8, 8, 3), dtype=np.uint8)
    clip_requests = [JudgeCall(clips[begin : begin + 3], "p").request({}, None) for begin in range(3)]
    for keep, count in ((True, 5), (False, 0)):
        cassette = Cassette([], tmp_path / f"shard-{keep}.sqlite", keep_images=keep)
        needed = []
        for number, clip_request in enumerate(clip_requests):
            needed.append(len(cassette.lacks(clip_request.images)))
            pngs = {digest: png(clip_request.images[digest]) for digest in cassette.lacks(clip_request.images)}
            cassette.record(
                CassetteEntry(clip_request, ticket_of(ordinal=number), "tiny", Answer(0.5, "", TOOK), pngs, TOOK)
            )
        assert needed == ([3, 1, 1] if keep else [0, 0, 0])
        cassette.close()
        assert rows(tmp_path / f"shard-{keep}.sqlite", "SELECT COUNT(*) FROM images") == [(count,)]


RECORD = """
import sys
from pathlib import Path
from guidebench.harness.models.calls import Ticket, Answer, ChatCall, Message, Usage
from guidebench.harness.models.cassette import Cassette, CassetteEntry
shard, run, count, *sources = sys.argv[1:]
cassette = Cassette([Path(source) for source in sources], Path(shard))
for number in range(int(count)):
    call_request = ChatCall((Message("user", (f"{run} {number}" * 50,)),)).request({"model": "tiny"}, None)
    once = Usage(calls=1)
    cassette.record(CassetteEntry(call_request, Ticket(run, number, 0), "tiny", Answer("yes", "", once), {}, once))
    for source in sources:
        merged = ChatCall((Message("user", ("known",)),)).request({"model": "tiny"}, None)
        assert cassette.find(merged, Ticket(run, 0, 0)).value == "known"
    print(call_request.key, flush=True)
cassette.close()
"""


def test_a_process_killed_at_any_moment_loses_nothing_that_it_had_told(tmp_path: Path) -> None:
    draw = random.Random(0)
    answers: list[tuple[str, str]] = []
    for number in range(3):
        process = programs.start_python(RECORD, tmp_path / f"shard-{number}.sqlite", f"cell/{number}", 100_000)
        answers += [(process.stdout.readline().strip(), f"cell/{number}") for _ in range(draw.randrange(1, 40))]
        process.kill()
        answers += [(line.strip(), f"cell/{number}") for line in process.stdout.read().splitlines()]
    unmerged = Cassette(files(tmp_path), None)  # the files of killed processes are readable
    assert len(answers) >= 6 and all(
        unmerged.find(TEXT._replace(key=key), Ticket(run, -1, 0)).value == "yes" for key, run in answers
    )
    unmerged.close()
    merge(tmp_path)
    assert files(tmp_path) == [tmp_path / MERGED] and not list(tmp_path.glob("shard-*"))
    merged = Cassette([tmp_path / MERGED], None)
    assert all(merged.find(TEXT._replace(key=key), Ticket(run, -1, 0)).value == "yes" for key, run in answers)


def test_two_processes_write_shards_of_their_own_while_both_read_what_is_merged(tmp_path: Path) -> None:
    merged_request = ChatCall((Message("user", ("known",)),)).request({"model": "tiny"}, None)
    shard(tmp_path, "0", (merged_request, ticket_of(), "known", ""))
    merge(tmp_path)
    processes = [
        programs.start_python(RECORD, tmp_path / f"shard-{n}.sqlite", f"cell/{n}", 50, tmp_path / MERGED)
        for n in (1, 2)
    ]
    while any(process.poll() is None for process in processes):
        merge(tmp_path)  # merges shards of ended processes and leaves the others
        time.sleep(0.01)
    assert [len(process.stdout.read().splitlines()) for process in processes] == [50, 50]
    assert [process.returncode for process in processes] == [0, 0]
    merge(tmp_path)
    assert rows(tmp_path / MERGED, "SELECT COUNT(*) FROM answers") == [(101,)]
    assert rows(tmp_path / MERGED, "SELECT SUM(calls) FROM spent") == [(101,)]


def test_a_shard_in_use_is_left_until_its_process_has_ended(tmp_path: Path) -> None:
    writing = Cassette([], tmp_path / "shard-1.sqlite")
    tell(writing, A, ticket_of(), 0.5)
    merge(tmp_path)
    assert files(tmp_path) == [tmp_path / MERGED, tmp_path / "shard-1.sqlite"]
    tell(writing, B, ticket_of(ordinal=1), 0.75)
    writing.close()
    merge(tmp_path)
    assert files(tmp_path) == [tmp_path / MERGED]
    assert Cassette(files(tmp_path), None).find(B, ticket_of()).value == 0.75


def test_a_shard_that_is_merged_but_not_removed_counts_once(tmp_path: Path) -> None:
    path = shard(tmp_path, "1", (A, ticket_of(), 0.5, ""))
    shutil.copy(path, tmp_path / "kept")
    merge(tmp_path)
    shutil.copy(tmp_path / "kept", path)  # as if killed just before it was removed
    assert files(tmp_path) == [tmp_path / MERGED]
    merge(tmp_path)
    assert not path.exists()
    assert rows(tmp_path / MERGED, "SELECT COUNT(*), SUM(usd) FROM spent") == [(1, 0.5)]


MERGE = "import sys; from pathlib import Path; from guidebench.harness.models.cassette import merge\n"
MERGE += "print('ready', flush=True); sys.stdin.readline(); merge(Path(sys.argv[1]))"


def test_merging_that_is_killed_at_any_moment_is_finished_by_the_next(tmp_path: Path) -> None:
    shards = [[(question(f"{n} {m}" * 200), ticket_of(f"cell/{n}", m), 0.5, "") for m in range(60)] for n in range(5)]
    for number, records in enumerate(shards):
        shard(tmp_path, str(number), *records)
    draw = random.Random(1)
    for _ in range(3):
        process = programs.start_python(MERGE, tmp_path, stdin=subprocess.PIPE)
        assert process.stdout.readline()
        process.stdin.close()
        time.sleep(draw.uniform(0.0, 0.15))
        process.kill()
        process.wait()
        cassette = Cassette(files(tmp_path), None)
        assert all(cassette.find(request, ticket).value == 0.5 for records in shards for request, ticket, *_ in records)
        cassette.close()
    merge(tmp_path)
    assert files(tmp_path) == [tmp_path / MERGED]
    assert rows(tmp_path / MERGED, "SELECT COUNT(*) FROM answers") == [(300,)]
    assert rows(tmp_path / MERGED, "SELECT SUM(calls) FROM spent") == [(300,)]


HALF = """
import os, sqlite3, sys
db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("PRAGMA cache_size = 2")
db.execute("BEGIN IMMEDIATE")
db.execute("DELETE FROM answers")
for number in range(2000):
    db.execute("INSERT INTO requests VALUES (?, ?)", (str(number), "x" * 5000))
os.kill(os.getpid(), 9)
"""


def test_what_a_killed_writer_left_half_written_is_undone_when_it_is_read(tmp_path: Path) -> None:
    shard(tmp_path, "1", *((question(str(n)), ticket_of(ordinal=n), 0.5, "") for n in range(50)))
    merge(tmp_path)
    assert programs.python(HALF, str(tmp_path / MERGED)).code == -signal.SIGKILL
    assert (tmp_path / f"{MERGED}-journal").stat().st_size > 0
    assert Cassette([tmp_path / MERGED], None).find(question("7"), ticket_of()).value == 0.5
    assert rows(tmp_path / MERGED, "SELECT COUNT(*) FROM requests") == [(50,)]


FILL = """
import resource, sys
from pathlib import Path
from guidebench.harness.errors import UserError
from guidebench.harness.models.calls import Ticket, Answer, ChatCall, Message, Usage
from guidebench.harness.models.cassette import Cassette, CassetteEntry
cassette, number = Cassette([], Path(sys.argv[1])), 0
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))  # the kernel refuses to let any file grow beyond
try:
    while True:
        call_request = ChatCall((Message("user", (f"{number}" * 999,)),)).request({"model": "tiny"}, None)
        once = Usage(calls=1)
        who = Ticket("cell/0", number, 0)
        cassette.record(CassetteEntry(call_request, who, "tiny", Answer("yes", "", once), {}, once))
        print(call_request.key)
        number += 1
except UserError as error:
    print(error, file=sys.stderr)
"""


def test_a_disk_that_is_full_is_said_and_costs_nothing_that_was_told(tmp_path: Path) -> None:
    path = tmp_path / "shard-1.sqlite"
    done = programs.python(FILL, str(path))
    assert f"{path} cannot be read or written" in done.err and "is the disk full?" in done.err
    keys = done.out.split()
    merge(tmp_path)
    merged = Cassette([tmp_path / MERGED], None)
    assert len(keys) > 10 and all(merged.find(TEXT._replace(key=key), ticket_of()).value == "yes" for key in keys)
    assert rows(tmp_path / MERGED, "SELECT SUM(calls) FROM spent") == [(len(keys),)]


def foreign(path: Path, *statements: str) -> None:
    db = sqlite3.connect(path)
    for statement in statements:
        db.execute(statement)
    db.commit()
    db.close()


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes(b""),
        lambda path: path.write_text("not a database, but a text that is long enough to be one" * 50),
        lambda path: path.write_bytes(path.read_bytes()[:100] + bytes(3_000)),
        lambda path: (path.unlink(), foreign(path, "CREATE TABLE answers (key, value)")),
        lambda path: foreign(path, "CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM requests; END"),
        lambda path: foreign(path, "DROP TABLE answers", "CREATE VIEW answers AS SELECT 1 AS key"),
        lambda path: path.unlink(),
    ],
)
def test_a_damaged_or_foreign_file_is_named(tmp_path: Path, damage) -> None:
    path = shard(tmp_path, "1", (A, ticket_of(), 0.5, ""))
    damage(path)
    for reading in (lambda: check(path), lambda: Cassette([path], None)):
        check_refused(r"shard-1.sqlite( is no cassette|: no such cassette)", reading)


def test_a_damaged_shard_is_named_once_all_others_are_merged(tmp_path: Path) -> None:
    shard(tmp_path, "1", (A, ticket_of(), 0.5, ""))
    (tmp_path / "shard-0.sqlite").write_text("nothing of ours" * 100)
    shard(tmp_path, "2", (B, ticket_of("cell/1"), 0.5, ""))
    check_refused(r"shard-0.sqlite is no cassette", merge, tmp_path)
    assert rows(tmp_path / MERGED, "SELECT COUNT(*) FROM answers") == [(2,)]
    assert [path.name for path in files(tmp_path)] == [MERGED, "shard-0.sqlite"]


@pytest.mark.parametrize(
    "value", ["", "{", "1", "2.5", "NaN", "[0.5]", '{"text": 1}', '{"float32": "AA", "shape": [1, 1]}']
)
def test_an_answer_that_cannot_be_read_is_damage_too(tmp_path: Path, value: str) -> None:
    path = shard(tmp_path, "1", (A, ticket_of(), 0.5, ""))
    foreign(path, f"UPDATE answers SET value = '{value}'")
    check_refused(r"shard-1.sqlite is damaged", Cassette([path], None).find, A, ticket_of())


def vectors(number: int) -> tuple[Request, np.ndarray]:
    embed_request = EmbedCall((f"text {number}",)).request({"model": "tiny"}, None)
    return embed_request, np.full((1, 300), number + 0.5, np.float32)


def test_an_array_is_kept_as_its_bytes_beside_what_it_is(tmp_path: Path) -> None:
    request, vector = vectors(1)
    path = shard(tmp_path, "1", (request, ticket_of(), vector, ""))
    assert rows(path, "SELECT value FROM answers") == [('{"array":"float32","shape":[1,300]}',)]
    assert rows(path, "SELECT key, run, data FROM arrays") == [(request.key, "cell/0", vector.tobytes())]
    cassette = Cassette([path], tmp_path / "shard-2.sqlite")
    assert np.array_equal(cassette.adopt(request, ticket_of("cell/1", 3)).value, vector), (
        "another run adopts the answer"
    )
    cassette.close()
    assert rows(tmp_path / "shard-2.sqlite", "SELECT run, data FROM arrays") == [("cell/1", vector.tobytes())]


def test_answers_of_a_batch_are_one_transaction(tmp_path: Path) -> None:
    cassette = Cassette([], tmp_path / "shard-1.sqlite")
    records = [
        CassetteEntry(request, ticket_of(), "tiny", Answer(vector, "", TOOK), {}, TOOK)
        for request, vector in map(vectors, range(5))
    ]
    statements: list[str] = []
    cassette.record(records[0])
    cassette._shard_db.set_trace_callback(statements.append)
    cassette.record(*records[1:])
    assert statements.count("BEGIN IMMEDIATE") == statements.count("COMMIT") == 1
    assert [cassette.find(record.request, ticket_of()).value[0, 0] for record in records] == [0.5, 1.5, 2.5, 3.5, 4.5]


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        ("UPDATE arrays SET data = zeroblob(1199)", "expected 1,200 bytes for .*, got 1,199"),
        ("UPDATE arrays SET data = 'text'", "expected 1,200 bytes for .*, got str"),
        ("UPDATE answers SET value = replace(value, '[1,300]', '[1,301]')", "expected 1,204 bytes"),
        ("UPDATE answers SET value = replace(value, '[1,300]', '[300,1]')", "expected float32 .1, d., got .300, 1."),
        ("UPDATE answers SET value = replace(value, '[1,300]', '[300]')", "no array of float32 with 2 axes"),
        ("UPDATE answers SET value = replace(value, '[1,300]', '[99999999999,1]')", "no array of float32"),
        ("UPDATE answers SET value = replace(value, 'float32', 'float64')", "no array of float32"),
        ("UPDATE answers SET value = replace(value, 'float32', 'object')", "no array of float32"),
        ("UPDATE arrays SET data = CAST(X'0000807F' || zeroblob(1196) AS BLOB)", "a number that is not finite"),
    ],
)
def test_an_array_that_is_not_what_it_says_is_damage(tmp_path: Path, statement: str, says: str) -> None:
    request, vector = vectors(1)
    path = shard(tmp_path, "1", (request, ticket_of(), vector, ""))
    foreign(path, statement)
    check_refused(rf"shard-1.sqlite is damaged .*{says}", Cassette([path], None).find, request, ticket_of())


def test_arrays_of_finished_runs_are_dropped_and_their_answers_say_what_they_were(tmp_path: Path) -> None:
    (request_a, first), (request_b, second) = vectors(1), vectors(2)
    shard(tmp_path, "1", (request_a, ticket_of("cell/0"), first, ""), (A, ticket_of("cell/0", 1), 0.5, ""))
    merge(tmp_path)  # before it had finished
    shard(tmp_path, "2", (request_b, ticket_of("cell/0", 2), second, ""), (request_b, ticket_of("cell/1"), second, ""))
    merge(tmp_path, ["cell/0"])
    path = tmp_path / MERGED
    assert rows(path, "SELECT run, key FROM arrays") == [("cell/1", request_b.key)]
    assert rows(path, "SELECT COUNT(*) FROM answers") == [(4,)]
    cassette = Cassette([path], tmp_path / "shard-3.sqlite")
    assert cassette.find(request_a, ticket_of("cell/0")) is None and cassette.dropped(request_a)
    assert np.array_equal(cassette.find(request_b, ticket_of("cell/0", 2)).value, second), (
        "the array of the unfinished run is kept"
    )
    assert cassette.find(A, ticket_of("cell/0", 1)).value == 0.5 and not cassette.dropped(A)
    assert (
        lost_arrays([path], ["cell/0"]) == {"tiny": 1}
        and lost_arrays([path], ["cell/1"]) == lost_arrays([path], []) == {}
    )
    tell(cassette, request_a, ticket_of("cell/0"), first + 1)  # asked again
    assert cassette.find(request_a, ticket_of("cell/0")).value[0, 0] == 2.5
    cassette.close()
    assert lost_arrays([path, tmp_path / "shard-3.sqlite"], ["cell/0"]) == {}
    merge(tmp_path)
    assert (
        lost_arrays([path], ["cell/0"]) == {}
        and Cassette([path], None).find(request_a, ticket_of("cell/0")).value[0, 0] == 2.5
    )


def test_the_room_of_arrays_that_are_dropped_is_given_back(tmp_path: Path) -> None:
    records = [vectors(number) for number in range(200)]
    shard(tmp_path, "1", *((request, ticket_of(), vector, "") for request, vector in records))
    merge(tmp_path)
    full_size = (tmp_path / MERGED).stat().st_size
    merge(tmp_path, ["cell/0"])
    assert full_size - (tmp_path / MERGED).stat().st_size > 200 * 4 * 300


def test_chats_with_images_are_recorded_as_text_that_names_them(tmp_path: Path) -> None:
    image = np.zeros((4, 4, 3), np.uint8)
    chat_request = ChatCall((Message("user", ("what is it?", image)),)).request({"model": "tiny"}, ticket_of())
    tell(Cassette([], tmp_path / "shard-1.sqlite"), chat_request, ticket_of(), "a key")
    ((text,),) = rows(tmp_path / "shard-1.sqlite", "SELECT text FROM requests")
    assert "what is it?" in text and next(iter(chat_request.images)) in text
