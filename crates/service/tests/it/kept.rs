//! Workflows that are kept: who is found by what, and what a version is made of.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use relais_runtime::clock::SystemClock;
use relais_runtime::settings::Settings;
use relais_service::{
    AgentChange, Config, Error, NewAgent, NewWorkflow, OnClash, Once, Removal, Service, Start, StepFields,
    WorkflowChange, Written,
};
use relais_store::{Find, MemoryStore, Store};
use serde_json::json;

use crate::setup::{ONE_WORD, Setup, VirtualClock};

fn new(name: &str, text: &str) -> NewWorkflow {
    let definition = Some(Written { text: text.to_owned(), ..Written::default() });
    NewWorkflow { name: Some(name.to_owned()), definition, ..NewWorkflow::default() }
}

async fn kept(service: &Service, name: &str, text: &str) -> String {
    service.create_workflow(new(name, text)).await.unwrap().it.id.to_string()
}

const CHILD: &str = "name: inner\nsteps: [{ id: one, set: { x: 1 } }]\noutput: first\n";

#[tokio::test]
async fn a_called_workflow_is_pinned_as_it_is_when_the_caller_is_saved() {
    let setup = Setup::with(&[]);
    let service = &setup.service;
    let child = kept(service, "child", CHILD).await;
    for name in [child.as_str(), "child"] {
        let caller = format!("steps: [{{ id: call, workflow: {name} }}]\noutput: \"{{{{ steps.call.output }}}}\"\n");
        let caller = kept(service, &format!("calls {name}"), &caller).await;
        let run = service.start_workflow(&caller, None, None, Start::default()).await.unwrap();
        setup.end_of(run).await;
        assert_eq!(service.output(run).await.unwrap(), "first");
    }
    let circle = format!("steps: [{{ workflow: {child} }}]");
    let change = relais_service::WorkflowChange {
        definition: Some(Written { text: circle, ..Written::default() }),
        ..Default::default()
    };
    let error = service.update_workflow(&child, change, None).await.unwrap_err();
    assert!(error.to_string().contains("calls itself"), "{error}");
}

#[tokio::test]
async fn an_unknown_agent_is_told_with_all_that_are_kept() {
    let setup = Setup::with(&[]);
    for name in ["painter", "writer"] {
        let definition = json!({ "model": "sim/x", "instructions": "Work." });
        let agent = NewAgent { name: name.into(), definition, ..NewAgent::default() };
        setup.service.create_agent(agent).await.unwrap();
    }
    let check = async |agent: &str, help: &str| {
        let text = format!("steps: [{{ id: a, agent: {agent} }}]");
        let report = setup.service.check_definition(Written { text, ..Written::default() }).await.unwrap();
        let found = report.findings.iter().find(|found| found.message.contains("no agent is called")).unwrap();
        assert_eq!(found.help.as_deref(), Some(help));
    };
    check("somebody_else", "agents are: `painter`, `writer`").await;
    check("writre", "did you mean `writer`?").await;
    // Nobody is told of what others keep.
    let report = setup
        .service
        .as_user("other")
        .check_definition(Written { text: "steps: [{ id: a, agent: somebody_else }]".into(), ..Written::default() });
    let findings = report.await.unwrap().findings;
    assert!(
        findings.iter().all(|found| !found.help.as_deref().unwrap_or_default().contains("painter")),
        "{findings:?}"
    );
}

// keeps B-30
#[tokio::test]
async fn another_users_workflow_is_not_there() {
    let setup = Setup::with(&[]);
    let id = kept(&setup.service, "mine", CHILD).await;
    let other = setup.service.as_user("other");
    for name in [id.as_str(), "mine"] {
        let error = other.find_workflow(name).await.unwrap_err();
        assert!(matches!(error, Error::NotFound(_)), "{error}");
        assert!(matches!(other.start_workflow(name, None, None, Start::default()).await, Err(Error::NotFound(_))));
    }
    let caller = new("caller", &format!("steps: [{{ workflow: {id} }}]"));
    assert!(other.create_workflow(caller).await.unwrap_err().to_string().contains("there is no workflow"));
}

