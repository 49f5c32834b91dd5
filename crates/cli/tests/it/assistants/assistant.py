"""An assistant of few words, on the client of PyPI `mcp`. It knows what a user asks of it, and of the server only what
the server says: it finds a tool by the words of its name and description, gives only arguments that the tool's schema
names, takes ids from answers, and goes on by what `status`, `error`, `next` and `questions` say."""

import json
import os
import re

import httpx2
from mcp import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client


def connect(mode, target):
    """To a program on pipes, or to an address with the token of the environment."""
    if target.startswith("http"):
        token = os.environ.get("TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        server = streamable_http_client(target, http_client=httpx2.AsyncClient(headers=headers, timeout=120))
    else:
        server = StdioServerParameters(command=target, args=["mcp"], env=dict(os.environ), cwd=os.getcwd())
    return Client(server, mode=mode, cache=None)


class Failed(Exception):
    pass


class Assistant:
    def __init__(self, client):
        self.client = client
        self.tools = {}
        self.calls = []

    async def look_around(self):
        self.tools = {tool.name: tool for tool in (await self.client.list_tools()).tools}
        return self

    def tool(self, *words):
        """The tool whose name has all the words; of several the one with the shortest name."""
        fits = [name for name in self.tools if all(word in name.split("_") for word in words)]
        assert fits, f"no tool for {words} in {sorted(self.tools)}"
        return self.tools[min(fits, key=len)]

    def argument(self, tool, *meanings):
        """The first argument whose name or description has one of the meanings."""
        for meaning in meanings:
            for name, schema in tool.input_schema["properties"].items():
                if re.search(meaning, f"{name} {schema.get('description', '')}", re.IGNORECASE):
                    return name
        raise AssertionError(f"{tool.name} has no argument for {meanings}")

    async def call(self, tool, arguments, **more):
        unknown = set(arguments) - set(tool.input_schema["properties"])
        assert not unknown, f"{tool.name} does not say that it takes {unknown}"
        self.calls.append(tool.name)
        result = await self.client.call_tool(tool.name, arguments, **more)
        text = result.content[0].text
        if result.is_error:
            raise Failed(text)
        return result.structured_content if result.structured_content is not None else json.loads(text)

    async def do(self, words, arguments, **more):
        return await self.call(self.tool(*words.split()), arguments, **more)

    async def refused(self, words, arguments):
        try:
            answer = await self.do(words, arguments)
        except Failed as error:
            return str(error)
        raise AssertionError(f"{words} was not refused: {answer}")

    async def ended(self, run):
        """Looks again as the answers say, until there is nothing to wait for."""
        while run["status"] in ("running", "pending"):
            assert "get_run" in run["next"], run
            run = await self.do("get run", {"id": run["id"], "wait_seconds": 20})
        return run


def an_id(answer):
    found = answer.get("id") or answer.get("workflow_id")
    assert re.fullmatch(r"[0-9a-f-]{36}", found), answer
    return found
