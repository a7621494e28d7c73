#!/usr/bin/env python3
"""An inference engine for tests: the endpoints by which vLLM and SGLang take weights from a folder. It reads the folder as an engine does, and serves what it read.

Prints its port. SPARCL_STUB_KEY in its environment: requests need it as a bearer token.
/_control: GET the state as JSON; PUT {"path", "status", "body", "count", "hang_s"}: the next `count` requests to `path` are answered so, after
`hang_s` seconds, and have no effect.
"""
import http.server, json, os, threading, time, urllib.parse

KEY = os.environ.get("SPARCL_STUB_KEY")
lock = threading.Lock()
faults = []
state = {"requests": [], "is_paused": False, "version": "initial", "files": {}, "wrong": [], "in_update": False}


def read_folder(path):
    names = sorted(os.listdir(path))
    with open(os.path.join(path, "model.safetensors.index.json")) as index:
        shards = set(json.load(index)["weight_map"].values())
    missing = [name for name in shards | {"config.json"} if name not in names]
    if missing:
        raise ValueError(f"the folder has no {missing}")
    files = {}
    for name in names:
        if name.endswith(".json"):
            with open(os.path.join(path, name)) as file:
                files[name] = file.read()
    return files


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    log_message = lambda *_: None

    def answer(self, status, body):
        text = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def body(self):
        text = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        return json.loads(text) if text else {}

    def load(self, path):
        if not state["is_paused"]:
            state["wrong"].append("an update while it generates")
        state["files"] = read_folder(path)

    def do_PUT(self):
        with lock:
            faults.append(self.body())
        self.answer(200, {})

    def do_GET(self):
        if self.path == "/_control":
            with lock:
                return self.answer(200, state)
        if self.path in ("/weight_info", "/model_info"):
            return self.answer(200, {"weight_version": state["version"]})
        self.answer(404, {"detail": "Not Found"})

    def do_POST(self):
        url, body = urllib.parse.urlsplit(self.path), self.body()
        with lock:
            state["requests"].append([self.path, body])
            fault = next((each for each in faults if each["path"] == url.path and each.get("count", 1) > 0), None)
            if fault:
                fault["count"] = fault.get("count", 1) - 1
        if KEY and self.headers.get("Authorization") != f"Bearer {KEY}":
            return self.answer(401, {"error": "Unauthorized"})
        if fault:
            time.sleep(fault.get("hang_s", 0))
            return self.answer(fault.get("status", 500), fault.get("body", ""))
        with lock:
            self.act(url.path, body)

    def act(self, path, body):
        try:
            if path in ("/pause", "/pause_generation"):
                state["is_paused"] = True
            elif path in ("/resume", "/continue_generation"):
                state["is_paused"] = False
            elif path == "/collective_rpc" and body["method"] == "reload_weights":
                self.load(body["kwargs"]["weights_path"])
            elif path == "/update_weight_version":
                state["version"] = body["new_version"]
            elif path == "/start_weight_update":
                if state["in_update"]:
                    return self.answer(500, {"error": "an update is active"})
                state["in_update"] = True
            elif path == "/update_weights" and state["in_update"]:
                self.load(body["update_info"]["path"])
            elif path == "/finish_weight_update":
                state["in_update"] = False
                state["version"] = body.get("weight_version", state["version"])
            elif path == "/update_weights_from_disk":
                try:
                    self.load(body["model_path"])
                except (OSError, ValueError) as why:
                    return self.answer(400, {"success": False, "message": str(why)})
                state["version"] = body["weight_version"]
                return self.answer(200, {"success": True, "message": "updated"})
            else:
                return self.answer(404, {"detail": "Not Found"})
            self.answer(200, {"status": "ok"})
        except (OSError, ValueError, KeyError) as why:
            self.answer(500, {"error": str(why)})


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
