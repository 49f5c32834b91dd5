"""What people ask of an assistant, from beginning to end: `stories.py MODE TARGET`. Models are scripts in the current
folder, so that nothing needs a key."""

import sys

import anyio

from assistant import Assistant, an_id, connect

TOPIC = "the sea"


def graph(agents, is_cycle):
    nodes = [{"id": f"a{n}", "type": "agent", "config": {"agentId": agent}} for n, agent in enumerate(agents, 1)]
    pairs = list(zip(nodes, nodes[1:]))
    pairs += [(nodes[-1], nodes[0])] if is_cycle else []
    edges = [{"id": f"e{n}", "from": one["id"], "to": other["id"]} for n, (one, other) in enumerate(pairs, 1)]
    return nodes, edges


async def make_agent(assistant, name, model, instructions):
    tool = assistant.tool("create", "agent")
    model_name = assistant.argument(tool, "^model")
    prompt = assistant.argument(tool, "system prompt")
    return an_id(await assistant.call(tool, {"name": name, model_name: model, prompt: instructions}))


async def create_a_workflow_with_two_agents(assistant):
    """keeps D-12, D-13, D-14, D-15, D-16, D-17"""
    anna = await make_agent(assistant, "Anna", "script/friendly.json", "You are Anna. Answer in one sentence.")
    ben = await make_agent(assistant, "Ben", "script/friendly.json", "You are Ben. Answer in one sentence.")
    workflow = an_id(await assistant.do("create workflow", {"name": "Two friends"}))
    empty = await assistant.do("get workflow", {"id": workflow})
    assert (empty["nodes"], empty["edges"]) == ([], []), empty
    why = await assistant.refused("execute workflow", {"id": workflow})
    assert "empty" in why, why
    nodes, edges = graph([anna, ben], is_cycle=True)
    changed = await assistant.do("update workflow", {"id": workflow, "nodes": nodes, "edges": edges, "maxRounds": 3})
    assert changed["maxRounds"] == 3 and len(changed["nodes"]) == 2, changed
    run = await assistant.ended(await assistant.do("execute workflow", {"id": workflow, "input": TOPIC}))
    assert run["status"] == "completed" and run["targetId"] == workflow, run
    assert len(run["trail"]) == 6 and run["trail"][1]["input"] and run["output"], run
    newest = (await assistant.do("list runs", {"limit": 1}))["runs"][0]
    assert newest["id"] == run["id"] and newest["targetType"] == "workflow", newest
    return workflow


async def fix_a_failed_workflow(assistant):
    """keeps D-15, D-17"""
    writer = await make_agent(assistant, "Writer", "script/friendly.json", "Write.")
    critic = await make_agent(assistant, "Critic", "script/broken.json", "Criticise.")
    nodes, edges = graph([writer, critic], is_cycle=False)
    workflow = an_id(await assistant.do("create workflow", {"name": "Review", "nodes": nodes, "edges": edges}))
    await assistant.do("execute workflow", {"id": workflow})
    # From here on it knows no more than a user who says: fix my failed workflow.
    failed = (await assistant.do("list failed runs", {}))["runs"][0]
    run = await assistant.do("get run", {"id": failed["run_id"]})
    assert run["status"] == "failed" and "out of order" in run["error"] and "update_agent" in run["next"], run
    culprit = next(turn for turn in run["trail"] if turn["error"])
    definition = await assistant.do("get workflow", {"id": run["targetId"]})
    assert any(node["id"] == culprit["nodeId"] for node in definition["nodes"]), definition
    agent = await assistant.do("get agent", {"id": culprit["agentId"]})
    assert agent["name"] == "Critic" and agent["model"] == "script/broken.json", agent
    await assistant.do("update agent", {"id": agent["id"], "model": "script/friendly.json"})
    again = await assistant.ended(await assistant.do("execute workflow", {"id": run["targetId"]}))
    assert again["status"] == "completed" and [turn["error"] for turn in again["trail"]] == [None, None], again
    # The run that failed keeps the version that it began with.
    resumed = await assistant.do("resume run", {"id": run["id"]})
    assert resumed["status"] == "failed", resumed


async def add_an_agent_to_my_workflow(assistant, workflow):
    """keeps D-17"""
    clara = await make_agent(assistant, "Clara", "script/friendly.json", "You are Clara.")
    found = await assistant.do("get workflow", {"id": workflow})
    nodes = found["nodes"] + [{"id": "a3", "type": "agent", "config": {"agentId": clara}}]
    edges = [edge for edge in found["edges"] if edge["to"] != "a1"]
    edges += [{"id": "e2", "from": "a2", "to": "a3"}, {"id": "e3", "from": "a3", "to": "a1"}]
    changed = await assistant.do("update workflow", {"id": workflow, "nodes": nodes, "edges": edges})
    assert changed["version"] == found["version"] + 1 and changed["maxRounds"] == 3, changed
    run = await assistant.ended(await assistant.do("execute workflow", {"id": workflow, "input": TOPIC}))
    assert run["status"] == "completed" and len(run["trail"]) == 9, run
    assert {turn["agentId"] for turn in run["trail"]} == {node["config"]["agentId"] for node in nodes}, run


