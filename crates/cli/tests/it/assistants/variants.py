"""Every name that an argument goes by, and every mistake that a model makes: `variants.py MODE TARGET`."""

import json
import re
import sys

import anyio

from assistant import Assistant, an_id, connect

FLOW = {"name": "greet", "input": {"guest?": "string"}, "agents": {"host": {"model": "sim/any", "instructions": "Greet."}},
        "steps": [{"id": "hello", "agent": "host", "prompt": "Greet the guest"}]}


async def names(assistant, workflow):
    """keeps A-31, A-32, A-33, A-34, A-35, A-36, A-37, D-12, D-16"""
    run = await assistant.do("run workflow", {"workflow_id": "Greet"})
    for name in ("id", "workflow_id", "workflowId"):
        for tool in ("get workflow", "run workflow", "execute workflow", "update workflow", "cancel workflow"):
            answer = await assistant.do(tool, {name: workflow})
            found = answer.get("workflow_id") or answer.get("targetId")
            assert found == workflow, (tool, name, answer)
        set_to = await assistant.do("schedule workflow", {name: workflow, "schedule_type": "recurring",
                                                          "cron_expression": "0 9 * * *", "schedule_time": None})
        assert set_to["workflow_id"] == workflow, set_to
    for name in ("id", "run_id", "runId"):
        for tool in ("get run", "get workflow run"):
            assert (await assistant.do(tool, {name: run["run_id"]}))["run_id"] == run["run_id"], (tool, name)
        assert "nothing to resume" in await assistant.refused("resume run", {name: run["run_id"]})
        assert "has ended" in await assistant.refused("cancel run", {name: run["run_id"]})
        assert "asks nothing" in await assistant.refused("answer run", {name: run["run_id"], "answer": 1})
    for name in ("workflow_id", "workflowId"):
        assert (await assistant.do("list runs", {name: workflow}))["runs"]
        assert (await assistant.do("list failed runs", {name: workflow}))["runs"] == []
    for name in ("instructions", "systemPrompt", "system_prompt", "prompt"):
        agent = await assistant.do("create agent", {"name": name, "model": "sim/any", name: "Be brief."})
        assert agent["instructions"] == "Be brief.", agent
        for other in ("id", "agentId", "agent_id"):
            assert (await assistant.do("get agent", {other: an_id(agent)}))["name"] == name
    assert len((await assistant.do("list agents", {}))["agents"]) == 4


async def users(assistant, workflow):
    for tool, given in [("list workflows", {}), ("list failed runs", {}), ("get workflow", {"id": workflow}),
                        ("run workflow", {"workflow_id": workflow, "thread_id": "t"})]:
        await assistant.do(tool, {**given, "user_id": "ada"})
        assert "user_id" in await assistant.refused(tool, {**given, "user_id": "eve"})


async def as_models_write_it(assistant):
    """Lists in text, and null for what is left out."""
    executor = {"executor_id": "one", "name": "One", "model": "sim/any", "tools": [], "system_prompt": "Go.",
                "output_schema": {"text": "str"}}
    made = await assistant.do("create workflow", {"name": "Text", "description": None,
                                                  "executors": json.dumps([executor]), "schedule_time": None})
    found = await assistant.do("get workflow", {"id": made["workflow_id"]})
    assert found["executors"] == [executor], found
    whole = await assistant.do("create workflow", {"name": "Tree", "definition": FLOW, "format": "native"})
    assert "hello" in (await assistant.do("get workflow", {"id": an_id(whole)}))["definition"]


