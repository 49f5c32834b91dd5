//! Documents and blobs.

use serde_json::Value;

use super::*;
use crate::{Document, DocumentKey};

fn document(name: &str, version: u64, body: Value) -> Document {
    let key = DocumentKey { kind: "workflow".into(), owner: "ann".into(), name: name.into() };
    Document { key, version, at: 7, body }
}

pub(super) async fn documents(Handles { here, there }: Handles) {
    let second = document("report", 2, json!({"z": 1, "a": [1.5, null]}));
    for document in [document("report", 1, json!(1)), second.clone(), document("audit", 1, json!("x"))] {
        here.put_document(document).await.unwrap();
    }
    let key = second.key.clone();
    assert_eq!(there.get_document(key.clone(), None).await, Ok(Some(second.clone())));
    assert_eq!(there.get_document(key.clone(), Some(1)).await, Ok(Some(document("report", 1, json!(1)))));
    assert_eq!(there.get_document(key.clone(), Some(3)).await, Ok(None));
    let other = DocumentKey { owner: "ben".into(), ..key.clone() };
    assert_eq!(there.get_document(other, None).await, Ok(None));
    let corrected = document("report", 1, json!("corrected"));
    there.put_document(corrected.clone()).await.unwrap();
    assert_eq!(here.get_document(key, Some(1)).await, Ok(Some(corrected)));
    let listed = here.list_documents("workflow".into(), "ann".into()).await.unwrap();
    assert_eq!(listed, [document("audit", 1, json!("x")), second]);
    assert_eq!(here.list_documents("plan".into(), "ann".into()).await, Ok(Vec::new()));
}

pub(super) async fn versions(Handles { here, there }: Handles) {
    let key = document("report", 1, json!(1)).key;
    assert_eq!(here.list_versions(key.clone(), 0).await, Ok(vec![]));
    for version in [2, 10, 1] {
        here.put_document(document("report", version, json!(version))).await.unwrap();
    }
    here.put_document(document("reports", 3, json!(3))).await.unwrap();
    let versions = async |limit| {
        let documents = there.list_versions(key.clone(), limit).await.unwrap();
        documents.into_iter().map(|document| document.body).collect::<Vec<Value>>()
    };
    assert_eq!(versions(0).await, [10, 2, 1]);
    assert_eq!(versions(2).await, [10, 2]);
}

pub(super) async fn blobs(Handles { here, there }: Handles) {
    let large: Vec<u8> = (0..300_000_u32).map(|number| number.to_le_bytes()[0]).collect();
    for bytes in [Vec::new(), b"text".to_vec(), large] {
        let hash = here.put_blob(bytes.clone()).await.unwrap();
        assert_eq!(hash, blake3::hash(&bytes).to_hex().to_string());
        assert_eq!(there.put_blob(bytes.clone()).await, Ok(hash.clone()), "the same bytes are kept once");
        assert_eq!(there.get_blob(hash).await, Ok(Some(bytes)));
    }
    assert_eq!(here.get_blob("none".into()).await, Ok(None));
}