#[tokio::test]
async fn an_ambiguous_name_lists_the_ids() {
    let setup = Setup::with(&[]);
    let ids = [kept(&setup.service, "twin", CHILD).await, kept(&setup.service, "twin", CHILD).await];
    let error = setup.service.find_workflow("twin").await.unwrap_err().to_string();
    assert!(ids.iter().all(|id| error.contains(id)), "{error}");
}

#[tokio::test]
async fn the_wishes_for_summaries_go_with_the_steps_of_a_workflow() {
    let (setup, store) = (Setup::with(&[]), Arc::new(MemoryStore::new()));
    let mut config = setup.service.config().clone();
    config.settings.summary_model = Some("script/word.json".into());
    let service = Service::open_on(config, store.clone(), Arc::new(SystemClock), false).unwrap();
    let named = NewWorkflow { name: Some("by hand".into()), ..NewWorkflow::default() };
    let workflow = service.create_workflow(named).await.unwrap().it.id.to_string();
    let fields =
        StepFields { name: Some("say".into()), system_prompt: Some("Say a word.".into()), ..StepFields::default() };
    let step = service.create_step("custom_llm", fields).await.unwrap().record.uuid;
    service.attach_step(&workflow, step, -1, None).await.unwrap();
    let left = async |kind: &str| {
        let find = Find { kind: kind.into(), limit: 10, ..Find::default() };
        store.records(find).await.unwrap().len()
    };
    assert_eq!((left("step").await, left("summary_job").await), (1, 1));
    service.delete_workflow(&workflow, Removal::default(), None).await.unwrap();
    assert_eq!((left("step").await, left("summary_job").await), (0, 0));
}

#[tokio::test]
async fn branches_are_started_by_name() {
    let setup = Setup::with(&[ONE_WORD]);
    let node = |id: &str| json!({ "id": id, "type": "set", "config": { "set": { "x": 1 } } });
    let graph = json!({ "name": "many", "branches": [{ "id": "left", "nodes": [node("a")], "edges": [] }] });
    let id = kept(&setup.service, "many", &graph.to_string()).await;
    let start = |branch| setup.service.start_workflow(&id, branch, None, Start::default());
    let run = start(Some("left")).await.unwrap();
    setup.end_of(run).await;
    let target = setup.service.row(run).await.unwrap().summary.target;
    assert_eq!((target.workflow, target.version, target.branch.as_deref()), (id.clone(), 1, Some("left")));
    assert!(start(None).await.unwrap_err().to_string().contains("say which: left"));
}

#[tokio::test]
async fn a_file_that_is_run_is_a_workflow_with_versions() {
    let setup = Setup::with(&[("flow.yaml", CHILD)]);
    let service = &setup.service;
    let target = async |version: u32| {
        let (run, _) = setup.run("flow.yaml").await;
        let target = service.row(run).await.unwrap().summary.target;
        assert_eq!(target.version, version);
        target.workflow
    };
    let id = target(1).await;
    assert_eq!(target(1).await, id, "the same file is the same version");
    std::fs::write(setup.path().join("flow.yaml"), CHILD.replace("first", "second")).unwrap();
    assert_eq!(target(2).await, id);
    let found = service.find_workflow("inner").await.unwrap().it;
    assert_eq!((found.id.to_string(), found.version, found.file.is_some()), (id.clone(), 2, true));
    assert!(service.version(&id, "1").await.unwrap().version.definition.contains("first"));
    let again = service.start_workflow(&id, None, Some(1), Start::default()).await.unwrap();
    setup.end_of(again).await;
    assert_eq!(service.output(again).await.unwrap(), "first");
    let saved = kept(service, "inner", CHILD).await;
    assert_eq!(service.find_workflow("inner").await.unwrap().it.id.to_string(), saved, "what was kept goes first");
    service.delete_workflow(&saved, Removal::default(), None).await.unwrap();
    service.delete_workflow(&id, Removal::default(), None).await.unwrap();
    assert_eq!(target(3).await, id, "the versions before stay");
}

const EIGHT_DAYS_MS: i64 = 8 * 24 * 3_600_000;

