"""What the server of `bench watch` answers, and what it refuses; how it begins and ends."""

import http.client
import json
import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from guidebench.harness.commands import cli
from tests.reports.conftest import Writer
from tests.reports.live.conftest import Watch, append, row

Start = Callable[..., Watch]
pytestmark = pytest.mark.waits


def write_study(writer: Writer) -> Path:
    writer.cell("a", {0: {100: [0, 1]}, 1: {100: [1, 1]}}, status={0: "stopped"})
    return writer.finish()


@pytest.fixture
def study(writer: Writer) -> Path:
    return write_study(writer)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watch]:
    """A running `bench watch` for tests that only read from it."""
    watch = Watch(write_study(Writer(tmp_path_factory.mktemp("served") / "study")))
    watch.until("/parts/results", lambda answer: "<table" in answer.body)
    yield watch
    assert watch.end() == (0, "bench watch: ended\n", "")


@pytest.fixture
def watched(study: Path, watch: Start) -> Watch:
    watch_ = watch(study)
    watch_.until("/parts/results", lambda answer: "<table" in answer.body)
    return watch_


def test_the_page_is_served_on_the_loopback_interface_alone(served: Watch) -> None:
    page = served.get()
    assert page.status == 200 and "<h1>study-of-tests</h1>" in page.body
    assert page.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert page.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    port = urlsplit(served.address).port
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others or {"127.0.0.2"}:
        with socket.socket() as client:
            assert client.connect_ex((address, port)) != 0
    assert served.get(method="HEAD").body == ""


@pytest.mark.parametrize("path", ["/", "/events", "/parts/runs", "/report/report.html"])
def test_a_name_that_resolves_to_this_machine_is_refused_and_a_tunnel_to_it_served(served: Watch, path: str) -> None:
    for host in ("evil.example", "127.0.0.1.evil.example", "localhost.evil.example:80", "10.0.0.1", ""):
        answer = served.get(path, Host=host)
        assert answer.status == 403 and "study-of-tests" not in answer.body
    for host in ("localhost", "LOCALHOST:8080", "127.0.0.1:9", "[::1]:9000"):
        assert served.get(Host=host).status == 200


@pytest.mark.parametrize(
    "path",
    [
        "/study.json", "/report/../study.json", "/report/%2e%2e/study.json", "/report/..%2fstudy.json", "//etc/passwd",
        "/report//etc/passwd", "/report/", "/runs/../study.json", "/runs/grid/8x8/uer-a/seed-0/run.json",
        "/runs/grid/8x8/uer-a/seed-2/run.html", "/runs/grid/8x8/uer-a/run.html", "/parts/study.json", "/parts/",
        "/parts/..", "http://127.0.0.1/parts/none",
    ],
)  # fmt: skip
def test_no_other_file_is_served(served: Watch, path: str) -> None:
    answer = served.get(path)
    assert answer.status == 404 and '"schema"' not in answer.body


def test_requests_that_would_change_something_are_refused(served: Watch) -> None:
    before = {path: path.stat().st_mtime_ns for path in served.study.rglob("*")}
    for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
        answer = served.get("/report/report.html", method)
        assert answer.status == 405 and answer.headers["Allow"] == "GET, HEAD"
    assert {path: path.stat().st_mtime_ns for path in served.study.rglob("*")} == before


def events(watched: Watch) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection(urlsplit(watched.address).netloc, timeout=60)
    connection.request("GET", "/events")
    return connection.getresponse()


def next_event(stream: http.client.HTTPResponse) -> dict[str, dict[str, str]]:
    """Return the data of the next server-sent event of a stream."""
    while not (line := stream.readline()).startswith(b"data: "):
        assert line
    event: dict[str, dict[str, str]] = json.loads(line.removeprefix(b"data: "))
    return event


def test_an_event_tells_which_part_a_row_has_changed(watched: Watch, study: Path) -> None:
    stream = events(watched)
    before = next_event(stream)["versions"]
    append(study / "grid/8x8/uer-a/seed-0", row(200, 0), row(200, 1))
    while (after := next_event(stream)["versions"]) == before:
        pass
    assert after["results"] == before["results"]  # the other seed is at step 100
    assert after["runs"] != before["runs"]
    answer = watched.get("/parts/runs")
    assert answer.headers["ETag"] == f'"{after["runs"]}"' and "<polyline" in answer.body
    assert next_event(events(watched))["versions"] == after


def test_garbage_in_a_file_is_named_and_the_rest_goes_on(watched: Watch, study: Path) -> None:
    run = study / "grid/8x8/uer-a/seed-0"
    (run / "evaluations.jsonl").write_bytes(b"\xff\x00<script>alert(1)</script>\n")
    watched.until("/parts/state", lambda answer: "row 1: not JSON" in answer.body)
    (study / "study.json").write_bytes(b"{")
    watched.until("/parts/state", lambda answer: "study.json cannot be read as JSON" in answer.body)
    (run / "run.json").write_bytes(b"[" * 100_000)
    (run.parent / "cell.json").unlink()
    (run.parent / "cell.json").mkdir()
    answer = watched.until("/parts/state", lambda answer: "run.json cannot be read as JSON" in answer.body)
    assert "<script>" not in answer.body and "seed-1" in watched.get("/parts/runs").body


def test_the_whole_report_and_the_pages_of_runs_are_made_behind_the_page(watched: Watch, study: Path) -> None:
    before = sorted(study.rglob("*"))
    report = watched.until("/report/report.html", lambda answer: answer.status == 200)
    assert "study-of-tests: report" in report.body and "Partial report" in report.body
    page = watched.get(re.findall(r'href="(/runs/[^"]*)"', report.body)[0])
    assert page.status == 200 and "seed 0: run" in page.body and 'href="/report/report.html"' in page.body
    assert json.loads(watched.get("/report/summary.json").body)["rows"][0]["seeds"] == [0, 1]
    assert watched.get("/report/none.png").status == 404
    assert sorted(study.rglob("*")) == before  # nothing is written in the study


def test_a_report_that_cannot_be_made_says_why(watched: Watch, study: Path) -> None:
    (study / "grid/8x8/uer-a/seed-0/evaluations.jsonl").write_text("no json\nno json\n")
    report = watched.until("/report/report.html", lambda answer: "could not be made" in answer.body)
    assert "row 1: not JSON" in report.body and report.status == 503


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_the_server_ends_cleanly_while_a_page_is_open(watched: Watch, study: Path, how: signal.Signals) -> None:
    next_event(events(watched))
    assert watched.end(how) == (0, "bench watch: ended\n", "")
    assert list(study.parent.iterdir()) == [study]  # no report is left behind


def test_what_cannot_be_watched_is_refused_with_what_to_do(
    served: Watch, study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    port = urlsplit(served.address).port
    in_use = (
        f"bench: --port {port}: the port is in use by another program; give another with --port, or leave "
        "--port out and a free one is taken\n"
    )
    for words, says in (
        ([study, "--port", port], in_use),
        ([study, "--port", -1], "a port is a number from 1 to 65535"),
        ([study, "--port", 65536], "a port is a number from 1 to 65535"),
        ([study / "study.json"], "study.json is a file, not a study"),
        ([study / "grid/8x8/uer-a/seed-0"], f"is a run; give its study, {study}"),
    ):
        assert cli.main(["watch", *map(str, words)]) == 2 and says in capsys.readouterr().err
