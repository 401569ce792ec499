"""A server on 127.0.0.1 with the part of the hub's API that `huggingface_hub` asks for here."""

import base64
import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote, urlsplit

TOKEN = "hf_test"


class Hub(ThreadingHTTPServer):
    """Repositories in memory; `faults` are done to the files that it sends."""

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Answer)
        self.repositories: dict[str, list[dict[str, bytes]]] = {}
        self.half: set[str] = set()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def address(self):
        return f"http://127.0.0.1:{self.server_port}"

    def commit_of(self, name, number):
        """The name of a commit of a repository."""
        files = self.repositories[name][number]
        seen = hashlib.sha1(f"{name} {number % len(self.repositories[name])}".encode())
        for path, content in sorted(files.items()):
            seen.update(path.encode() + content)
        return seen.hexdigest()

    def files_at(self, name, revision):
        """The commit and the files of a revision; `None` if there is none."""
        commits = self.repositories[name]
        names = {self.commit_of(name, number): number for number in range(len(commits))}
        number = len(commits) - 1 if revision == "main" else names.get(revision)
        return None if number is None else (self.commit_of(name, number), commits[number])


class Answer(BaseHTTPRequestHandler):
    server: Hub

    def log_message(self, *said):
        pass

    def say(self, found, status=200, **headers):
        content = found if isinstance(found, bytes) else json.dumps(found).encode()
        self.send_response(status)
        for name, value in {"Content-Length": str(len(content)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def missing(self, what):
        self.say({"error": what}, 404, X_Error_Code=what)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        if self.path == "/api/whoami-v2" and self.headers["Authorization"] != f"Bearer {TOKEN}":
            self.say({"error": "Invalid credentials in Authorization header"}, 401)
            return
        if self.path == "/api/whoami-v2":
            self.say({"name": "somebody", "orgs": [{"name": "a-group"}]})
            return
        words = unquote(urlsplit(self.path).path).strip("/").split("/")
        tree = words[:2] == ["api", "models"]
        words = words[2:] if tree else words
        name = "/".join(words[:2])
        kind, revision, file = "", "", ""
        if len(words) > 3:
            kind, revision, file = words[2], words[3], "/".join(words[4:])
        if not kind and name in self.server.repositories:
            self.say({"id": name})
        elif name not in self.server.repositories:
            self.missing("RepoNotFound")
        elif (found := self.server.files_at(name, revision)) is None:
            self.missing("RevisionNotFound")
        elif tree and kind == "tree":
            sizes = {path: len(content) for path, content in found[1].items()}
            self.say([{"type": "file", "path": p, "size": n, "oid": "0"} for p, n in sizes.items()])
        elif (content := found[1].get(file)) is None:
            self.missing("EntryNotFound")
        else:
            seen = hashlib.sha256(content).hexdigest()
            length = str(len(content))
            sent = content[: len(content) // 2] if file in self.server.half else content
            self.say(sent, X_Repo_Commit=found[0], ETag=f'"{seen}"', Content_Length=length)
            self.close_connection = True

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        words = urlsplit(self.path).path.strip("/").split("/")
        if self.headers.get("Authorization") != f"Bearer {TOKEN}":
            self.say({"error": "Invalid credentials"}, 401)
        elif words == ["api", "validate-yaml"]:
            self.say({"errors": [], "warnings": []})
        elif words == ["api", "repos", "create"]:
            asked = json.loads(body)
            name = f"{asked['organization']}/{asked['name']}"
            if name in self.server.repositories:
                known = {"error": "You already created this model repo"}
                self.say(known | {"url": f"{self.server.address}/{name}"}, 409)
            else:
                self.server.repositories[name] = [{}]
                self.say({"url": f"{self.server.address}/{name}"})
        elif words[4] == "preupload":
            files = json.loads(body)["files"]
            regular = {"uploadMode": "regular", "shouldIgnore": False}
            self.say({"files": [{"path": each["path"], **regular} for each in files]})
        else:
            name = "/".join(words[2:4])
            commits = self.server.repositories[name]
            files = dict(commits[-1])
            for line in map(json.loads, body.decode().splitlines()):
                if line["key"] == "file":
                    value = line["value"]
                    files[value["path"]] = base64.b64decode(value["content"])
            commits.append(files)
            commit = self.server.commit_of(name, len(commits) - 1)
            address = f"{self.server.address}/{name}/commit/{commit}"
            self.say({"commitUrl": address, "commitOid": commit, "pullRequestUrl": None})