async def mistakes(assistant, workflow):
    async def check(tool, given, *parts):
        why = await assistant.refused(tool, given)
        for part in parts:
            assert part in why, (tool, given, part, why)

    await check("get workflow", {}, "`id` is missing", "list_workflows lists them")
    await check("get workflow", {"id": "Gret"}, "there is no workflow `Gret`", "Did you mean `Greet`?", workflow)
    await check("get workflow", {"id": workflow, "workflowId": "x"}, "name the same thing and differ")
    await check("run workflow", {"workflow_id": "0190a0b0-c0d0-7000-8000-00000000000a"}, "There are: `")
    await check("run workflow", {"workflow_id": workflow, "input": {"gest": "Eve"}}, "did you mean `guest`?")
    await check("execute workflow", {"id": workflow, "branchId": "x"}, "no branch `x`")
    await check("get run", {"id": "12345678"}, "there is no run `12345678`", "list_runs lists them", "(greet, completed)")
    await check("get agent", {"id": "Nobody"}, "there is no agent `Nobody`", "`prompt`")
    await check("create agent", {"name": "x", "model": "sim/any", "instructions": "y", "tools": ["serch_web"]},
                "serch_web")
    await check("create agent", {"name": "prompt", "model": "sim/any", "instructions": "y"}, "already")
    await check("create workflow", {"name": "x", "definition": "name: x\nsteps: [{id: a, agnet: b}]"}, "line 2", "agnet")
    agnet = {"name": "x", "steps": [{"id": "a", "agnet": "b"}]}
    await check("create workflow", {"name": "x", "definition": agnet}, "/definition/steps/0", "agnet")
    await check("create workflow", {"name": "x", "nodes": [{"id": "a", "type": "agent", "config": {"agentId": "Nobody"}}]},
                "/nodes/0", "Nobody")
    executor = {"executor_id": "one", "model": "sim/any", "system_promt": "Go."}
    await check("create workflow", {"name": "x", "executors": [executor]}, "/executors/0/system_promt", "system_prompt")
    await check("create agent", {"name": "x", "model": "sim/any", "config": {"timeout": 5}}, "/config/timeout")
    await check("create agent", {"name": "x", "model": 5, "config": {"budget": {"usd": "much"}}}, "`model`")
    await check("create agent", {"name": "x", "model": "sim/any", "config": {"budget": {"usd": "much"}}}, "/config/budget/usd")
    await check("create agent", {"name": "x", "model": "sim/any", "output_schema": {"a": "strng"}}, "/output_schema", "string")
    await check("create workflow", {"name": "x", "executors": [], "nodes": []}, "in one way")
    await check("create workflow", {"name": "x", "schedule_type": "recurring"}, "needs `cron_expression`")
    await check("create workflow", {"name": "x", "schedule_type": "recurring", "cron_expression": "@daily"},
                "nothing to schedule yet")
    await check("update workflow", {"id": workflow, "nodes": []}, "in the format `native`", "get_workflow")
    await check("update workflow", {"id": workflow, "definition": "nodes: [{id: a, config: {agentId: Nobody}}]"}, "Nobody")
    await check("schedule workflow", {"workflow_id": workflow, "schedule_type": "scheduled", "schedule_time": "some day"},
                "some day", "tomorrow 9am")
    await check("schedule workflow", {"workflow_id": workflow, "schedule_type": "recurring",
                                      "cron_expression": "0 9 * * *", "timezone": "Mars/Olympus"}, "Mars/Olympus")
    await check("cancel workflow", {"schedule_type": "recurring"}, "say which workflow")
    await check("validate workflow", {}, "Give what is to be checked")
    checked = await assistant.do("validate workflow", {"definition": "name: x\nsteps: [{id: a, agnet: b}]"})
    assert not checked["valid"] and checked["problems"][0]["line"] == 2, checked
    checked = await assistant.do("validate workflow", {"definition": agnet})
    assert checked["problems"][0]["pointer"].startswith("/definition/steps/0") and "line" not in checked["problems"][0], checked
    result = await assistant.client.call_tool("get_run", {"idd": "x"})
    assert result.is_error and "did you mean `id`?" in result.content[0].text, result
    result = await assistant.client.call_tool("get_runs", {})
    assert result.is_error and "did you mean `get_run`?" in result.content[0].text, result


async def what_descriptions_say_is_so(assistant):
    described = assistant.tool("create", "agent").input_schema["properties"]["config"]["description"]
    advertised = re.findall(r"(\w+) \(", described)
    values = {"max_turns": 3, "output_retries": 1, "budget": {"usd": 1}, "max_tokens": 50, "temperature": 1,
              "result_mark": False}
    assert set(values) <= set(advertised) and "timeout" not in advertised, described
    config = {name: values[name] for name in advertised if name in values}
    await assistant.do("create agent", {"name": "Limited", "model": "sim/any", "instructions": "Go.", "config": config})
    validate = assistant.tool("validate", "workflow").description
    example = json.loads(re.search(r"Example: (.*)", validate).group(1))
    assert (await assistant.do("validate workflow", example))["valid"]
    kinds = re.findall(r"^- (\w+): .*?(\{id: .*)$", validate, re.MULTILINE)
    assert {"agent", "if", "for_each", "repeat", "ask", "goto"} <= {kind for kind, _ in kinds}, kinds
    wait = dict(kinds)["wait"]
    assert (await assistant.do("validate workflow", {"definition": "steps:\n- " + wait}))["valid"], wait
    listed = [str(found.uri) for found in (await assistant.client.list_resources()).resources]
    simulated = await assistant.do("create workflow", {"name": "Needy", "definition": {
        "input": {"topic": "string"}, "steps": [{"id": "say", "set": {"topic": "{{ input.topic }}"}}]}})
    why = await assistant.refused("run workflow", {"workflow_id": an_id(simulated)})
    assert "`topic` (a text)" in why, why
    run = await assistant.do("run workflow", {"workflow_id": an_id(simulated), "simulate": True})
    assert run["status"] == "completed" and run["made_up"] == ["input.topic"], run
    asks = {"name": "asks", "steps": [{"id": "approve", "ask": {"question": "Go on?", "approve": True}}]}
    asks = an_id(await assistant.do("create workflow", {"name": "Asks", "definition": asks}))
    example = json.loads(re.search(r"Example: (.*)", assistant.tool("answer", "run").description).group(1))
    for answer in (example["answer"], "yes"):
        run = await assistant.do("run workflow", {"workflow_id": asks})
        assert run["status"] == "waiting" and run["questions"][0]["step"] == example["step"], run
        why = await assistant.refused("answer run", {**example, "run_id": run["run_id"], "answer": "perhaps"})
        assert "must be yes or no" in why, why
        run = await assistant.do("answer run", {**example, "run_id": run["run_id"], "answer": answer})
        assert run["status"] == "completed" and run["output"] is True, run
    for uri, part in [("relais://format", "### for_each"), ("relais://schema", "for_each_step")]:
        assert uri in listed and part in (await assistant.client.read_resource(uri)).contents[0].text, uri