async def what_went_wrong_with_my_run(assistant):
    """keeps D-15, A-34, A-35"""
    runs = (await assistant.do("list runs", {"status": "failed"}))["runs"]
    run = await assistant.do("get run", {"id": runs[0]["id"]})
    assert run["error"] and any(turn["error"] for turn in run["trail"]), run
    trace = await assistant.do("get workflow run", {"run_id": runs[0]["id"]})
    assert trace["error_message"] == run["error"] and trace["executor_runs"][0]["status"] == "success", trace
    assert trace["executor_runs"][1]["error_message"], trace


async def branches_on_their_own(assistant):
    """keeps D-12, D-14"""
    nodes, edges = graph(["Anna"], is_cycle=False)
    night = {"id": "night", "nodes": nodes, "edges": [], "executionMode": "interval", "schedule": "daily@03:00"}
    only = {"id": "only", "nodes": nodes, "edges": []}
    workflow = an_id(await assistant.do("create workflow", {"name": "Branches", "branches": [night, only]}))
    why = await assistant.refused("execute workflow", {"id": workflow})
    assert "night" in why and "only" in why, why
    run = await assistant.do("execute workflow", {"id": workflow, "branchId": "only"})
    assert run["status"] == "completed" and run["targetBranchId"] == "only", run
    schedules = (await assistant.do("get workflow", {"id": workflow}))["schedules"]
    assert [found["branchId"] for found in schedules] == ["night"] and schedules[0]["next_times"], schedules
    nodes, _ = graph(["Anna", "Ben"], is_cycle=False)
    await assistant.do("update workflow", {"id": workflow, "nodes": nodes, "edges": [], "executionMode": "one_time"})
    main = await assistant.do("execute workflow", {"id": workflow})
    assert main["status"] == "completed" and "targetBranchId" not in main, main


def executors(model):
    return [
        {"executor_id": "fetch", "name": "Fetcher", "model": "sim/any", "tools": [],
         "system_prompt": "Search for prices.", "output_schema": {"prices": [{"product": "str", "price": "float"}]},
         "iteration_hint": "Search all 5 products"},
        {"executor_id": "summarize", "name": "Summarizer", "model": model, "tools": [],
         "system_prompt": "Previous output: {previous_output}. Summarize.", "output_schema": {"summary": "str"}},
    ]


async def a_chain_of_executors(assistant):
    """keeps A-31, A-32, A-33, A-34, A-35, A-36, A-37"""
    tool = assistant.tool("create", "workflow")
    given = {"name": "Price Monitor", "description": "Check prices", "executors": executors("sim/any"),
             "schedule_type": "immediate", "thread_id": "t1"}
    result = await assistant.client.call_tool(tool.name, given)
    workflow = result.content[0].text
    assert workflow == result.structured_content["workflow_id"] and len(workflow) == 36, result
    assert (await assistant.do("list runs", {"workflow_id": workflow}))["runs"] == [], "creating starts nothing"
    assert workflow in [found["workflow_id"] for found in (await assistant.do("list workflows", {}))["workflows"]]
    run = await assistant.ended(await assistant.do("run workflow", {"workflow_id": workflow, "thread_id": "t1"}))
    assert run["status"] == "completed" and isinstance(run["final_output"]["summary"], str), run
    assert [found["status"] for found in run["executor_results"]] == ["success", "success"], run
    trace = await assistant.do("get workflow run", {"run_id": run["run_id"]})
    assert [found["executor_name"] for found in trace["executor_runs"]] == ["Fetcher", "Summarizer"], trace
    broken = await assistant.do("create workflow", {"name": "Broken", "executors": executors("script/broken.json")})
    run = await assistant.do("run workflow", {"workflow_id": broken["workflow_id"]})
    assert run["status"] == "partial_success" and run["error_message"], run
    failed = (await assistant.do("list failed runs", {"workflow_id": broken["workflow_id"]}))["runs"]
    assert [found["run_id"] for found in failed] == [run["run_id"]], failed
    return workflow


