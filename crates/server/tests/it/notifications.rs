//! Notifications over REST.

use reqwest::Method;
use serde_json::json;

use crate::setup::Setup;

const FLOW: &str =
    "name: flow\nnotify: { on_complete: true, to: [nobody] }\nsteps:\n  - { id: say, set: { word: hi } }\n";

// keeps A-03
#[tokio::test(flavor = "multi_thread")]
async fn notifications_are_listed_marked_and_deleted() {
    let setup = Setup::new().await;
    setup.write("flow.yaml", FLOW);
    for _ in 0..3 {
        setup.run("flow.yaml").await;
        setup.service.feed_once().await.unwrap();
    }
    let base = "/api/v1/notifications";
    let count = async |path: &str| setup.get(path).await.1["items"].as_array().unwrap().len();
    let (_, page) = setup.get(&format!("{base}?limit=2")).await;
    let next = page["next"].as_str().unwrap();
    assert_eq!(page["items"][0]["kind"], "run.completed");
    assert_eq!(count(&format!("{base}?limit=2&cursor={next}")).await, 1);
    let one = format!("{base}/{}", page["items"][0]["id"].as_str().unwrap());
    let (status, marked) = setup.ask(Method::PATCH, &one, Some(json!({ "read": true }))).await;
    assert_eq!((status.as_u16(), &marked["read"]), (200, &json!(true)), "{marked}");
    assert_eq!((count(&format!("{base}?unread=true")).await, count(base).await), (2, 3));
    let (_, deliveries) =
        setup.get(&format!("/api/v1/deliveries?notification={}", marked["id"].as_str().unwrap())).await;
    assert_eq!(deliveries["items"].as_array().unwrap().len(), 1, "{deliveries}");
    assert_eq!(deliveries["items"][0]["state"], "waiting");
    setup.service.deliver_once().await.unwrap();
    let (_, deliveries) = setup.get("/api/v1/deliveries").await;
    assert_eq!(deliveries["items"][2]["state"], "given_up", "there is no channel of that name: {deliveries}");
    let (_, read) = setup.ask(Method::POST, &format!("{base}/read"), None).await;
    assert_eq!((read, count(&format!("{base}?unread=true")).await), (json!({ "marked": 2 }), 0));
    assert_eq!(setup.ask(Method::DELETE, &one, None).await.0, 204);
    assert_eq!(setup.ask(Method::DELETE, &one, None).await.0, 404);
    assert_eq!(setup.service.as_user("another").notifications(false, None, 9).await.unwrap().len(), 0);
    assert_eq!(count(base).await, 2);
}
