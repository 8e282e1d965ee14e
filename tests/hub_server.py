"""A hub on loopback: the calls that the real client makes for datasets, over a folder of commits."""

import base64
import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

TOKEN = "hf_secret"


class Hub:
    """Datasets by name: a list of commits, each `{path: bytes}`; the last is `main`."""

    def __init__(self):
        self.commits = {}
        self.private = set()
        self.branches = {}
        self.requests = []
        self.full = False

    def add(self, name, files, *, private=False, branch="main"):
        sha = hashlib.sha1(f"{name}{branch}{len(self.commits.get(name, []))}".encode()).hexdigest()
        self.commits.setdefault(name, []).append((sha, dict(files)))
        if branch != "main":
            self.branches[name, branch] = self.commits[name].pop()
        if private:
            self.private.add(name)
        return sha

    def find(self, name, revision):
        commits = self.commits.get(name)
        if commits is None:
            return None
        if revision in {"main", "", None}:
            return commits[-1]
        branches = [each for (repo, _), each in self.branches.items() if repo == name]
        known = self.branches.get((name, revision), "no revision")
        return next((each for each in (*commits, *branches) if each[0] == revision), known)


def handler(hub):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_):
            pass

        def answer(self, code, body=b"", **headers):
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(code)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), str(value))
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(data)

        def refuse(self, code, kind):
            self.answer(code, {"error": kind}, X_Error_Code=kind, X_Error_Message=kind)

        def open(self, name, revision):
            found = hub.find(name, revision)
            if found is None or (
                name in hub.private and self.headers.get("Authorization") != f"Bearer {TOKEN}"
            ):
                return self.refuse(401 if found else 404, "RepoNotFound")
            if found == "no revision":
                return self.refuse(404, "RevisionNotFound")
            return found

        def do_GET(self):
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(f"{self.command} {path} {self.headers.get('Range', '')}".strip())
            parts = path.strip("/").split("/")
            if parts[:2] == ["api", "datasets"]:
                return self.api(parts)
            if parts[0] == "datasets" and len(parts) > 5 and parts[3] == "resolve":
                return self.resolve("/".join(parts[1:3]), parts[4], "/".join(parts[5:]))
            return self.refuse(404, "EntryNotFound")

        do_HEAD = do_GET  # noqa: N815 - the name that http.server calls

        def api(self, parts):
            name, rest = "/".join(parts[2:4]), parts[4:]
            revision = (
                "/".join(rest[1:]) if rest[:1] == ["revision"] else rest[1] if len(rest) > 1 else "main"
            )
            found = self.open(name, revision)
            if found is None:
                return None
            sha, files = found
            if rest[:1] == ["tree"]:
                return self.answer(
                    200, tree(files, "/".join(rest[2:]), "recursive=true" in self.path.lower())
                )
            siblings = [{"rfilename": path} for path in files]
            info = {"id": name, "sha": sha, "siblings": siblings, "private": name in hub.private, "tags": []}
            return self.answer(200, info)

        def body(self):
            if self.headers.get("Transfer-Encoding") != "chunked":
                return self.rfile.read(int(self.headers.get("Content-Length") or 0))
            data = b""
            while size := int(self.rfile.readline(), 16):
                data += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
            return data

        def do_POST(self):
            path = unquote(urlsplit(self.path).path)
            hub.requests.append(f"POST {path}")
            body = self.body()
            parts = path.strip("/").split("/")
            if path == "/api/repos/create":
                return self.create(json.loads(body))
            if path == "/api/validate-yaml":
                return self.answer(200, {"errors": [], "warnings": []})
            name, what = "/".join(parts[2:4]), parts[4]
            if what == "paths-info":
                return self.paths_info(name, parts[5], body)
            if what == "preupload":
                files = [{"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in json.loads(body)["files"]]  # fmt: skip
                return self.answer(200, {"files": files})
            if what == "commit" and hub.full:
                return self.refuse(403, "Forbidden")
            if what == "commit":
                return self.commit(name, body)
            return self.refuse(404, "EntryNotFound")

        def paths_info(self, name, revision, body):
            found = self.open(name, revision)
            if found is None:
                return None
            try:
                wanted = json.loads(body)["paths"]
            except ValueError:
                from urllib.parse import parse_qs

                wanted = parse_qs(body.decode())["paths"]
            return self.answer(200, [entry(p, found[1][p]) for p in wanted if p in found[1]])

        def create(self, wanted):
            name = (
                f"{wanted.get('organization')}/{wanted['name']}"
                if wanted.get("organization")
                else wanted["name"]
            )
            if self.headers.get("Authorization") != f"Bearer {TOKEN}":
                return self.refuse(401, "Unauthorized")
            hub.commits.setdefault(name, [(hashlib.sha1(name.encode()).hexdigest(), {})])
            return self.answer(
                200, {"url": f"http://{self.headers['Host']}/datasets/{name}", "name": name, "id": name}
            )

        def commit(self, name, body):
            files = dict(hub.commits[name][-1][1])
            for line in body.splitlines():
                one = json.loads(line)
                if one["key"] == "file":
                    files[one["value"]["path"]] = base64.b64decode(one["value"]["content"])
                elif one["key"] == "deletedFile":
                    files.pop(one["value"]["path"], None)
            sha = hub.add(name, files)
            return self.answer(200, {"success": True, "commitOid": sha, "commitUrl": f"http://{self.headers['Host']}/datasets/{name}/commit/{sha}", "hookOutput": ""})  # fmt: skip

        def resolve(self, name, revision, path):
            found = self.open(name, revision)
            if found is None:
                return None
            sha, files = found
            data = files.get(path)
            if data is None:
                return self.refuse(404, "EntryNotFound")
            etag = f'"{hashlib.sha1(data).hexdigest()}"'
            headers = {
                "ETag": etag,
                "X_Repo_Commit": sha,
                "Accept_Ranges": "bytes",
                "X_Linked_Size": len(data),
            }
            wanted = self.headers.get("Range")
            if wanted:
                start, _, end = wanted.removeprefix("bytes=").partition("-")
                first = int(start) if start else len(data) - int(end)
                last = min(int(end) if end and start else len(data) - 1, len(data) - 1)
                headers["Content_Range"] = f"bytes {first}-{last}/{len(data)}"
                return self.answer(206, data[first : last + 1], **headers)
            return self.answer(200, data, **headers)

    return Handler


def entry(path, data):
    return {"type": "file", "path": path, "size": len(data), "oid": hashlib.sha1(data).hexdigest()}


def tree(files, folder, recursive):
    """The files and folders below a folder, or directly in it."""
    prefix = f"{folder}/" if folder else ""
    inside = {path: data for path, data in files.items() if path.startswith(prefix)}
    folders = {
        prefix + path[len(prefix) :].rsplit("/", 1)[0] for path in inside if "/" in path[len(prefix) :]
    }
    if not recursive:
        inside = {path: data for path, data in inside.items() if "/" not in path[len(prefix) :]}
        folders = {prefix + each[len(prefix) :].split("/")[0] for each in folders}
    made = [{"type": "directory", "path": each, "size": 0, "oid": "0" * 40} for each in sorted(folders)]
    return [*made, *(entry(path, data) for path, data in inside.items())]


@contextmanager
def serve():
    hub = Hub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler(hub))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub, f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
