//! `relais doctor`: is everything there that runs need, and if not, what to do.

use std::path::Path;
use std::process::{Command, Stdio};

use relais_runtime::settings::PythonSettings;
use relais_service::{Config, Definitions, Service};
use relais_store::private;

use crate::exit::Exit;
use crate::screen::{self, Paint};
use crate::session::{Global, block_on};

/// Check the home folder, the database, the configuration, providers, MCP servers and python
///
/// Calls no model. Ends with code 1 if something fails; a warning is something that only some workflows need.
#[derive(clap::Args)]
pub struct Args {}

enum Finding {
    Ok(String),
    Warn(String),
    Fail(String),
}

use Finding::{Fail, Warn};

pub fn run(_: Args, global: &Global) -> anyhow::Result<Exit> {
    let config = match global.config() {
        Ok(config) => config,
        Err(error) => return told(&[Fail(format!("configuration: {error:#}"))]),
    };
    let mut findings = vec![home(&config.home), configuration(&config)];
    findings.extend(config.mistakes().into_iter().map(|mistake| Fail(format!("configuration: {mistake}"))));
    block_on(async {
        findings.push(database(config.clone()).await);
        match Definitions::new(config.clone()) {
            Ok(definitions) => {
                findings.extend(providers(&definitions));
                findings.extend(servers(&definitions).await);
            }
            Err(error) => findings.push(Fail(format!("configuration: {error}"))),
        }
        findings.push(python(&config.settings.tools.run_python));
        told(&findings)
    })
}

fn told(findings: &[Finding]) -> anyhow::Result<Exit> {
    let paint = Paint::stdout();
    let mut exit = Exit::Done;
    for finding in findings {
        let (word, text) = match finding {
            Finding::Ok(text) => (paint.green("ok  "), text),
            Warn(text) => (paint.yellow("warn"), text),
            Fail(text) => {
                exit = Exit::Failed;
                (paint.red("fail"), text)
            }
        };
        screen::out(&format!("{word}  {text}"))?;
    }
    Ok(exit)
}

fn home(folder: &Path) -> Finding {
    let probe = folder.join(format!(".doctor-{}", std::process::id()));
    let tried = private::make_folder(folder)
        .and_then(|()| private::create_file(&probe))
        .and_then(|_| std::fs::remove_file(&probe));
    match tried {
        Ok(()) => Finding::Ok(format!("home folder {} can be written", folder.display())),
        Err(error) => {
            let advice = "mend its permissions, or choose another with RELAIS_HOME or --home";
            Fail(format!("home folder {}: {error}; {advice}", folder.display()))
        }
    }
}

fn configuration(config: &Config) -> Finding {
    let files: Vec<String> = config.read.iter().map(|file| file.display().to_string()).collect();
    match files.as_slice() {
        [] => {
            let place = config.home.join(relais_service::config::FILE);
            Finding::Ok(format!("configuration: no file; {} would be read", place.display()))
        }
        files => Finding::Ok(format!("configuration: read {}", files.join(", "))),
    }
}

async fn database(config: Config) -> Finding {
    let name = config.database().display().to_string();
    let service = match Service::open(config) {
        Ok(service) => service,
        Err(error) => return Fail(format!("database: {error}")),
    };
    match service.check_database().await {
        Ok(found) if found.is_empty() => Finding::Ok(format!("database {name} is sound")),
        Ok(found) => Fail(format!("database {name}: {}; put back a backup", found.join("; "))),
        Err(error) => Fail(format!("database {name}: {error}")),
    }
}

fn providers(definitions: &Definitions) -> Vec<Finding> {
    let listed = definitions.models.list();
    let any = listed.iter().any(|provider| provider.has_key);
    let finding = |provider: relais_runtime::models::Listed| match (provider.has_key, provider.usable) {
        (true, _) => Finding::Ok(format!("provider {} has a key", provider.provider)),
        (false, true) => Finding::Ok(format!("provider {} needs no key ({})", provider.provider, provider.base_url)),
        (false, false) => {
            let text = provider.key_variables.join(" or ");
            Warn(format!("provider {} has no key; set {text} to use it", provider.provider))
        }
    };
    let mut findings: Vec<Finding> = listed.into_iter().map(finding).collect();
    if !any {
        findings.push(Warn("no provider has a key; `relais run --simulate` works without".into()));
    }
    findings
}

async fn servers(definitions: &Definitions) -> Vec<Finding> {
    let tools = &definitions.tools;
    let mut findings = Vec::new();
    for name in definitions.config.settings.mcp.keys() {
        findings.push(match tools.select(&[format!("mcp:{name}/*")]).await {
            Ok(found) => Finding::Ok(format!("MCP server {name} has {}", crate::words::counted(found.len(), "tool"))),
            Err(failure) => Fail(format!("MCP server {name}: {}; see [mcp.{name}] in relais.toml", failure.message)),
        });
    }
    tools.stop().await;
    findings
}

fn python(settings: &PythonSettings) -> Finding {
    if !settings.enabled {
        return Finding::Ok("run_python is off; [tools.run_python] enabled = true turns it on".into());
    }
    let program = settings.python.as_deref().unwrap_or("python3");
    let asked = Command::new(program).arg("--version").stdin(Stdio::null()).output();
    match asked {
        Ok(output) if output.status.success() => {
            Finding::Ok(format!("run_python uses {}", String::from_utf8_lossy(&output.stdout).trim()))
        }
        Ok(output) => Fail(format!("run_python: `{program} --version` ended with {}", output.status)),
        Err(error) => Fail(format!("run_python: {program}: {error}; set [tools.run_python] python in relais.toml")),
    }
}
