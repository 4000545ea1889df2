"""Stand-in for the part of GitHub's REST API that comments on pull requests: github.py FILE. Prints its address; FILE has the comments,
and the requests, as JSON."""

import http.server
import json
import pathlib
import re
import sys

OUT = pathlib.Path(sys.argv[1])
# The first page is full of others' comments.
comments = [{"id": n, "body": f"comment {n}"} for n in range(100)]
requests = []


class Api(http.server.BaseHTTPRequestHandler):
    def answer(self):
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or "null")
        requests.append([self.command, self.path])
        status, answer = self.act(body)
        OUT.write_text(json.dumps({"comments": comments[100:], "requests": requests}))
        self.send_response(status)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())

    def act(self, body):
        if self.headers["Authorization"] != "Bearer github":
            return 401, {"message": "Bad credentials"}
        if match := re.fullmatch(r"/repos/o/r/issues/7/comments\?per_page=100&page=(\d+)", self.path):
            first = (int(match[1]) - 1) * 100
            return 200, [{**each, "url": f"{address}/repos/o/r/issues/comments/{each['id']}"} for each in comments[first : first + 100]]
        if self.command == "POST" and self.path == "/repos/o/r/issues/7/comments":
            comments.append({"id": len(comments), "body": body["body"]})
            return 201, comments[-1]
        if self.command == "PATCH" and (match := re.fullmatch(r"/repos/o/r/issues/comments/(\d+)", self.path)):
            comments[int(match[1])]["body"] = body["body"]
            return 200, comments[int(match[1])]
        return 404, {"message": "Not Found"}

    do_GET = do_POST = do_PATCH = answer

    def log_message(self, *_arguments):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Api)
address = f"http://127.0.0.1:{server.server_port}"
print(address, flush=True)
server.serve_forever()
