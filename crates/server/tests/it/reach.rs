//! What a definition that came over the network reaches on the server's machine and around it: nothing that the
//! settings do not name.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use relais_plan::McpServer;
use relais_runtime::settings::Settings;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::setup::Setup;
use crate::workflows::{create, refused};

/// A server of the inner network, which is not for everybody. Counts who comes in.
async fn inner() -> (String, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, seen) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
    let count = seen.clone();
    tokio::spawn(async move {
        while let Ok((mut socket, _)) = listener.accept().await {
            count.fetch_add(1, Ordering::SeqCst);
            let _ = socket.read(&mut [0; 8192]).await;
            let head = "HTTP/1.1 404 No\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: 9";
            let _ = socket.write_all(format!("{head}\r\n\r\n\"private\"").as_bytes()).await;
        }
    });
    (address.to_string(), seen)
}

fn asking(servers: &str) -> Value {
    let text = format!(
        "name: asks\n{servers}\nagents: {{ w: {{ model: sim/1, tools: [\"mcp:x/*\"] }} }}\nsteps: [{{ agent: w }}]"
    );
    json!({ "definition": text })
}

fn at(place: &str) -> Value {
    asking(&format!("mcp: {{ x: {{ url: \"http://{place}/mcp\" }} }}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_of_the_network_does_not_call_the_server_itself() {
    let setup = Setup::new().await;
    let own = setup.server.address.to_string();
    let port = setup.server.address.port();
    for place in [own, format!("[::ffff:127.0.0.1]:{port}"), format!("2130706433:{port}")] {
        refused(&setup, Method::POST, "/api/v1/workflows", at(&place), 422, "private, local or reserved").await;
        refused(&setup, Method::POST, "/api/v1/runs", at(&place), 422, "private, local or reserved").await;
    }
    // What a name leads to is known only when it is called, and judged then, each time.
    create(&setup, at(&format!("localhost:{port}"))).await;
    let run = "/api/v1/workflows/asks/run";
    refused(&setup, Method::POST, run, json!({}), 422, "private, local or reserved").await;
    // A test of the rule and not of the server: the same address that the settings name answers.
    let mut settings = Settings::default();
    settings.tools.http_request.allow_private = vec!["127.0.0.1".into()];
    let open = Setup::with(settings).await;
    let made = create(&open, at(&open.server.address.to_string())).await;
    assert_eq!(made["manifest"].get("unverified"), None, "{made}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_inner_network_is_reached_only_by_what_the_operator_names_and_is_not_quoted() {
    let (address, seen) = inner().await;
    let setup = Setup::new().await;
    refused(&setup, Method::POST, "/api/v1/runs", at(&address), 422, "private, local or reserved").await;
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    // The operator's own server stays free, and a text of the network may use it by its name.
    let named = McpServer { url: Some(format!("http://{address}/mcp")), ..McpServer::default() };
    let setup = Setup::with(Settings { mcp: [("x".to_owned(), named)].into(), ..Settings::default() }).await;
    let problem = refused(&setup, Method::POST, "/api/v1/runs", asking(""), 422, "404").await;
    assert!(seen.swap(0, Ordering::SeqCst) > 0 && !problem.to_string().contains("private"), "{problem}");
    // Not even under the operator's name for it.
    refused(&setup, Method::POST, "/api/v1/runs", at(&address), 422, "private, local or reserved").await;
    assert_eq!(seen.load(Ordering::SeqCst), 0);
    // A local file is the operator's.
    setup.write("flow.yaml", at(&address)["definition"].as_str().unwrap());
    let definition = setup.service.read(&setup.path().join("flow.yaml"), &Default::default()).unwrap();
    let told = setup.service.publish(definition, false, None).await.err().unwrap().to_string();
    assert!(seen.load(Ordering::SeqCst) > 0 && told.contains("404") && !told.contains("private"), "{told}");
}

fn spoken_by(model: &str) -> Value {
    json!({ "definition": format!("name: reads\nagents: {{ a: {{ model: '{model}' }} }}\nsteps: [{{ agent: a }}]") })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_of_the_network_is_no_way_to_the_files_of_the_server() {
    let setup = Setup::new().await;
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("other.json"), "[{\"text\": \"private\"}]").unwrap();
    let whole = format!("script/{}", outside.path().join("other.json").display());
    for model in [whole.as_str(), "script//dev/zero", "script/../x.json", "script/a/../../x.json"] {
        let part = "inside the folder of relais.toml";
        refused(&setup, Method::POST, "/api/v1/workflows", spoken_by(model), 422, part).await;
        refused(&setup, Method::POST, "/api/v1/runs", spoken_by(model), 422, part).await;
        let agent = json!({ "name": "reader", "definition": { "model": model } });
        refused(&setup, Method::POST, "/api/v1/agents", agent, 422, part).await;
        let mut start = spoken_by("sim/1");
        start["model"] = json!(model);
        refused(&setup, Method::POST, "/api/v1/runs", start, 422, part).await;
    }
    setup.write("word.json", "[{\"text\": \"mine\"}]");
    std::os::unix::fs::symlink(outside.path().join("other.json"), setup.path().join("link.json")).unwrap();
    for (model, wanted) in [("script/word.json", "mine"), ("script/link.json", "inside the folder of relais.toml")] {
        let (status, begun) = setup.post("/api/v1/runs", spoken_by(model)).await;
        assert_eq!(status, 201, "{begun}");
        let run = begun["id"].as_str().unwrap();
        setup.service.settle(run.parse().unwrap()).await.unwrap();
        let shown = setup.get(&format!("/api/v1/runs/{run}")).await.1;
        let told = format!("{shown} {}", setup.get(&format!("/api/v1/runs/{run}/output")).await.1);
        assert!(told.contains(wanted) && !told.contains("private"), "{model}: {told}");
    }
}

// A text that cannot run by itself may be kept; it cannot run as a part of another either.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_called_workflow_names_is_refused_as_well() {
    let setup = Setup::new().await;
    let check = async |name: &str, head: &str, part: &str| {
        let text = format!("name: {name}\n{head}\nsteps: [{{ agent: a }}]");
        create(&setup, json!({ "definition": text, "lenient": true })).await;
        let calling = json!({ "definition": format!("name: over-{name}\nsteps: [{{ workflow: {name} }}]") });
        refused(&setup, Method::POST, "/api/v1/workflows", calling.clone(), 422, part).await;
        refused(&setup, Method::POST, "/api/v1/runs", calling, 422, part).await;
    };
    let agent = "agents: { a: { model: sim/1 } }";
    check("starts", &format!("{agent}\nmcp: {{ s: {{ command: [touch, x] }} }}"), "allow_commands").await;
    check("reads", "agents: { a: { model: script//etc/passwd } }", "inside the folder").await;
}
