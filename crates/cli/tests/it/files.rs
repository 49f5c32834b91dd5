//! What is kept is its owner's alone.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::Home;

const WRITES: &str = "\
name: writes
steps:
  - { id: a, tool: write_file, with: { path: deep/a.txt, content: x } }
  - { id: b, tool: run_python, with: { code: \"open('out', 'w').write('x')\" } }
";

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// Every file and folder that others could reach, with its rights.
fn reachable(path: &Path, found: &mut Vec<String>) {
    if mode(path) & 0o077 != 0 {
        found.push(format!("{:o} {}", mode(path), path.display()));
    }
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| reachable(&entry.unwrap().path(), found));
    }
}

#[test]
fn everything_in_the_home_folder_is_closed_to_others() {
    let home = Home::new(WRITES);
    home.settings("[tools.run_python]\nenabled = true\n");
    home.relais(&["run", "flow.yaml"]).expect(0);
    // As a home folder of before was.
    for name in ["home", "home/relais.db", "home/workspaces"] {
        std::fs::set_permissions(home.path(name), std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    home.write("relais.toml", "[server]\nallow_commands = true\n");
    home.relais(&["trust", "--yes"]).expect(0);
    home.relais(&["run", "flow.yaml", "--detach"]).expect(0);
    home.wait_until("both have ended", || {
        let runs = home.runs();
        runs.len() == 2 && runs.iter().all(|run| run["status"] == "completed")
    });
    let mut found = Vec::new();
    reachable(&home.path("home"), &mut found);
    assert_eq!(found, Vec::<String>::new());
    home.relais(&["backup", "copy.db"]).expect(0);
    assert_eq!(mode(&home.path("copy.db")), 0o600);
    // A folder that a person named is that person's to close.
    std::fs::create_dir(home.path("mine")).unwrap();
    std::fs::set_permissions(home.path("mine"), std::fs::Permissions::from_mode(0o755)).unwrap();
    home.relais(&["run", "flow.yaml", "--workspace", "mine"]).expect(0);
    let umask = 0o777 & !mode(&home.path("flow.yaml"));
    assert_eq!(mode(&home.path("mine/deep/a.txt")), 0o666 & !umask);
}
