"""Makes one of everything on a server, so that made-up requests find something, and prints the configuration that tells
schemathesis the ids. What is changed or deleted by some requests is there several times.

Usage: furnish.py ADDRESS, with the token in TOKEN."""

import json
import os
import sys
import time
import urllib.request

DEFINITION = """
name: {name}
input: {{ topic?: string }}
notify: {{ on_complete: true }}
agents:
  talker: {{ model: sim/any, instructions: Say a word. }}
steps:
  - {{ id: say, agent: talker, prompt: "about {{{{ input.topic | default('tea') }}}}" }}
  - {{ id: save, tool: save_artifact, with: {{ name: note.md, content: "a {{{{ steps.say.output }}}}" }} }}
  - {{ id: sure, ask: {{ question: "{question}", approve: true }} }}
"""
GRAPH = {"nodes": [{"id": "a", "type": "set", "config": {"set": {"x": 1}}}], "edges": []}
# How often something is asked for that is there; else it is made up.
PROBABILITY = 0.8
# The server takes note of the end of a run in the background.
PATIENCE_S = 30


def ask(method, path, body=None):
    request = urllib.request.Request(sys.argv[1] + path, method=method)
    request.add_header("Authorization", "Bearer " + os.environ["TOKEN"])
    request.add_header("Content-Type", "application/json")
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(request, data) as answer:
        return json.load(answer)


def workflow(name):
    made = ask("POST", "/api/v1/workflows", {"definition": DEFINITION.format(name=name, question="Go on?")})
    path = "/api/v1/workflows/" + made["id"]
    ask("PATCH", path, {"definition": DEFINITION.format(name=name, question="Really?")})
    return made["id"]


def waiting(workflow):
    run = ask("POST", f"/api/v1/workflows/{workflow}/run", {"input": {"topic": "rain"}})["id"]
    ask("GET", f"/api/v1/runs/{run}?wait=30s")
    return run


def ended(workflow):
    run = waiting(workflow)
    ask("POST", f"/api/v1/runs/{run}/answer", {"value": True})
    ask("GET", f"/api/v1/runs/{run}?wait=30s")
    return run


def notifications(count):
    for _ in range(PATIENCE_S * 10):
        items = ask("GET", "/api/v1/notifications")["items"]
        if len(items) >= count:
            return [item["id"] for item in items]
        time.sleep(0.1)
    sys.exit(f"the server told of {len(items)} runs in {PATIENCE_S} s, not of {count}")


def made_of_steps(name):
    """A workflow that is edited step by step, with its trigger."""
    id = ask("POST", "/api/v1/workflows", {"name": name})["id"]
    for step in ["one", "two"]:
        ask("POST", f"/api/v1/workflows/{id}/steps", {"type": "custom_llm", "name": f"{step} of {name}"})
    ask("PUT", f"/api/v1/workflows/{id}/trigger", {"trigger_type_id": "event"})
    return ask("GET", f"/api/v1/workflows/{id}/details")


def everything():
    main, spare = workflow("main"), [workflow(f"spare {n}") for n in range(3)]
    runs = [waiting(main) for _ in range(4)] + [ended(main) for _ in range(3)]
    view = ask("GET", f"/api/v1/runs/{runs[-1]}/view?format=steps")
    stepped = [made_of_steps(f"stepped {n}") for n in range(3)]
    triggered = [made_of_steps(f"triggered {n}") for n in range(6)]
    steps = [{"type": "custom_llm", "name": f"alone {n}", "model": "sim/any", "system_prompt": "Hi"} for n in range(3)]
    agents = [{"name": f"agent {n}", "definition": {"model": "sim/any", "instructions": "Hi"}} for n in range(3)]
    made = lambda path, bodies, id: [ask("POST", path, body)[id] for body in bodies]
    times = [{"at": "2090-01-01T00:00:00Z"}, {"every": "1h"}, {"cron": "0 9 * * 1"}]
    hooked = "name: hooked\ntriggers: [{ webhook: parcels }]\nsteps: [{ wait: 1s }]\n"
    ask("POST", "/api/v1/workflows", {"definition": hooked})
    tokens = [ask("POST", "/api/v1/tokens", {"name": f"spare {n}", "scopes": ["read"]}) for n in range(3)]
    return {
        "workflow": [main],
        "spare": spare + [one["uuid"] for one in stepped],
        "stepped": [one["uuid"] for one in stepped],
        "run": runs,
        "told": [ended(main)],
        "output": [step["output"]["uuid"] for step in view["step_instances"] if step.get("output")],
        "step": made("/api/v1/steps", steps, "uuid") + [one["steps"][0]["uuid"] for one in triggered],
        "placed": [step["uuid"] for one in stepped for step in one["steps"]],
        "trigger": [one["trigger"]["uuid"] for one in triggered],
        "agent": made("/api/v1/agents", agents, "id"),
        "schedule": made(f"/api/v1/workflows/{main}/schedules", times, "id"),
        "notification": notifications(4),
        "question": [item["id"] for item in ask("GET", "/api/v1/questions")["items"]],
        "bulk": made("/api/v1/bulk", [{"action": "resume", "filter": {"tags": ["none=such"]}}], "id"),
        "hook": ["parcels"],
        "user": [ask("GET", "/api/v1/whoami")["user_id"]],
        "token": [token["token"]["id"] for token in tokens],
        "artifact": ["note.md"],
        "version": [1, 2],
        "place": ["say", "save", "sure"],
        "definition": [DEFINITION.format(name="sent", question="Go on?"), hooked, json.dumps(GRAPH)],
    }


