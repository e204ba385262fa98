"""A stand-in for the Hugging Face Hub on loopback: as much of its HTTP interface as its client uses to create a dataset
repository, commit to it, list it and download from it."""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

TOKEN = "hf_of_a_test"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class Hub:
    """The repositories of a hub and the requests that it received."""

    repos: dict[str, dict[str, bytes]] = field(default_factory=dict)
    large: dict[str, bytes] = field(default_factory=dict)
    """SHA-256 -> uploaded bytes."""
    received: list[str] = field(default_factory=list)
    """"METHOD path" of each request, with the ids of objects left out."""
    regular_up_to: int = 0
    """Bytes up to which a file is part of the commit itself rather than of the large-file storage."""
    page: int = 2
    """Number of entries of a page of a listing."""
    more: int = 0
    """Number of bytes that a download sends beyond the announced length."""
    url: str = ""


@contextmanager
def serving() -> Iterator[Hub]:
    """Start a hub, and stop it when the block ends."""
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Handler(BaseHTTPRequestHandler):
    """Answers one request by the routes of the Hub."""

    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing; `Hub.received` has the requests."""

    def do_GET(self) -> None:
        self._route()

    do_HEAD = do_POST = do_PUT = do_GET

    def _route(self) -> None:
        url = urlsplit(self.path)
        path = unquote(url.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.hub.received.append(f"{self.command} {re.sub('[0-9a-f]{40,64}', 'ID', path)}")
        writes = self.command in ("POST", "PUT") and not path.startswith("/storage/")
        if writes and self.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._json({"error": "Invalid username or password."}, 401)
        for pattern, answer in ROUTES:
            if match := re.fullmatch(pattern, f"{self.command} {path}"):
                fields = match.groupdict()
                if "repo" in fields and fields["repo"] not in self.hub.repos:
                    return self._json({"error": "Repository not found"}, 404, {"X-Error-Code": "RepoNotFound"})
                return answer(self, body=body, query=parse_qs(url.query), **fields)
        return self._json({"error": f"the stand-in has no {self.command} {path}"}, 501)

    def create(self, body: bytes, **_: object) -> None:
        request = json.loads(body)
        assert request["type"] == "dataset", request
        name = f"{request.get('organization') or 'me'}/{request['name']}"
        if name in self.hub.repos:
            return self._json({"error": "You already created this dataset repo", "url": self._home(name)}, 409)
        assert request.get("visibility") == "private" or request.get("private"), request
        self.hub.repos[name] = {}
        return self._json({"url": self._home(name)})

    def _home(self, repo: str) -> str:
        return f"{self.hub.url}/datasets/{repo}"

    def who(self, **_: object) -> None:
        self._json({"type": "user", "name": "me", "orgs": []})

    def modes(self, body: bytes, **_: object) -> None:
        files = json.loads(body)["files"]
        mode = {file["path"]: "regular" if file["size"] <= self.hub.regular_up_to else "lfs" for file in files}
        self._json({"files": [{"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in mode.items()]})

    def batch(self, body: bytes, **_: object) -> None:
        objects = []
        for object_ in json.loads(body)["objects"]:
            upload = {"upload": {"href": f"{self.hub.url}/storage/{object_['oid']}"}}
            objects.append(object_ if object_["oid"] in self.hub.large else {**object_, "actions": upload})
        self._json({"transfer": "basic", "objects": objects})

    def store(self, body: bytes, oid: str, **_: object) -> None:
        assert hashlib.sha256(body).hexdigest() == oid
        self.hub.large[oid] = body
        self._json({})

    def commit(self, body: bytes, repo: str, **_: object) -> None:
        files = self.hub.repos[repo]
        for line in body.splitlines():
            match json.loads(line):
                case {"key": "file", "value": {"path": path, "content": content, "encoding": "base64"}}:
                    files[path] = base64.b64decode(content)
                case {"key": "lfsFile", "value": {"path": path, "oid": oid}}:
                    files[path] = self.hub.large[oid]
        reply = {"commitOid": COMMIT, "commitUrl": f"{self._home(repo)}/commit/{COMMIT}"}
        self._json({**reply, "pullRequestUrl": None})

    def info(self, repo: str, **_: object) -> None:
        self._json({"id": repo, "sha": COMMIT, "private": False, "siblings": [], "tags": []})

    def tree(self, repo: str, query: dict[str, list[str]], **_: object) -> None:
        files = sorted(self.hub.repos[repo].items())
        start = int(query.get("cursor", ["0"])[0])
        listed = [
            {"type": "file", "path": path, "size": len(content), "oid": hashlib.sha1(content).hexdigest()}
            for path, content in files[start : start + self.hub.page]
        ]
        rest = start + self.hub.page
        next_page = f"{self.hub.url}/api/datasets/{repo}/tree/{COMMIT}?recursive=true&cursor={rest}"
        self._json(listed, headers={"Link": f'<{next_page}>; rel="next"'} if rest < len(files) else {})

    def resolve(self, repo: str, path: str, **_: object) -> None:
        content = self.hub.repos[repo].get(path)
        if content is None:
            return self._json({"error": "Entry not found"}, 404, {"X-Error-Code": "EntryNotFound"})
        oid = hashlib.sha256(content).hexdigest()
        headers = {"X-Repo-Commit": COMMIT, "X-Linked-Size": str(len(content)), "X-Linked-Etag": f'"{oid}"'}
        self.hub.large[oid] = content
        elsewhere = self.hub.url.replace(
            "127.0.0.1", "localhost"
        )  # the client follows redirects to its own host itself
        return self._answer(b"", 302, {**headers, "Location": f"{elsewhere}/storage/{oid}"})

    def content(self, oid: str, **_: object) -> None:
        self._answer(self.hub.large[oid] + b"x" * self.hub.more, 200, {"ETag": f'"{oid}"'})

    def _json(self, document: object, status: int = 200, headers: dict[str, str] | None = None) -> None:
        self._answer(json.dumps(document).encode(), status, {"Content-Type": "application/json", **(headers or {})})

    def _answer(self, body: bytes, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


_REPO = "(?P<repo>[^/]+/[^/]+)"
ROUTES = (
    ("POST /api/repos/create", Handler.create),
    ("GET /api/whoami-v2", Handler.who),
    (f"POST /api/datasets/{_REPO}/preupload/main", Handler.modes),
    (rf"POST /datasets/{_REPO}\.git/info/lfs/objects/batch", Handler.batch),
    ("PUT /storage/(?P<oid>[0-9a-f]{64})", Handler.store),
    (f"POST /api/datasets/{_REPO}/commit/main", Handler.commit),
    (f"GET /api/datasets/{_REPO}", Handler.info),
    (f"GET /api/datasets/{_REPO}/tree/{COMMIT}", Handler.tree),
    (f"(GET|HEAD) /datasets/{_REPO}/resolve/{COMMIT}/(?P<path>.+)", Handler.resolve),
    ("(GET|HEAD) /storage/(?P<oid>[0-9a-f]{64})", Handler.content),
)