async def schedules(assistant, workflow):
    """keeps A-31, A-32, A-36"""
    words = {"workflow_id": workflow, "schedule_type": "recurring", "cron_expression": "daily at 9am"}
    set_to = await assistant.do("schedule workflow", words)
    assert len(set_to["next_times"]) == 5 and "09:00" in set_to["next_times"][0], set_to
    once = await assistant.do("schedule workflow",
                              {"workflow_id": workflow, "schedule_type": "scheduled", "schedule_time": "in 3 hours"})
    found = (await assistant.do("get workflow", {"id": workflow}))["schedules"]
    assert [one["schedule_id"] for one in found] == [once["schedule_id"]], found
    cancelled = await assistant.do("cancel workflow", {"workflow_id": workflow, "schedule_type": "recurring"})
    assert cancelled["cancelled_schedules"] == [], cancelled
    cancelled = await assistant.do("cancel workflow", {"workflow_id": workflow, "schedule_type": "scheduled"})
    assert len(cancelled["cancelled_schedules"]) == 1 and cancelled["cancelled_runs"] == [], cancelled
    assert (await assistant.do("get workflow", {"id": workflow}))["schedules"] == []
    now = await assistant.do("schedule workflow", {"workflow_id": workflow, "schedule_type": "immediate"})
    assert now["status"] == "completed" and now["run_id"], now
    at_once = await assistant.do("create workflow", {"name": "Daily", "executors": executors("sim/any"),
                                                     "schedule_type": "recurring", "cron_expression": "0 9 * * *"})
    assert at_once["schedule"]["next_times"], at_once
    assert "`id` is missing" in await assistant.refused("cancel workflow", {})
    stopped = await assistant.do("cancel workflow", {"workflow_id": at_once["workflow_id"]})
    assert len(stopped["cancelled_schedules"]) == 1, stopped


ASKS = """
name: Refund
description: Refund an order after a person has agreed.
input: { order: string }
steps:
  - { id: agree, ask: { question: "Refund {{ input.order }}?", answer: { amount: number } } }
output: "{{ steps.agree.output.amount }}"
"""


async def a_person_is_asked(assistant):
    checked = await assistant.do("validate workflow", {"definition": ASKS})
    assert checked["valid"] and checked["format"] == "native", checked
    made = await assistant.do("create workflow", {"name": "Refund", "definition": ASKS, "published": True})
    await assistant.look_around()
    own = next(tool for tool in assistant.tools.values() if "Refund" == tool.title)
    assert own.input_schema["required"] == ["order"] and "after a person" in own.description, own
    assert made["tool"] == own.name == (await assistant.do("get workflow", {"id": "Refund"}))["tool"], made
    seen = []

    async def on_progress(done, total, message):
        seen.append(message)

    began = anyio.current_time()
    run = await assistant.call(own, {"order": "A-7"}, progress_callback=on_progress)
    assert anyio.current_time() - began < 40, "a run that asks is shown at once, not when the time to wait is up"
    assert run["status"] == "waiting" and run["workflow_id"] == an_id(made), run
    assert any("asks a person: Refund A-7?" in message for message in seen), seen
    question = run["questions"][0]
    assert question["question"] == "Refund A-7?" and "answer_run" in run["next"], run
    why = await assistant.refused("answer run", {"run_id": run["run_id"], "answer": {"amount": "much"}})
    assert "amount" in why, why
    run = await assistant.do("answer run", {"run_id": run["run_id"], "step": question["step"], "answer": {"amount": 7}})
    assert run["status"] == "completed" and run["output"] == 7, run
    waiting = await assistant.call(own, {"order": "A-8"})
    cancelled = await assistant.do("cancel run", {"id": waiting["run_id"]})
    assert cancelled["status"] == "cancelled", cancelled
    listed = (await assistant.client.list_resources()).resources
    assert f"relais://runs/{run['run_id']}" in [str(found.uri) for found in listed], listed
    trace = (await assistant.client.read_resource(run["resource"])).contents[0]
    assert trace.mime_type == "application/json" and "Refund A-7?" in trace.text, trace
    text = (await assistant.client.read_resource(f"relais://workflows/{an_id(made)}")).contents[0]
    assert text.text == ASKS and text.mime_type == "application/yaml", text


async def main():
    with anyio.fail_after(300):
        async with connect(sys.argv[1], sys.argv[2]) as client:
            assistant = await Assistant(client).look_around()
            two = await create_a_workflow_with_two_agents(assistant)
            await fix_a_failed_workflow(assistant)
            await what_went_wrong_with_my_run(assistant)
            await add_an_agent_to_my_workflow(assistant, two)
            await branches_on_their_own(assistant)
            chain = await a_chain_of_executors(assistant)
            await schedules(assistant, chain)
            await a_person_is_asked(assistant)


anyio.run(main)
