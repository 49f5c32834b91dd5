//! Workflows over REST.

use reqwest::Method;
use serde_json::{Value, json};

use crate::setup::{Setup, answered};

pub const GREET: &str = "name: greet\ninput: { name?: string }\nsteps:\n  - { id: say, set: { word: \"{{ input.name | default('you') }}\" } }\noutput: \"{{ vars.word }}\"\n";

pub async fn create(setup: &Setup, body: Value) -> Value {
    let (status, made) = setup.ask(Method::POST, "/api/v1/workflows", Some(body)).await;
    assert_eq!(status.as_u16(), 201, "{made}");
    made
}

pub async fn refused(setup: &Setup, method: Method, path: &str, body: Value, status: u16, part: &str) -> Value {
    let (found, problem) = setup.ask(method, path, Some(body)).await;
    let detail = problem["detail"].as_str().unwrap_or_default();
    assert!(found.as_u16() == status && detail.contains(part), "{path}: {found} {problem}");
    problem
}

// keeps B-20, D-13
#[tokio::test(flavor = "multi_thread")]
async fn an_empty_workflow_is_made_found_and_filled() {
    let setup = Setup::new().await;
    let made = create(&setup, json!({ "name": "Report", "description": "Weekly", "alias": "weekly" })).await;
    assert_eq!((&made["version"], &made["runnable"], &made["steps"]), (&json!(0), &json!(false), &json!([])));
    let id = made["id"].as_str().unwrap();
    for name in [id, "weekly", "Report"] {
        let (status, found) = setup.get(&format!("/api/v1/workflows/{name}")).await;
        assert_eq!((status.as_u16(), &found["id"]), (200, &made["id"]), "{name}");
    }
    let run = format!("/api/v1/workflows/{id}/run");
    refused(&setup, Method::POST, &run, json!({}), 409, "is empty").await;
    let graph = json!({ "nodes": [{ "id": "a", "type": "set", "config": { "set": { "x": 1 } } }], "edges": [] });
    let path = format!("/api/v1/workflows/{id}");
    let (status, filled) = setup.ask(Method::PATCH, &path, Some(json!({ "definition": graph }))).await;
    assert_eq!((status.as_u16(), &filled["format"], &filled["version"]), (200, &json!("graph"), &json!(1)), "{filled}");
    let (_, page) = setup.get("/api/v1/workflows").await;
    assert_eq!((page["items"][0]["id"].as_str(), &page["next"]), (Some(id), &Value::Null));
}

// keeps B-42
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_started_with_triggering_data_and_is_an_instance() {
    let setup = Setup::new().await;
    let made = create(&setup, json!({ "definition": GREET })).await;
    let data = json!({ "name": "Ada" });
    let (status, run) = setup.post("/api/v1/workflows/greet/run", json!({ "triggering_data": data })).await;
    assert_eq!((status.as_u16(), &run["uuid"], &run["workflow_id"]), (202, &run["id"], &made["id"]), "{run}");
    assert_eq!((&run["trigger_output"]["raw_data"], run["step_instances"].is_array()), (&data, true), "{run}");
    let id = run["id"].as_str().unwrap();
    setup.service.settle(id.parse().unwrap()).await.unwrap();
    // The same fields as the instance has when it is asked for.
    let (_, instance) = setup.get(&format!("/api/v1/instances/{id}")).await;
    let missing: Vec<&String> = instance.as_object().unwrap().keys().filter(|key| run.get(key).is_none()).collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert_eq!(instance["trigger_output"], run["trigger_output"]);
    let both = json!({ "input": {}, "triggering_data": {} });
    refused(&setup, Method::POST, "/api/v1/workflows/greet/run", both, 422, "two names of the same thing").await;
}

