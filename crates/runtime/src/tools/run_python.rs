//! `run_python`: code in a child process with limits on time, memory and output. Off unless the settings turn it on.
//!
//! The limits bound accidents; they are no sandbox. The process runs as the user that Relais runs as.

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use relais_engine::{ErrorKind, Failure};
use relais_plan::Effect;
use serde::Deserialize;
use serde_json::{Value, json};

use super::workspace::{Place, blocking, create_inside, failed, make_inside};
use super::{arguments, wrong};
use crate::model::BoxFuture;
use crate::process::{self, Bounds, Program};
use crate::settings::PythonSettings;
use crate::tool::{Returned, Tool, ToolCall, ToolSpec};

const TIMEOUT_S: u64 = 60;
const TIMEOUT_S_MAX: u64 = 3_600;
const MEMORY_MB: u64 = 512;
const OUTPUT_BYTES: usize = 1024 * 1024;
/// Of one file that the code writes, in the shell's blocks of 512 bytes: 100 MiB.
const FILE_BLOCKS: u64 = 200 * 1024;
const CODE_FILE: &str = "code.py";
/// The shell sets the limits, then becomes Python. A limit that cannot be set stops the call.
const LIMITED: &str = r#"umask 077 && ulimit -v "$1" && ulimit -t "$2" && ulimit -f "$3" && shift 3 && exec "$@""#;

pub struct RunPython {
    spec: ToolSpec,
    settings: PythonSettings,
}

#[derive(Deserialize)]
struct Arguments {
    code: String,
    #[serde(default)]
    input: Value,
    timeout_s: Option<u64>,
}

impl RunPython {
    pub fn new(settings: PythonSettings) -> RunPython {
        RunPython { spec: spec(), settings }
    }

    async fn run(&self, call: ToolCall<'_>) -> Result<Returned, Failure> {
        if !self.settings.enabled {
            let text = "run_python is off; turn it on in relais.toml: [tools.run_python] enabled = true";
            return Err(Failure::new(ErrorKind::Config, text));
        }
        let given: Arguments = arguments(&call)?;
        let (folder, shown) = prepare(&call, given.code).await?;
        let longest = self.settings.timeout_s.unwrap_or(TIMEOUT_S).min(TIMEOUT_S_MAX);
        let time_s = given.timeout_s.map_or(longest, |asked| asked.min(longest)).max(1);
        let program = self.program(&folder, time_s, given.input.to_string());
        let bounds = Bounds { time: Duration::from_secs(time_s), output_bytes: OUTPUT_BYTES };
        let finished = process::run(&program, bounds).await.map_err(|error| stopped(&error, time_s))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let (stdout, stderr) = (text(&finished.stdout), text(&finished.stderr));
        let value = json!({"stdout": stdout, "stderr": stderr, "exit_code": finished.exit_code, "folder": shown});
        Ok(Returned { value, ..Returned::default() })
    }

    fn program(&self, folder: &Path, time_s: u64, input: String) -> Program {
        let memory_kb = self.settings.memory_mb.unwrap_or(MEMORY_MB).saturating_mul(1024);
        let python = self.settings.python.clone().unwrap_or_else(|| "python3".into());
        let mut arguments = vec!["-c".to_owned(), LIMITED.to_owned(), "sh".to_owned()];
        arguments.extend([memory_kb, time_s, FILE_BLOCKS].map(|limit| limit.to_string()));
        arguments.extend([python, "-I".to_owned(), CODE_FILE.to_owned()]);
        let environment = BTreeMap::from([("PYTHONIOENCODING".to_owned(), "utf-8".to_owned())]);
        let folder = Some(folder.to_owned());
        Program { program: "/bin/sh".into(), arguments, environment, folder, stdin: input.into_bytes() }
    }
}

impl Tool for RunPython {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call<'a>(&'a self, call: ToolCall<'a>) -> BoxFuture<'a, Result<Returned, Failure>> {
        Box::pin(self.run(call))
    }
}

