"""An S3 server on loopback that fails at a chosen request: moto's, behind a proxy."""

from __future__ import annotations

import socket
import threading
import urllib.parse
import urllib.request
import xml.etree.ElementTree as ET

from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import WSGIRequestHandler, make_server

ANSWERS = {"500": ("500 Internal Server Error", "InternalError"), "503": ("503 Slow Down", "SlowDown")}
WAYS = ("500", "503", "cut", "half")


class _Quiet(WSGIRequestHandler):
    protocol_version = "HTTP/1.1"

    def log(self, *_: object) -> None:
        """Log nothing: there are thousands of requests."""


class FlakyStore:
    """Counts requests; the Nth (or every one from it on) is answered by an error, cut off, or answered by half."""

    def __init__(self) -> None:
        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self.arm("", 0)
        self._server = make_server("127.0.0.1", 0, self, threaded=True, request_handler=_Quiet)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.address,
            "AWS_ALLOW_HTTP": "true",
        }

    def arm(self, way: str, nth: int, *, for_ever: bool = False) -> None:
        """Fail the Nth request from now on in this way; 0 disables it."""
        with self._lock:
            self._way, self._nth, self._for_ever, self.requests = way, nth, for_ever, 0

    def __call__(self, environ, start_response):
        with self._lock:
            self.requests += 1
            hit = self._nth and (self.requests == self._nth or (self._for_ever and self.requests > self._nth))
            way = self._way
        if not hit:
            return self._app(environ, start_response)
        if way == "cut":
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
            return []
        if way == "half":
            return self._half(environ, start_response)
        environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))  # more never comes
        status, code = ANSWERS[way]
        start_response(status, [("Content-Type", "application/xml")])
        return [
            f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>Please try again.</Message></Error>".encode()
        ]

    def _half(self, environ, start_response):
        """What was asked is done, and the answer stops in its middle."""
        body = b"".join(self._app(environ, start_response))

        def send():
            yield body[: len(body) // 2]
            environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)

        return send()

    def ask(self, path: str, method: str = "GET", data: bytes | None = None) -> bytes:
        """A request of the test's own, past any fault."""
        # Who signs is looked at, the signature is not.
        signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/s3/aws4_request"}
        request = urllib.request.Request(f"{self.address}/{path}", data=data, method=method, headers=signed)
        with urllib.request.urlopen(request) as answer:
            return answer.read()

    def objects(self, bucket: str, prefix: str) -> dict[str, bytes]:
        """Name below the prefix -> content."""
        listing = ET.fromstring(self.ask(f"{bucket}?list-type=2&prefix={urllib.parse.quote(prefix)}"))
        keys = [element.text or "" for element in listing.iter() if element.tag.endswith("}Key")]
        return {key.removeprefix(prefix): self.ask(f"{bucket}/{urllib.parse.quote(key)}") for key in keys}

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()