#[tokio::test]
async fn a_key_of_something_that_was_deleted_is_a_conflict_until_it_is_forgotten() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), Arc::new(VirtualClock(AtomicI64::new(1_000_000))));
    let (home, place) = (folder.path().join("home"), folder.path().to_owned());
    let config = Config { home, folder: place, settings: Settings::default(), read: vec![], user: "somebody".into() };
    let service = Service::open_on(config, Arc::new(MemoryStore::new()), clock.clone(), false).unwrap();
    let make = async |key: &str| {
        let once = Some(Once::new(&service, "workflows", key, "the same"));
        service.create_workflow(NewWorkflow { once, ..new(key, CHILD) }).await.map(|made| made.it.id)
    };
    let (gone, stays) = (make("gone").await.unwrap(), make("stays").await.unwrap());
    assert_eq!(make("stays").await, Ok(stays));
    service.delete_workflow(&gone.to_string(), Removal::default(), None).await.unwrap();
    let refused = make("gone").await;
    assert!(matches!(&refused, Err(Error::Conflict(text)) if text.contains("deleted since")), "{refused:?}");
    clock.0.fetch_add(EIGHT_DAYS_MS, Ordering::SeqCst);
    make("another").await.unwrap();
    assert_ne!(make("gone").await.unwrap(), gone);
    // Whoever sends a key so late means something new, also where the first is still there.
    assert_ne!(make("stays").await.unwrap(), stays);
}

#[tokio::test]
async fn a_package_with_a_step_that_is_none_is_refused_with_its_place() {
    let setup = Setup::with(&[]);
    let id = kept(&setup.service, "child", CHILD).await;
    let package = setup.service.export_workflows(&[id], false).await.unwrap();
    let mut package = serde_json::to_value(package).unwrap();
    package["workflows"][0]["steps"] =
        json!([{ "uuid": "0190a0b0-c0d0-7000-8000-00000000000a", "type": "custom_llm" }]);
    let refused = setup.service.import_workflows(package, OnClash::Rename).await.unwrap_err();
    let Error::Invalid(text) = &refused else { panic!("{refused:?}") };
    assert!(text.contains("steps[0] of the workflow `child (2)`") && text.contains("`name` is missing"), "{text}");
}

/// Changes that a test sends at once: more than get through together.
const AT_ONCE: usize = 12;

/// Whoever does not say what it has read does not mind who was first.
#[tokio::test(flavor = "multi_thread")]
async fn changes_at_once_all_get_through_where_nobody_minds_the_revision() {
    let setup = Setup::with(&[]);
    let agent = NewAgent {
        name: "host".into(),
        definition: json!({ "model": "sim/any", "instructions": "0" }),
        ..NewAgent::default()
    };
    setup.service.create_agent(agent).await.unwrap();
    let text = |number: usize| format!("steps: [{{ id: one, agent: host, prompt: '{number}' }}]");
    let id = kept(&setup.service, "busy", &text(AT_ONCE)).await;
    let read = setup.service.find_workflow(&id).await.unwrap().revision;
    let mut changes = tokio::task::JoinSet::new();
    for number in 0..AT_ONCE {
        let (service, id, text) = (setup.service.clone(), id.clone(), text(number));
        changes.spawn(async move {
            let definition = Some(Written { text, ..Written::default() });
            let change = WorkflowChange { definition, ..Default::default() };
            service.update_workflow(&id, change, None).await.map(drop)
        });
        let service = setup.service.clone();
        changes.spawn(async move {
            let definition = Some(json!({ "model": "sim/any", "instructions": format!("new {number}") }));
            let change = AgentChange { definition, ..Default::default() };
            service.update_agent("host", change, None).await.map(drop)
        });
    }
    for done in changes.join_all().await {
        done.unwrap();
    }
    let workflow = setup.service.find_workflow(&id).await.unwrap().it;
    assert_eq!(workflow.version as usize, 1 + 2 * AT_ONCE, "each change is a version");
    let change = WorkflowChange { description: Some("late".into()), ..Default::default() };
    let late = setup.service.update_workflow(&id, change, Some(vec![read])).await.unwrap_err();
    assert!(matches!(late, Error::Stale(_)), "{late}");
}
