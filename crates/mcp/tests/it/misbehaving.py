"""An MCP server by hand that misbehaves on purpose: at the start as its argument says, in calls as the tool says."""

import json
import os
import subprocess
import sys
import time

MODE = sys.argv[1]
TOOLS = ["echo", "key", "die", "hang", "garbage", "flood", "wrong_id", "fail", "change", "environment", "children"]
TOOLS += ["wait", "cancelled"]
listed = list(TOOLS)
cancelled = []
unanswered = []


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def tool(name):
    hints = {"key": {"readOnlyHint": True}, "echo": {"idempotentHint": True}}
    return {"name": name, "description": name, "inputSchema": {"type": "object"}, "annotations": hints.get(name, {})}


def text(words, failed=False):
    return {"content": [{"type": "text", "text": words}], "isError": failed}


def flood():
    while True:
        sys.stdout.write("x" * 65536 + "\n")


def call(number, params):
    name, arguments = params["name"], params.get("arguments") or {}
    if name == "die":
        sys.stderr.write("boom in the middle\n")
        sys.stderr.flush()
        os._exit(3)
    if name == "hang":
        while True:
            time.sleep(60)
    if name == "flood":
        flood()
    if name == "wait":
        return None
    if name == "cancelled":
        return send({"id": number, "result": text(json.dumps(cancelled))})
    if name == "children":
        child = subprocess.Popen(["sleep", "600"])
        return send({"id": number, "result": text(json.dumps([os.getpid(), child.pid]))})
    if name == "garbage":
        sys.stdout.write("this is not JSON\n{\"half\": \n\x00\xff\n[]\n")
    if name == "wrong_id":
        return send({"id": 987654, "result": text("for nobody")})
    if name == "fail":
        return send({"id": number, "result": text("no such product", True)})
    if name == "change":
        listed.append("new")
        send({"method": "notifications/tools/list_changed"})
    if name == "key":
        return send({"id": number, "result": text(json.dumps(params.get("_meta", {})))})
    if name == "environment":
        return send({"id": number, "result": text(json.dumps(dict(os.environ)))})
    send({"id": number, "result": text(json.dumps({"echo": arguments}))})


def tools(params):
    if MODE == "many":
        return {"tools": [tool(f"t{n}") for n in range(10000)]}
    if MODE == "endless":
        return {"tools": [], "nextCursor": "again"}
    return {"tools": [tool(name) for name in listed]}


def answer(message):
    method, number = message.get("method"), message.get("id")
    if MODE == "deaf" and method == "server/discover":
        return
    if MODE == "late" and method == "server/discover":
        return unanswered.append(number)
    for late in unanswered:
        send({"id": late, "error": {"code": -32601, "message": "Method not found"}})
    unanswered.clear()
    if method == "initialize":
        info = {"name": "misbehaving", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        version = message["params"]["protocolVersion"]
        send({"id": number, "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": info}})
    elif method == "tools/list":
        send({"id": number, "result": tools(message.get("params") or {})})
    elif method == "notifications/cancelled":
        cancelled.append(message["params"]["requestId"])
    elif method == "tools/call":
        call(number, message["params"])
    elif number is not None:
        if MODE == "strict":
            sys.exit("strict: unknown method " + method)
        send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


if "STARTS" in os.environ:
    with open(os.environ["STARTS"], "a") as starts:
        starts.write("started\n")
if MODE == "exit":
    sys.exit("cannot find my settings")
if MODE == "flood":
    flood()
if MODE == "silent":
    time.sleep(600)
if MODE == "noise":
    while True:
        print("Welcome to the server!", flush=True)
        time.sleep(0.05)
for line in sys.stdin:
    answer(json.loads(line))