// keeps B-31, B-38
#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_answered_at_once_and_goes_on() {
    let setup = Setup::new().await;
    let made = create(&setup, json!({ "definition": GREET })).await;
    let body = Some(json!({ "input": { "name": "Ada" } }));
    let (status, run) = setup.ask(Method::POST, "/api/v1/workflows/greet/run", body).await;
    assert_eq!((status.as_u16(), &run["workflow_id"], &run["version"]), (202, &made["id"], &json!(1)), "{run}");
    let id = run["id"].as_str().unwrap().parse().unwrap();
    setup.service.settle(id).await.unwrap();
    assert_eq!(setup.service.output(id).await.unwrap(), "Ada");
    let wrong = json!({ "input": { "nmae": "Ada" } });
    refused(&setup, Method::POST, "/api/v1/workflows/greet/run", wrong, 422, "did you mean `name`?").await;
    for version in [7, u64::MAX] {
        let (other, part) = (json!({ "version": version }), format!("no version {version}"));
        refused(&setup, Method::POST, "/api/v1/workflows/greet/run", other, 404, &part).await;
    }
    let branch = json!({ "branch": "side" });
    refused(&setup, Method::POST, "/api/v1/workflows/greet/run", branch, 422, "no branch `side`").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_in_a_definition_is_told_with_its_place() {
    let setup = Setup::new().await;
    let text = "name: bad\nsteps:\n  - { id: a, agnet: writer }\n  - { id: b, agent: writer }\n";
    let problem =
        refused(&setup, Method::POST, "/api/v1/workflows", json!({ "definition": text }), 422, "line 3").await;
    assert_eq!((&problem["kind"], &problem["errors"][0]["line"]), (&json!("invalid"), &json!(3)), "{problem}");
    assert!(problem["errors"].as_array().unwrap().len() > 1, "all of them: {problem}");
    let lenient = create(&setup, json!({ "definition": text, "lenient": true, "name": "later" })).await;
    assert_eq!((&lenient["version"], &lenient["runnable"]), (&json!(1), &json!(false)));
    refused(&setup, Method::POST, "/api/v1/workflows/later/run", json!({}), 422, "line 3").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_workflow_is_refused() {
    let setup = Setup::new().await;
    create(&setup, json!({ "name": "first", "alias": "one" })).await;
    let check = async |body: Value, status: u16, part: &str| {
        refused(&setup, Method::POST, "/api/v1/workflows", body, status, part).await;
    };
    check(json!({}), 422, "needs a name").await;
    check(json!({ "name": " " }), 422, "needs a name").await;
    check(json!({ "name": "x".repeat(256) }), 422, "at most 255").await;
    check(json!({ "name": "x", "alias": "x".repeat(256) }), 422, "`alias` has at most 255").await;
    check(json!({ "name": "second", "alias": "one" }), 409, "alias `one`").await;
    check(json!({ "name": "second", "colour": "red" }), 400, "colour").await;
    check(json!({ "definition": GREET, "format": "cobol" }), 400, "no format `cobol`").await;
    check(json!({ "definition": "name: a\nsteps: [{ workflow: ./b.yaml }]" }), 422, "reads no files").await;
    check(json!({ "definition": "name: a\nsteps: [{ workflow: nobody }]" }), 422, "there is no workflow `nobody`")
        .await;
    let server = "name: a\nmcp: { s: { url: \"http://x/\", headers: { A: \"${HOME}\" } } }\nsteps: [{ wait: 1s }]";
    check(json!({ "definition": server }), 422, "reads no environment").await;
    let dag = "!include other.yaml\npersonas: []\nworkflow: { nodes: [] }";
    check(json!({ "definition": dag, "format": "dag" }), 422, "reads no files").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_makes_one_workflow() {
    let setup = Setup::new().await;
    let ask = async |body: Value| {
        let url = format!("http://{}/api/v1/workflows", setup.server.address);
        let answer = setup.client.post(url).header("Idempotency-Key", "k1").json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (status, first) = ask(json!({ "definition": GREET })).await;
    let (again, second) = ask(json!({ "definition": GREET })).await;
    assert_eq!((status, again, &first["id"]), (201, 201, &second["id"]));
    assert_eq!(ask(json!({ "name": "another" })).await.0, 409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_what_was_not_read_is_stale() {
    let setup = Setup::new().await;
    let made = create(&setup, json!({ "definition": GREET })).await;
    let url = format!("http://{}/api/v1/workflows/{}", setup.server.address, made["id"].as_str().unwrap());
    let read = setup.client.get(&url).send().await.unwrap();
    let etag = read.headers()["etag"].to_str().unwrap().to_owned();
    let patch = async |etag: &str, body: Value| {
        let answer = setup.client.patch(&url).header("If-Match", etag).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (status, renamed) = patch(&etag, json!({ "name": "hello" })).await;
    assert_eq!((status, &renamed["name"], &renamed["version"]), (200, &json!("hello"), &json!(1)));
    assert_eq!(patch(&etag, json!({ "name": "again" })).await.0, 412);
    let (_, same) = patch("*", json!({ "definition": GREET })).await;
    assert_eq!((&same["version"], &same["revision"]), (&json!(1), &renamed["revision"]), "the same text: nothing new");
    let (_, newer) = patch("*", json!({ "definition": GREET.replace("you", "thou") })).await;
    assert_eq!(newer["version"], 2);
    assert_eq!(patch("*", json!({ "status": "archived" })).await.1["version"], 2);
    let (_, page) = setup.get("/api/v1/workflows").await;
    assert_eq!(page["items"], json!([]), "archived ones are hidden");
    assert_eq!(setup.get("/api/v1/workflows?status=archived").await.1["items"][0]["name"], "hello");
    refused(&setup, Method::POST, "/api/v1/workflows/hello/run", json!({}), 409, "archived").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged() {
    let setup = Setup::new().await;
    for name in ["a", "b", "c"] {
        create(&setup, json!({ "name": name })).await;
    }
    let mut path = "/api/v1/workflows?limit=2".to_owned();
    let mut names = Vec::new();
    for _ in 0..2 {
        let (_, page) = setup.get(&path).await;
        names.extend(page["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()));
        path = format!("/api/v1/workflows?limit=2&cursor={}", page["next"].as_str().unwrap_or("none"));
    }
    assert_eq!((names.join(""), path.ends_with("none")), ("cba".to_owned(), true));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_names_one_run_whatever_the_version() {
    let setup = Setup::new().await;
    create(&setup, json!({ "definition": GREET })).await;
    let ask = async |body: Value| {
        let request = setup.request(Method::POST, "/api/v1/workflows/greet/run").header("Idempotency-Key", "k");
        let answer = request.json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let (_, first) = ask(json!({ "input": { "name": "Ada" } })).await;
    let change = json!({ "definition": GREET.replace("you", "thou") });
    setup.ask(Method::PATCH, "/api/v1/workflows/greet", Some(change)).await;
    let (status, again) = ask(json!({ "input": { "name": "Ada" } })).await;
    assert_eq!((status, &again["id"], &again["version"]), (202, &first["id"], &json!(1)), "{again}");
    assert_eq!(ask(json!({ "input": { "name": "Bob" } })).await.0, 409);
    assert_eq!(ask(json!({ "input": { "name": "Ada" }, "version": 2 })).await.0, 409);
}

// keeps A-26
#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_tells_how_its_runs_have_ended() {
    let setup = Setup::new().await;
    let text = "name: halves\ninput: { n: integer }\nsteps:\n  - { id: one, set: { half: \"{{ 2 / input.n }}\" } }\n";
    let made = create(&setup, json!({ "definition": text })).await;
    let (_, fresh) = setup.get("/api/v1/workflows/halves").await;
    assert_eq!((&fresh["total_runs"], &fresh["last_run"]), (&json!(0), &Value::Null), "{fresh}");
    let mut last = Value::Null;
    for n in [1, 2, 0] {
        let (_, run) = setup.post("/api/v1/workflows/halves/run", json!({ "input": { "n": n } })).await;
        setup.rested(run["id"].as_str().unwrap().parse().unwrap()).await;
        setup.service.feed_once().await.unwrap();
        last = run["id"].clone();
    }
    let (_, whole) = setup.get(&format!("/api/v1/workflows/{}", made["id"].as_str().unwrap())).await;
    let counters = (&whole["total_runs"], &whole["successful_runs"], &whole["failed_runs"]);
    assert_eq!(counters, (&json!(3), &json!(2), &json!(1)), "{whole}");
    assert_eq!((&whole["last_run"]["id"], &whole["last_run"]["status"]), (&last, &json!("failed")), "{whole}");
    let (_, listed) = setup.get("/api/v1/workflows").await;
    assert!(listed["items"][0].get("total_runs").is_none(), "a list reads no counters: {listed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_names_one_workflow() {
    let setup = Setup::new().await;
    let made = create(&setup, json!({ "name": "first", "alias": "one" })).await;
    // Its own name is no other's.
    create(&setup, json!({ "name": "second", "alias": "second" })).await;
    let (all, second) = ("/api/v1/workflows", "/api/v1/workflows/second");
    let executor =
        json!({ "executor_id": "a", "model": "sim/1", "system_prompt": "x", "output_schema": { "a": "str" } });
    let chain = json!({ "workflow_id": "first", "name": "chain", "executors": [executor] });
    for (method, path, body) in [
        (Method::POST, all, json!({ "name": "third", "alias": "first" })),
        (Method::POST, all, json!({ "name": "one" })),
        (Method::POST, all, json!({ "name": "third", "alias": "one" })),
        (Method::POST, all, json!({ "definition": chain })),
        (Method::PATCH, second, json!({ "alias": "first" })),
        (Method::PATCH, second, json!({ "name": "one" })),
    ] {
        let problem = refused(&setup, method, path, body, 409, made["id"].as_str().unwrap()).await;
        assert!(problem["detail"].as_str().unwrap().contains("`first`"), "{problem}");
    }
    assert_eq!(setup.get("/api/v1/workflows/first").await.1["id"], made["id"]);
    let (status, told) = setup.ask(Method::PATCH, second, Some(json!({ "alias": "two" }))).await;
    assert_eq!(status, 200, "{told}");
    create(&setup, json!({ "name": "second" })).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_may_name_several_tags() {
    let setup = Setup::new().await;
    let made = create(&setup, json!({ "name": "tagged" })).await;
    let (path, is) = (format!("/api/v1/workflows/{}", made["id"].as_str().unwrap()), made["revision"].clone());
    let check = async |tags: &[String], status: u16| {
        let request = setup.request(Method::PATCH, &path);
        let request = tags.iter().fold(request, |request, tag| request.header("If-Match", tag));
        // The same as before, so that the revision stays.
        let (found, told) = answered(request, Some(json!({ "name": "tagged" }))).await;
        assert_eq!(found, status, "{tags:?}: {told}");
    };
    check(&[format!("\"{is}\"")], 200).await;
    check(&[format!("\"77\", \"{is}\"")], 200).await;
    check(&["\"77\"".into(), format!("\"{is}\"")], 200).await;
    check(&[format!("\"one, two\" ,, \"{is}\" ")], 200).await;
    check(&["*".into()], 200).await;
    for tags in [format!("W/\"{is}\""), "\"77\", \"78\"".into(), "\"other\"".into(), format!("\"0{is}\"")] {
        check(&[tags], 412).await;
    }
    for tags in ["\"3", "3\"", "", "\"1\" \"2\"", "*, \"1\"", "w/\"1\""] {
        check(&[tags.into()], 400).await;
    }
}
