"""The least that looks like SGLang's server: its help, its loads, its abort. Ends at SIGTERM like any program."""

import argparse
import json
import subprocess
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

running = {"count": 0, "authorization": [], "post_authorization": []}


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def _answer(self, body):
        data = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        running["authorization"].append(self.headers.get("Authorization"))
        if self.path == "/seen":
            self._answer(running)
        else:
            self._answer({"loads": [{"num_running_reqs": running["count"], "num_waiting_reqs": 0}]})

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path == "/abort_request":
            running.update(count=0, abort=json.loads(body), abort_key=self.headers.get("Authorization"))
        elif self.path == "/running":
            running["count"] = json.loads(body)
        else:
            running["post_authorization"].append(self.headers.get("Authorization"))
        self._answer({})


parser = argparse.ArgumentParser()
parser.add_argument("--port", type=int, default=30000)
parser.add_argument("--tp-size", type=int, default=1, help="ranks; see also --no-such-flag")
parser.add_argument("--api-key", "--key")
parser.add_argument("--admin-api-key")
parser.add_argument("--speculative-ddtree-budget", type=int)
options = parser.parse_args()
for rank in range(options.tp_size):
    subprocess.Popen([f"sglang::scheduler_TP{rank}", "1000"], executable="/bin/sleep")
ThreadingHTTPServer(("127.0.0.1", options.port), Handler).serve_forever()
