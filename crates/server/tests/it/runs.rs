//! Runs over REST.

use serde_json::json;

use crate::setup::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_is_a_problem_with_a_kind() {
    let setup = Setup::new().await;
    let check = async |path: &str, status: u16, kind: &str| {
        let (found, body) = setup.get(path).await;
        assert_eq!((found.as_u16(), &body["kind"]), (status, &json!(kind)), "{path}: {body}");
    };
    check("/api/v1/runs/0190a0b0-c0d0-7000-8000-00000000000a", 404, "not_found").await;
    check("/api/v1/runs/none", 404, "not_found").await;
    check("/api/v1/nothing", 404, "not_found").await;
    check("/api/v1/runs?limit=many", 400, "invalid").await;
}
