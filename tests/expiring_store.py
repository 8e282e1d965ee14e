"""An S3 server on loopback whose credentials expire: moto's, behind a door that answers as S3 does from then on."""

import threading

import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

from object_store import point_at

# What S3 sends, word for word, with status 400.
EXPIRED = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message>
<Token-0>token</Token-0><RequestId>4442587FB7D0A2F9</RequestId><HostId>host</HostId></Error>"""


class Door:
    """Lets requests in until `receipts` receipts were created with a key; then that key is refused."""

    def __init__(self, key, receipts):
        self._app = DomainDispatcherApplication(create_backend_app)
        self._lock = threading.Lock()
        self.key, self.left, self.refused = key, receipts, 0

    def __call__(self, environ, start_response):
        if self._is_old(environ) and not self._may_pass(environ):
            self.refused += 1
            start_response("400 Bad Request", [("Content-Type", "application/xml")])
            return [EXPIRED]
        return self._app(environ, start_response)

    def _is_old(self, environ):
        return f"Credential={self.key}/" in environ.get("HTTP_AUTHORIZATION", "")

    def _may_pass(self, environ):
        with self._lock:
            if environ["REQUEST_METHOD"] == "PUT" and "/receipts/" in environ["PATH_INFO"]:
                self.left -= 1
            return self.left >= 0


@pytest.fixture
def door(monkeypatch, tmp_path):
    """The door with a bucket behind it; OLDKEY, which this process has, expires after three receipts."""
    door = Door("OLDKEY", 3)
    server = make_server("127.0.0.1", 0, door, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    keys = {"ACCESS_KEY_ID": "OLDKEY", "SECRET_ACCESS_KEY": "secret", "SESSION_TOKEN": "token"}
    door.bucket = point_at(address, monkeypatch, tmp_path / "cache", **keys)
    yield door
    server.shutdown()
    thread.join()
    server.server_close()