async def tools_for_agents(assistant):
    listed = await assistant.do("list tools", {"search": "file", "details": True})
    assert any(tool["name"] == "read_file" and tool["parameters"]["type"] == "object" for tool in listed["tools"]), listed
    assert all("file" in f"{tool['name']} {tool['description']}".lower() for tool in listed["tools"]), listed


async def a_cancelled_call_leaves_the_run(assistant):
    slow = {"name": "slow", "steps": [{"id": "nap", "wait": "1h"}]}
    workflow = an_id(await assistant.do("create workflow", {"name": "Slow", "definition": slow}))
    with anyio.CancelScope() as scope:

        async def on_progress(done, total, message):
            if "waits for" in message:
                scope.cancel()

        await assistant.do("run workflow", {"workflow_id": workflow}, progress_callback=on_progress)
    assert scope.cancelled_caught
    again = await assistant.do("run workflow", {"workflow_id": workflow, "wait_seconds": 0})
    left = (await assistant.do("list runs", {"workflow_id": workflow}))["runs"][1]
    assert again["also_going"] == [left["id"]] and left["status"] in ("running", "waiting"), (again, left)
    stopped = await assistant.do("cancel workflow", {"workflow_id": workflow})
    assert set(stopped["cancelled_runs"]) == {again["run_id"], left["id"]}, stopped


async def a_call_answers_when_its_run_has_ended(assistant):
    """keeps A-37, A-46"""
    nap = {"name": "nap", "steps": [{"id": "rest", "wait": "1s"}, {"id": "done", "set": {"n": 1}}], "output": "rested"}
    workflow = an_id(await assistant.do("create workflow", {"name": "Nap", "definition": nap}))
    heard = []

    async def on_progress(done, total, message):
        heard.append(message)

    run = await assistant.do("run workflow", {"workflow_id": workflow}, progress_callback=on_progress)
    assert run["status"] == "completed" and run["final_output"] == "rested", run
    assert any("rest: wait started" in message for message in heard), heard
    at_once = await assistant.do("run workflow", {"workflow_id": workflow, "wait_seconds": 0})
    assert at_once["status"] in ("pending", "running") and "get_run" in at_once["next"], at_once


async def a_workflow_is_deleted_with_its_runs(assistant):
    """keeps A-28"""
    made = an_id(await assistant.do("create workflow", {"name": "Gone", "definition": {"name": "gone", "steps": [{"id": "a", "set": {"n": 1}}]}}))
    run = await assistant.do("run workflow", {"workflow_id": made})
    would = await assistant.do("delete workflow", {"workflow_id": made})
    assert would["deleted"] is False and would["would_delete"]["runs"] == 1 and "confirm" in would["next"], would
    assert (await assistant.do("get run", {"id": run["run_id"]}))["status"] == "completed"
    assert (await assistant.do("delete workflow", {"workflow_id": made, "confirm": True}))["deleted"] is True
    assert "no run" in await assistant.refused("get run", {"id": run["run_id"]})


async def main():
    with anyio.fail_after(300):
        async with connect(sys.argv[1], sys.argv[2]) as client:
            assistant = await Assistant(client).look_around()
            workflow = an_id(await assistant.do("create workflow", {"name": "Greet", "definition": FLOW}))
            await names(assistant, workflow)
            await users(assistant, workflow)
            await as_models_write_it(assistant)
            await mistakes(assistant, workflow)
            await what_descriptions_say_is_so(assistant)
            await tools_for_agents(assistant)
            await a_cancelled_call_leaves_the_run(assistant)
            await a_call_answers_when_its_run_has_ended(assistant)
            await a_workflow_is_deleted_with_its_runs(assistant)


anyio.run(main)
