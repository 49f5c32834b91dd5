"""A shop as an MCP server on stdio. Writes every call to a log; what a call does is read from a file at that moment."""

import json
import os
import sys
import time

LOG, MOOD = sys.argv[1], sys.argv[2]
HINTS = {"look": {"readOnlyHint": True}, "put": {"idempotentHint": True}, "pay": {}, "confide": {"readOnlyHint": True}}


def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def log(record):
    with open(LOG, "a") as file:
        file.write(json.dumps({"pid": os.getpid(), **record}) + "\n")
        file.flush()
        os.fsync(file.fileno())


def mood():
    with open(MOOD) as file:
        return file.read().strip()


def hang():
    """Longer than any test waits; not for ever, in case nobody is left to end it."""
    time.sleep(60)
    os._exit(4)


def call(number, params):
    name, arguments = params["name"], params.get("arguments") or {}
    log({"tool": name, "arguments": arguments, "key": (params.get("_meta") or {}).get("relais/idempotencyKey")})
    behaviour = mood()
    if behaviour == "die":
        os._exit(3)
    if behaviour == "hang":
        hang()
    if behaviour == "garbage":
        sys.stdout.write("<html>not JSON</html>\n{\"jsonrpc\": \n")
        sys.stdout.flush()
        hang()
    if behaviour == "slow":
        time.sleep(0.05)
    said = os.environ.get("SHOP_TOKEN", "") if name == "confide" else "done " + str(arguments.get("n", 0))
    send({"id": number, "result": {"content": [{"type": "text", "text": said}], "isError": behaviour == "refuse"}})


def main():
    log({"started": True})
    for line in sys.stdin:
        message = json.loads(line)
        number, method = message.get("id"), message.get("method")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            info = {"name": "shop", "version": "1"}
            send({"id": number, "result": {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}})
        elif method == "tools/list":
            schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
            if mood() == "grown":
                schema = {"type": "object", "properties": {"n": {"type": "string"}, "unit": {"type": "string"}}, "required": ["unit"]}
            tools = [{"name": n, "description": n, "inputSchema": schema, "annotations": h} for n, h in HINTS.items()]
            send({"id": number, "result": {"tools": tools}})
        elif method == "tools/call":
            call(number, message["params"])
        elif method == "ping":
            send({"id": number, "result": {}})
        elif number is not None:
            send({"id": number, "error": {"code": -32601, "message": "Method not found"}})


main()