/// An empty folder of its own for each call, named by the key; what a former try left is removed.
async fn prepare(call: &ToolCall<'_>, code: String) -> Result<(PathBuf, String), Failure> {
    let shown = format!("python/{}", &blake3::hash(call.key.as_bytes()).to_hex()[..16]);
    let (workspace, relative) = (call.run.workspace.clone(), shown.clone());
    let folder = blocking(move || {
        let folder = Place::new(&workspace, &relative)?.to_write()?;
        let _ = std::fs::remove_dir_all(&folder);
        let made = make_inside(&folder)
            .and_then(|()| create_inside(&folder.join(CODE_FILE)))
            .and_then(|mut file| file.write_all(code.as_bytes()));
        made.map_err(|error| failed(&relative, "made", &error))?;
        Ok(folder)
    });
    Ok((folder.await?, shown))
}

/// The code is known to be gone, so nothing of this is uncertain.
fn stopped(error: &process::Error, time_s: u64) -> Failure {
    match error {
        process::Error::TimedOut { .. } => {
            Failure::new(ErrorKind::Timeout, format!("the code ran longer than {time_s} s and was stopped"))
        }
        process::Error::TooMuchOutput { stream, bytes, .. } => wrong(format!(
            "the code wrote more than {bytes} bytes to {stream} and was stopped; write to a file instead"
        )),
        process::Error::Start { .. } | process::Error::Pipe { .. } => {
            Failure::new(ErrorKind::Config, error.to_string())
        }
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "run_python".into(),
        description: "Runs Python 3 code in a process of its own and returns {stdout, stderr, exit_code, folder}. \
                      `input` is on stdin as JSON: json.load(sys.stdin). Print the result. Files that the code writes \
                      into its current folder are in the workspace under `folder`. Time, memory and output are limited."
            .into(),
        parameters: json!({
            "type": "object",
            "properties": {
                "code": {"type": "string", "minLength": 1},
                "input": {"description": "any value; the code reads it from stdin as JSON"},
                "timeout_s": {"type": "integer", "minimum": 1, "maximum": TIMEOUT_S_MAX}
            },
            "required": ["code"],
            "additionalProperties": false
        }),
        effect: Effect::Once,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::tools::testing::Bench;

    fn on() -> RunPython {
        RunPython::new(PythonSettings { enabled: true, ..PythonSettings::default() })
    }

    #[tokio::test]
    async fn is_off_by_default() {
        let bench = Bench::new();
        let off = RunPython::new(PythonSettings::default());
        bench.check_fails(&off, json!({"code": "print(1)"}), "[tools.run_python] enabled = true").await;
    }

    #[tokio::test]
    async fn gives_input_output_and_exit_code() {
        let bench = Bench::new();
        let code = "import json, sys, os\nv = json.load(sys.stdin)\nopen('f', 'w').write('x')\n\
                    print(v['a'], 'CARGO' in os.environ)\nprint('e', file=sys.stderr)\nsys.exit(3)";
        let value = bench.call(&on(), json!({"code": code, "input": {"a": "é"}})).await.unwrap().value;
        assert_eq!(
            (&value["stdout"], &value["stderr"], &value["exit_code"]),
            (&json!("é False\n"), &json!("e\n"), &json!(3))
        );
        assert!(bench.workspace().join(value["folder"].as_str().unwrap()).join("f").exists());
        bench.call(&on(), json!({"code": "import os\nassert os.listdir() == ['code.py']"})).await.unwrap();
    }

    #[tokio::test]
    async fn keeps_the_limits() {
        let bench = Bench::new();
        bench
            .check_fails(&on(), json!({"code": "import time\ntime.sleep(60)", "timeout_s": 1}), "longer than 1 s")
            .await;
        bench
            .check_fails(&on(), json!({"code": "while True: print('x'*1000)"}), "more than 1048576 bytes to stdout")
            .await;
        let value = bench.call(&on(), json!({"code": "x = bytearray(4*1024**3)"})).await.unwrap().value;
        assert!(value["stderr"].as_str().unwrap().contains("MemoryError"), "{value}");
        let missing = PythonSettings { enabled: true, python: Some("/no/python".into()), ..PythonSettings::default() };
        let value = bench.call(&RunPython::new(missing), json!({"code": "1"})).await.unwrap().value;
        assert_eq!(value["exit_code"], 127);
    }
}
