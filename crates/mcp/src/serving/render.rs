//! Our types as the protocol library has them.

use std::sync::Arc;

use rmcp::ErrorData;
use rmcp::model::{CallToolResult, ContentBlock, ReadResourceResult, ResourceContents, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use super::{Contents, Given, Offered, Resource, ResourceTemplate, Trouble};

pub fn tool(offered: Offered) -> Tool {
    let mut tool = Tool::new(offered.name, offered.description, object_schema(offered.input_schema));
    tool.title = offered.title;
    tool.output_schema = offered.output_schema.map(object_schema);
    let mut hints = ToolAnnotations::default();
    hints.read_only_hint = Some(offered.read_only);
    hints.destructive_hint = Some(offered.destructive && !offered.read_only);
    hints.idempotent_hint = Some(offered.idempotent || offered.read_only);
    tool.annotations = Some(hints);
    tool
}

/// Clients insist on a schema that says it is one of an object.
fn object_schema(schema: Value) -> Arc<Map<String, Value>> {
    let mut schema = match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    schema.insert("type".to_owned(), "object".into());
    Arc::new(schema)
}

pub fn given(given: Given) -> CallToolResult {
    let text = if given.text.is_empty() { given.content.to_string() } else { given.text };
    let blocks = vec![ContentBlock::text(text)];
    let mut result = if given.is_error { CallToolResult::error(blocks) } else { CallToolResult::success(blocks) };
    // The handshake era knows objects only.
    result.structured_content = Some(given.content).filter(Value::is_object);
    result
}

/// As a result and not as an error of the protocol: that is what clients show to the model.
pub fn refused(text: impl Into<String>) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text.into())])
}

pub fn resource(resource: Resource) -> rmcp::model::Resource {
    rmcp::model::Resource::new(resource.uri, resource.name)
        .with_description(resource.description)
        .with_mime_type(resource.mime_type)
}

pub fn template(template: ResourceTemplate) -> rmcp::model::ResourceTemplate {
    rmcp::model::ResourceTemplate::new(template.uri_template, template.name)
        .with_description(template.description)
        .with_mime_type(template.mime_type)
}

pub fn contents(contents: Vec<Contents>) -> ReadResourceResult {
    let text = |one: Contents| ResourceContents::text(one.text, one.uri).with_mime_type(one.mime_type);
    ReadResourceResult::new(contents.into_iter().map(text).collect())
}

/// Outside of a call.
pub fn trouble(trouble: Trouble) -> ErrorData {
    match trouble {
        Trouble::Invalid(message) => ErrorData::invalid_params(message, None),
        Trouble::NotFound(message) => ErrorData::resource_not_found(message, None),
        Trouble::Internal(message) => ErrorData::internal_error(message, None),
    }
}

/// A method we know with parameters that are none, or one we do not know.
pub fn misunderstood(method: &str, params: Option<&Value>) -> ErrorData {
    let wanted = match method {
        "tools/call" => "`name` (the name of a tool) and `arguments` (an object, not a text with JSON in it)",
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => "`uri` (text)",
        "tools/list" | "resources/list" | "resources/templates/list" => "nothing, or `cursor` (text)",
        "initialize" => "`protocolVersion` (text), `capabilities` (object) and `clientInfo` (object)",
        _ => {
            let message = format!("There is no method `{method}`; this server has tools and resources.");
            return ErrorData::new(rmcp::model::ErrorCode::METHOD_NOT_FOUND, message, None);
        }
    };
    let given = params.and_then(Value::as_object).map(|given| given.keys().collect::<Vec<_>>());
    ErrorData::invalid_params(format!("The params of `{method}` must be {wanted}."), Some(json!({"given": given})))
}
