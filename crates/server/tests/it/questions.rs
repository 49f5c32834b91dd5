//! What people are asked over all runs, by those who may answer.

use relais_runtime::settings::Settings;
use reqwest::Method;
use serde_json::json;

use crate::flows::{ASKS, WORD};
use crate::setup::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn whoever_a_file_names_answers_in_somebody_elses_run() {
    let setup = Setup::guarded(Settings::default()).await;
    std::fs::write(setup.path().join(WORD.0), WORD.1).unwrap();
    let (ada, bob) = (setup.token("ada", "read run write").await, setup.token("bob", "read run").await);
    let reader = setup.token("bob", "read").await;
    let shared = ASKS.replace("approve: true", "approve: true, people: [bob], approvals: 2");
    let post = async |token: &str, path: &str, body| setup.ask_as(token, Method::POST, path, Some(body)).await;
    let (status, workflow) = post(&ada, "/api/v1/workflows", json!({ "definition": shared })).await;
    assert_eq!(status, 201, "{workflow}");
    let path = format!("/api/v1/workflows/{}/run", workflow["id"].as_str().unwrap());
    let (_, run) = post(&ada, &path, json!({ "tags": { "team": "sales" } })).await;
    let run = run["id"].as_str().unwrap().to_owned();
    setup.service.as_user("ada").settle(run.parse().unwrap()).await.unwrap();

    let (_, listed) = setup.ask_as(&bob, Method::GET, "/api/v1/questions", None).await;
    let question = &listed["items"][0];
    assert_eq!((&question["run"], &question["user"], &question["step"]), (&json!(run), &json!("ada"), &json!("sure")));
    assert_eq!((&question["approvals"], &question["approved_by"]), (&json!(2), &json!([])));
    assert_eq!(question["answer"], json!({ "type": "boolean" }));
    // The run itself is not his.
    let (status, _) = setup.ask_as(&bob, Method::GET, &format!("/api/v1/runs/{run}"), None).await;
    assert_eq!(status, 404);
    let answer = question["answer_at"].as_str().unwrap();
    assert_eq!(post(&reader, answer, json!({ "value": true })).await.0, 403);
    assert_eq!(post(&bob, answer, json!({ "value": "perhaps" })).await.0, 422);
    assert_eq!(post(&bob, answer, json!({ "value": true })).await.0, 202);
    assert_eq!(post(&bob, answer, json!({ "value": true })).await.0, 409);
    let (_, listed) = setup.ask_as(&ada, Method::GET, "/api/v1/questions", None).await;
    assert_eq!(listed["items"][0]["approved_by"][0]["user"], "bob");
    assert_eq!(post(&ada, answer, json!({ "value": true })).await.0, 202);
    setup.service.as_user("ada").settle(run.parse().unwrap()).await.unwrap();
    let (_, trace) = setup.ask_as(&ada, Method::GET, &format!("/api/v1/runs/{run}/trace"), None).await;
    let steps = trace["steps"].as_array().unwrap();
    let sure = steps.iter().find(|step| step["path"] == "sure").unwrap();
    let by: Vec<_> = sure["calls"][0]["answers"].as_array().unwrap().iter().map(|it| it["by"].clone()).collect();
    assert_eq!(by, ["bob", "ada"]);
    let (_, tagged) = setup.ask_as(&ada, Method::GET, "/api/v1/runs?tag=team=sales", None).await;
    assert_eq!(tagged["items"][0]["id"], json!(run));
    let (_, other) = setup.ask_as(&ada, Method::GET, "/api/v1/runs?tag=team=ops", None).await;
    assert_eq!(other["items"], json!([]));
}
