//! The format `dag`: a graph of nodes, each the work of a persona with schemas, checked at every edge.
//!
//! Two forms. `personas` beside a `workflow`; or a list of `apps`, of which one has a `workflow` in its `app_config` and
//! the others are personas. Every key may be written in snake_case or camelCase (`keys`). Nodes become steps in three
//! passes: `nodes` finds them and who stands inside whom, `names` and `links` find who reads whom, `lower` makes steps.
//! `prompt` has the words that a node's agent hears.

pub(crate) mod expand;
mod keys;
mod links;
mod lower;
mod names;
mod nodes;
mod personas;
mod prompt;

use relais_plan::step::Workflow;
use relais_plan::{ExitWhen, LaneFailure, Limits, Problem, Span};

use crate::fields::Field;
use crate::reader::Reader;
use crate::yaml::{Data, Node};
use keys::Keys;
use lower::{Lowering, Settings};
use nodes::Nodes;
use personas::Personas;
use prompt::Injection;

/// What stands around a workflow: who it is and what its app says about it.
#[derive(Default)]
struct Around<'n> {
    name: Option<String>,
    description: Option<String>,
    app: Option<Keys<'n>>,
    /// The workflows of the file.
    siblings: Vec<String>,
}

/// The workflows of a file that has several, by name.
pub(crate) fn workflows(root: &Node) -> Vec<String> {
    let names: Vec<String> = match root.child("apps").map(|apps| &apps.data) {
        Some(Data::List(apps)) => apps.iter().filter_map(workflow_name).collect(),
        Some(Data::Map(_) | Data::Scalar(_)) | None => Vec::new(),
    };
    if names.len() > 1 { names } else { Vec::new() }
}

fn workflow_name(app: &Node) -> Option<String> {
    let config = child(app, "app_config", &[])?;
    child(config, "workflow", &[])?;
    let own = child(config, "agent_name", keys::WORKFLOW_APP.aliases);
    own.or_else(|| app.child("name"))?.as_text().map(str::to_owned)
}

/// An app that is no business of a workflow, such as a gateway: it names its program, and neither a persona nor a
/// workflow.
fn is_foreign(app: &Node) -> bool {
    let config = child(app, "app_config", &[]);
    let has = |key: &str| config.is_some_and(|config| child(config, key, keys::PERSONA.aliases).is_some());
    child(app, "app_module", &[]).is_some() && !has("agent_name") && !has("workflow")
}

/// A key of a map, in whichever spelling.
fn child<'n>(node: &'n Node, key: &str, aliases: &[(&str, &str)]) -> Option<&'n Node> {
    let Data::Map(entries) = &node.data else { return None };
    entries.iter().find(|entry| keys::canonical(&entry.key, aliases) == key).map(|entry| &entry.value)
}

pub(crate) fn read(root: &Node, reader: &mut Reader<'_>) -> Workflow {
    let Some(top) = reader.dag_keys(root, &keys::TOP) else { return Workflow::default() };
    let mut personas = Personas::default();
    if let Some(field) = top.get("personas") {
        reader.personas(field, &mut personas);
    }
    let apps = top.get("apps").map(|field| reader.dag_apps(field, &mut personas)).unwrap_or_default();
    let has_workflow = top.has("workflow") || !apps.is_empty();
    let mut around = Around {
        name: top.get("name").and_then(|field| reader.name(field)),
        description: top.get("description").and_then(|field| reader.text(field)),
        app: None,
        siblings: apps.iter().map(|(name, _)| name.clone()).collect(),
    };
    let workflow = match (top.get("workflow"), reader.dag_chosen(apps, root.span)) {
        (Some(field), None) => field,
        (None, Some((name, app))) => {
            let Some(field) = app.get("workflow") else { return Workflow::default() };
            around = Around { name: Some(name), app: Some(app), ..around };
            field
        }
        (Some(field), Some(_)) => {
            let problem = Problem::error(field.key_span, "the file has a `workflow` and an app with a workflow");
            reader.problems.push(problem.help("keep one of them"));
            field
        }
        (None, None) => {
            if !has_workflow {
                let problem = Problem::error(root.span, "there is no workflow");
                reader.problems.push(problem.help(format!("for example {}", keys::TOP.example)));
            }
            return Workflow::default();
        }
    };
    reader.dag_workflow(workflow, &around, &personas)
}

