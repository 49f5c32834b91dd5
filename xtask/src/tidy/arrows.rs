//! The direction of dependencies between the crates. Looks at what ships: a dev-dependency may point anywhere, since
//! cargo lets no cycle through it into the program.

use serde_json::Value;

const PREFIX: &str = "relais-";

/// For each crate the crates of the workspace that it may know.
const ALLOWED: [(&str, &[&str]); 13] = [
    ("plan", &[]),
    ("dialects", &["plan"]),
    ("engine", &["plan"]),
    ("store", &["engine", "plan"]),
    ("mcp", &["plan"]),
    ("runtime", &["engine", "plan", "store", "mcp"]),
    ("sim", &["dialects", "engine", "plan", "runtime", "store"]),
    ("service", &["dialects", "engine", "mcp", "plan", "runtime", "sim", "store"]),
    ("server", &["dialects", "engine", "mcp", "plan", "runtime", "service"]),
    ("cli", &["dialects", "engine", "mcp", "plan", "runtime", "server", "service", "sim", "store"]),
    ("bench", &["dialects", "engine", "mcp", "plan", "runtime", "server", "service", "sim", "store"]),
    ("testkit", &[]),
    ("xtask", &[]),
];

/// The problems in the packages of `cargo metadata`.
pub fn check(packages: &[Value]) -> Vec<String> {
    packages.iter().flat_map(package_problems).collect()
}

fn package_problems(package: &Value) -> Vec<String> {
    let name = short(&package["name"]);
    let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
        return vec![format!(
            "crate {name} has no place yet: say in xtask/src/tidy/arrows.rs which crates it may know"
        )];
    };
    let shipped = package["dependencies"].as_array().into_iter().flatten().filter(|found| found["kind"] != "dev");
    let ours = shipped.filter(|found| found["path"].is_string()).map(|found| short(&found["name"]));
    ours.filter(|found| !allowed.contains(found)).map(|found| arrow_problem(name, found, allowed)).collect()
}

fn arrow_problem(name: &str, found: &str, allowed: &[&str]) -> String {
    let known = if allowed.is_empty() { "none of ours".to_string() } else { allowed.join(", ") };
    format!("crates/{name} depends on {found} but may know only: {known}. Move the code to the side that may know both")
}

fn short(name: &Value) -> &str {
    let name = name.as_str().unwrap_or_default();
    name.strip_prefix(PREFIX).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check_one(name: &str, dependency: Value, expected: &[&str]) {
        let problems = check(&[json!({ "name": name, "dependencies": [dependency] })]);
        assert_eq!(problems.len(), expected.len(), "{problems:?}");
        for (problem, part) in problems.iter().zip(expected) {
            assert!(problem.contains(part), "{problem}");
        }
    }

    #[test]
    fn arrows_go_one_way() {
        let ours = |name: &str| json!({ "name": name, "kind": null, "path": "/somewhere" });
        check_one("relais-engine", ours("relais-plan"), &[]);
        check_one("relais-engine", ours("relais-store"), &["crates/engine depends on store"]);
        check_one("relais-plan", ours("relais-engine"), &["may know only: none of ours"]);
        check_one("relais-new", ours("relais-plan"), &["crate new has no place yet"]);
    }

    #[test]
    fn test_dependencies_and_foreign_crates_are_free() {
        check_one("relais-engine", json!({ "name": "relais-sim", "kind": "dev", "path": "/somewhere" }), &[]);
        check_one(
            "relais-engine",
            json!({ "name": "relais-store", "kind": "build", "path": "/x" }),
            &["depends on store"],
        );
        check_one("relais-plan", json!({ "name": "serde", "kind": null }), &[]);
    }
}