# What stands behind which part of a path.
PLACES = {
    "workflows/{id}": "workflow",
    "runs/{id}": "run",
    "instances/{id}": "run",
    "outputs/{id}": "output",
    "steps/{id}": "step",
    "steps/{step_id}": "placed",
    "triggers/{id}": "trigger",
    "agents/{id}": "agent",
    "schedules/{id}": "schedule",
    "notifications/{id}": "notification",
    "questions/{id}": "question",
    "bulk/{id}": "bulk",
    "tokens/{id}": "token",
    "hooks/{id}": "hook",
    "hooks/{user}": "user",
    "{user}/{id}": "hook",
    "artifacts/{name}": "artifact",
    "versions/{version}": "version",
}
# What bodies name, wherever they have a field of that name.
FIELDS = {"workflow": "workflow", "from": "place", "version": "version", "step_uuid": "step", "definition": "definition"}
# A stream ends with its run: nobody else may take this one up again. Others are listened to for so long.
STREAMED = ["stream_run_events"]
STREAM_S = 2
# Operations that change a workflow so that others could not use it any more have their own.
STEPPED = ["add_step", "reorder_steps", "remove_step", "roll_back_workflow"]
SPARE = ["update_workflow", "delete_workflow"]


def bound(place, name):
    return f'"{place}" = {{ dictionary = "{name}", probability = {PROBABILITY} }}'


def fields(operation, schemas):
    """The fields of the body that can name something."""
    content = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    schema = schemas.get(content.get("schema", {}).get("$ref", "").split("/")[-1], {})
    return [bound(f"body.{field}", FIELDS[field]) for field in schema.get("properties", {}) if field in FIELDS]


def bindings(path, operation):
    parts = path.split("/")
    for before, part in zip(parts, parts[1:]):
        if not part.startswith("{"):
            continue
        place = f"{before}/{part}"
        if place not in PLACES:
            sys.exit(f"{path}: make something for {place} in {__file__}")
        name = PLACES[place]
        if name == "workflow":
            is_stepped = operation in STEPPED or operation.endswith("_workflow_trigger")
            name = "stepped" if is_stepped else "spare" if operation in SPARE else name
        if operation in STREAMED:
            name = "told"
        yield bound(f"path.{part[1:-1]}", name)


# What schemathesis only warns of otherwise: then less would be tried than it seems.
FAIL_ON = ["missing_auth", "method_not_allowed", "unresolvable_reference", "unmatched_filter", "dictionary_mismatch"]


def main():
    # Before the tables. The token stays in the environment.
    print("cache = { enabled = false }")
    print('headers = { Authorization = "Bearer ${TOKEN}" }')
    print(f"warnings = {{ fail-on = {json.dumps(FAIL_ON)} }}\n")
    for name, values in everything().items():
        print(f"[dictionaries.{name}]\nvalues = {json.dumps(values)}\n")
    document = ask("GET", "/api/v1/openapi.json")
    for path, methods in document["paths"].items():
        for operation in methods.values():
            id = operation["operationId"]
            found = ", ".join([*bindings(path, id), *fields(operation, document["components"]["schemas"])])
            if found:
                patience = f"request-timeout = {STREAM_S}\n" if id in STREAMED else ""
                print(f'[[operations]]\ninclude-operation-id = "{id}"\n{patience}parameters = {{ {found} }}\n')


main()