impl Reader<'_> {
    /// The apps with a workflow, by name; the others are personas.
    fn dag_apps<'n>(&mut self, field: Field<'n>, personas: &mut Personas) -> Vec<(String, Keys<'n>)> {
        let Data::List(items) = &field.node.data else {
            self.wrong(field, "a list of apps", keys::APP.example);
            return Vec::new();
        };
        items.iter().filter_map(|node| self.dag_app(node, personas)).collect()
    }

    fn dag_app<'n>(&mut self, node: &'n Node, personas: &mut Personas) -> Option<(String, Keys<'n>)> {
        let app = self.dag_keys(node, &keys::APP)?;
        if is_foreign(node) {
            let name = app.get("name").and_then(|field| field.node.as_text()).unwrap_or("?");
            let message = format!("the app `{name}` has no effect here: it is neither a persona nor a workflow");
            let help = "a persona has an `agent_name`, a workflow has a `workflow` in its `app_config`";
            self.problems.push(Problem::warning(node.span, message).help(help));
            return None;
        }
        let Some(config) = app.get("app_config") else {
            let problem = Problem::error(node.span, "an app needs an `app_config`");
            self.problems.push(problem.help(format!("for example {}", keys::APP.example)));
            return None;
        };
        if child(config.node, "workflow", &[]).is_none() {
            let keys = self.dag_keys(config.node, &keys::PERSONA)?;
            self.persona(&keys, personas);
            return None;
        }
        let keys = self.dag_keys(config.node, &keys::WORKFLOW_APP)?;
        let name = keys.get("agent_name").or(app.get("name")).and_then(|field| self.name(field));
        Some((name.unwrap_or_else(|| self.stem.clone()), keys))
    }

    /// The only workflow among the apps, or the one that is asked for.
    fn dag_chosen<'n>(&mut self, mut apps: Vec<(String, Keys<'n>)>, span: Span) -> Option<(String, Keys<'n>)> {
        let names: Vec<String> = apps.iter().map(|(name, _)| name.clone()).collect();
        match (self.branch.clone(), apps.len()) {
            (None, 0 | 1) => apps.pop(),
            (None, _) => {
                let problem = Problem::error(span, format!("the file has several workflows: {}", names.join(", ")));
                self.problems.push(problem.help(format!("say which: `--branch {}`", names[0])));
                None
            }
            (Some(branch), _) => {
                let found = names.iter().position(|name| *name == branch);
                if found.is_none() {
                    let problem = Problem::error(span, format!("the file has no workflow `{branch}`"));
                    self.problems.push(match names.as_slice() {
                        [] => problem.help("leave `--branch` out: it chooses among several apps with a workflow"),
                        names => problem.help(format!("it has: {}", names.join(", "))),
                    });
                }
                found.map(|at| apps.swap_remove(at))
            }
        }
    }

    fn dag_workflow(&mut self, field: Field<'_>, around: &Around<'_>, personas: &Personas) -> Workflow {
        let Some(keys) = self.dag_keys(field.node, &keys::WORKFLOW) else { return Workflow::default() };
        let app = |key: &str| around.app.as_ref().and_then(|app| app.get(key));
        let own = keys.get("name").and_then(|field| self.name(field));
        let name = own.or_else(|| around.name.clone()).unwrap_or_else(|| self.stem.clone());
        let description = keys.get("description").or_else(|| app("description")).and_then(|field| self.text(field));
        let mut workflow = Workflow {
            alias: app("display_name").and_then(|field| self.name(field)).filter(|alias| *alias != name),
            branch: self.branch.clone(),
            description: description.or_else(|| around.description.clone()).unwrap_or_default(),
            input_schema: keys.get("input_schema").or_else(|| app("input_schema")).and_then(|field| self.schema(field)),
            output_schema: keys
                .get("output_schema")
                .or_else(|| app("output_schema"))
                .and_then(|field| self.schema(field)),
            limits: self.dag_limits(&keys, around),
            ..Workflow::default()
        };
        let settings = self.dag_settings(name.clone(), &keys, around);
        workflow.name = name;
        self.dag_graph(&keys, personas, settings, &mut workflow);
        workflow.agents = std::mem::take(&mut self.agents);
        workflow.servers = personas.servers_of(&workflow.agents);
        workflow
    }

    fn dag_limits(&mut self, keys: &Keys<'_>, around: &Around<'_>) -> Limits {
        let app = |key: &str| around.app.as_ref().and_then(|app| app.get(key));
        let timeout = keys.get("timeout").or_else(|| app("max_workflow_execution_time_seconds"));
        let shutdown = keys.get("shutdown_timeout").or_else(|| app("shutdown_timeout"));
        Limits {
            timeout_ms: timeout.and_then(|field| self.duration(field)),
            shutdown_timeout_ms: shutdown.and_then(|field| self.duration(field)),
            ..Limits::default()
        }
    }

    fn dag_settings(&mut self, workflow: String, keys: &Keys<'_>, around: &Around<'_>) -> Settings {
        let app = |key: &str| around.app.as_ref().and_then(|app| app.get(key));
        Settings {
            workflow,
            siblings: around.siblings.clone(),
            injection: keys.get("prompt_injection").map(|field| self.dag_injection(field)).unwrap_or_default(),
            retry: keys.get("retry_strategy").map(|field| self.dag_strategy(field)),
            timeout_ms: app("default_node_timeout_seconds").and_then(|field| self.duration(field)),
            max_iterations: app("default_max_loop_iterations").and_then(|field| self.passes(field)),
            max_items: app("default_max_map_items").and_then(|field| self.passes(field)),
        }
    }

    fn dag_injection(&mut self, field: Field<'_>) -> Injection {
        let default = Injection::default();
        let Some(keys) = self.dag_keys(field.node, &keys::PROMPT_INJECTION) else { return default };
        let position = keys.get("include_position_info").and_then(|field| self.flag(field));
        let separators = keys.get("include_visual_separators").and_then(|field| self.flag(field));
        Injection {
            position: position.unwrap_or(default.position),
            separators: separators.unwrap_or(default.separators),
            preamble: keys.get("custom_preamble").and_then(|field| self.text(field)),
        }
    }

    /// The nodes, what the run gives, and what runs after it.
    fn dag_graph(&mut self, keys: &Keys<'_>, personas: &Personas, settings: Settings, workflow: &mut Workflow) {
        let items = match keys.get("nodes").map(|field| (field, &field.node.data)) {
            Some((_, Data::List(items))) if !items.is_empty() => items.as_slice(),
            Some((field, _)) => {
                self.wrong(field, "a list of nodes", "`nodes: [{ id: extract, agent_persona: Extractor }]`");
                return;
            }
            None => {
                let problem = Problem::error(keys.span, "the workflow has no `nodes`");
                self.problems.push(problem.help("for example `nodes: [{ id: extract, agent_persona: Extractor }]`"));
                return;
            }
        };
        let before = self.problems.len();
        let on_exit = keys.get("on_exit");
        let mut nodes = self.dag_nodes(items, on_exit.map(|field| field.node));
        let exits = on_exit.map(|field| self.dag_exits(field, &mut nodes)).unwrap_or_default();
        self.lost_nodes(&nodes);
        let fails_fast = keys.get("fail_fast").and_then(|field| self.flag(field)).unwrap_or_default();
        let mut lowering = Lowering::new(self, nodes, personas, settings);
        let steps = lowering.top();
        workflow.exits = lowering.exits(exits);
        workflow.output = keys.get("output_mapping").map(|field| lowering.value(field.node));
        // A failed node lets the others finish, unless the file says otherwise.
        workflow.on_step_failure = if fails_fast || steps.len() < 2 { LaneFailure::Cancel } else { LaneFailure::Drain };
        workflow.steps = steps;
        lowering.finish();
        if workflow.steps.is_empty() && self.problems.len() == before {
            let problem =
                Problem::error(keys.span, "every node is for the end of the run: nothing runs before it ends");
            self.problems.push(problem.help("name fewer nodes in `on_exit`, or add one that is not named there"));
        }
    }

    fn dag_exits<'n>(&mut self, field: Field<'n>, nodes: &mut Nodes<'n>) -> Vec<(ExitWhen, Vec<usize>)> {
        let is_node = |node: &Node| match &node.data {
            Data::Map(entries) => entries.iter().any(|entry| entry.key == "id"),
            Data::Scalar(_) | Data::List(_) => true,
        };
        if is_node(field.node) {
            return vec![(ExitWhen::Always, self.outer_body(field.node, nodes))];
        }
        let Some(keys) = self.dag_keys(field.node, &keys::ON_EXIT) else { return Vec::new() };
        let mut lists = Vec::new();
        for (key, field) in keys.all() {
            let when = match key {
                "always" => ExitWhen::Always,
                "success" => ExitWhen::Success,
                "failure" => ExitWhen::Failure,
                "cancel" => ExitWhen::Cancel,
                _ => continue,
            };
            lists.push((when, self.outer_body(field.node, nodes)));
        }
        lists
    }
}
