"""Uses the offers of `fake.rs` with the client of PyPI `mcp`: `client.py MODE URL` or `client.py MODE PROGRAM`."""

import sys

import anyio
from mcp import Client, MCPError
from mcp.client.stdio import StdioServerParameters

MODE, TARGET = sys.argv[1], sys.argv[2]
SERVER = TARGET if TARGET.startswith("http") else StdioServerParameters(command=TARGET)


def text(result):
    return result.content[0].text


async def all_tools(client):
    tools, page = [], await client.list_tools()
    while True:
        tools += page.tools
        if page.next_cursor is None:
            return {tool.name: tool for tool in tools}
        page = await client.list_tools(cursor=page.next_cursor)


async def lists(client):
    tools = await all_tools(client)
    assert list(tools)[:2] == ["add", "count"] and len(tools) >= 9, tools
    add = tools["add"]
    assert add.title == "Tool add" and add.annotations.read_only_hint is True, add
    assert add.input_schema["required"] == ["a", "b"] and add.output_schema["type"] == "object", add
    assert tools["count"].annotations.read_only_hint is False
    # Who names the version at once has not asked for anything else.
    assert client.instructions == ("Begin with `add`." if MODE in ("legacy", "auto") else None)


async def calls(client):
    added = await client.call_tool("add", {"a": 2, "b": 3})
    assert added.structured_content == {"sum": 5} and text(added) == '{"sum":5}', added
    assert text(await client.call_tool("who", {})) == "owner Some(7)"


async def refusals(client):
    async def refused(tool, arguments, part):
        result = await client.call_tool(tool, arguments)
        assert result.is_error and part in text(result), result

    await refused("ad", {}, "There is no tool `ad`; did you mean `add`?")
    await refused("add", {"a": 2}, "`b`: Field is required but missing")
    await refused("add", {"a": "2", "b": 3}, "`a`: Expected type 'integer', got 'string'")
    await refused("add", {"a": 2, "b": 3, "bb": 4}, "no argument `bb`; did you mean `b`?")
    await refused("fail", {}, "Out of stock; ask for less.")
    await refused("panic", {}, "`panic` failed by a fault of this server.")


async def progress(client):
    seen = []

    async def on_progress(done, total, message):
        seen.append((done, total, message))

    await client.call_tool("count", {"to": 3}, progress_callback=on_progress)
    assert seen == [(1, 3, "1 of 3"), (2, 3, "2 of 3"), (3, 3, "3 of 3")], seen


async def cancelling(client):
    with anyio.CancelScope() as scope:

        async def on_progress(done, total, message):
            scope.cancel()

        await client.call_tool("wait", {}, progress_callback=on_progress)
    assert scope.cancelled_caught
    assert text(await client.call_tool("cancelled", {"at_least": 1})) == "so many"


async def resources(client):
    assert [str(found.uri) for found in (await client.list_resources()).resources] == ["fake://note/1"]
    templates = (await client.list_resource_templates()).resource_templates
    assert [found.uri_template for found in templates] == ["fake://note/{number}"]
    read = (await client.read_resource("fake://note/1")).contents[0]
    assert (read.text, read.mime_type) == ("hé", "text/plain"), read
    try:
        await client.read_resource("fake://note/2")
        raise AssertionError("it was read")
    except MCPError as error:
        assert "there is `fake://note/1`" in str(error), error


async def changes_told_to_all(client, heard):
    await client.subscribe_resource("fake://note/1")
    await client.call_tool("touch", {"uri": "fake://note/2"})
    await client.call_tool("touch", {"uri": "fake://note/1"})
    await client.call_tool("grow", {})
    names = set()
    while names != {"ResourceUpdatedNotification", "ToolListChangedNotification"}:
        names.add(await heard.receive())
    assert "later" in await all_tools(client)


async def changes_told_to_listeners(client):
    async with client.listen(tools_list_changed=True, resource_subscriptions=["fake://note/1"]) as news:
        await client.call_tool("touch", {"uri": "fake://note/2"})
        await client.call_tool("touch", {"uri": "fake://note/1"})
        await client.call_tool("grow", {})
        names = {type(await anext(news)).__name__ for _ in range(2)}
        assert names == {"ResourceUpdated", "ToolsListChanged"}, names
    assert "later" in await all_tools(client)


async def main():
    tell, heard = anyio.create_memory_object_stream(100)

    async def on_message(message):
        name = type(message).__name__
        if name in ("ResourceUpdatedNotification", "ToolListChangedNotification"):
            await tell.send(name)

    with anyio.fail_after(60):
        async with Client(SERVER, mode=MODE, message_handler=on_message, cache=None) as client:
            await lists(client)
            await calls(client)
            await refusals(client)
            await progress(client)
            await cancelling(client)
            await resources(client)
            if MODE == "legacy":
                await changes_told_to_all(client, heard)
            else:
                await changes_told_to_listeners(client)
            print(client.protocol_version)


anyio.run(main)
