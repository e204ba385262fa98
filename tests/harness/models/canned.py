"""A server on loopback that gives the answers of a test, where no tiny random model would give them."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answers = Callable[[str, dict[str, Any], dict[str, str]], tuple[Any, ...]]
"""Path, body and headers (names in lower case) of a request -> status and body of its answer, and headers if wanted."""


@contextmanager
def serving(answers: Answers) -> Iterator[str]:
    """Run a server that replies by `answers` while the context lasts; yield its base URL."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply({})

        def do_POST(self) -> None:
            self._reply(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

        def _reply(self, body: dict[str, Any]) -> None:
            status, answer, *headers = answers(
                self.path.removeprefix("/v1"), body, {k.lower(): v for k, v in self.headers.items()}
            )
            content = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            for name, value in dict(*headers).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)  # seconds until it ends
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1"
        finally:
            server.shutdown()
            thread.join()


def completion(text: str, logprobs: Any = None) -> dict[str, Any]:
    """Return the body of a chat completion whose message is `text`."""
    message = {"role": "assistant", "content": text}
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "canned-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message, "logprobs": logprobs}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
    }
