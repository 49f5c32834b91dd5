//! Child processes of tools: in a group of their own, bounded in time and output, never left behind.
//!
//! Knows nothing of what the processes are for.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use process_wrap::tokio::{ChildWrapper, CommandWrap, KillOnDrop, ProcessGroup};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStdin, Command};

use crate::mask::Secrets;

/// Variables that a child process keeps of ours.
const KEPT_VARIABLES: [&str; 3] = ["PATH", "HOME", "LANG"];
/// One read of a pipe.
const CHUNK_BYTES: usize = 16 * 1024;
/// For what is still in the pipes when the program has ended.
const DRAIN_TIME: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Default)]
pub struct Program {
    pub program: String,
    pub arguments: Vec<String>,
    /// Besides PATH, HOME and LANG; nothing else is passed on.
    pub environment: BTreeMap<String, String>,
    pub folder: Option<PathBuf>,
    pub stdin: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub time: Duration,
    /// Per stream; a process that writes more is killed.
    pub output_bytes: usize,
}

#[derive(Debug, Clone)]
pub struct Finished {
    /// As a shell counts it: 128 and the number for a signal.
    pub exit_code: i32,
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("`{program}` cannot be started: {source}")]
    Start { program: String, source: std::io::Error },
    #[error("`{program}` ran longer than {} s and was killed", .time.as_secs_f64())]
    TimedOut { program: String, time: Duration },
    #[error("`{program}` wrote more than {bytes} bytes to {stream} and was killed")]
    TooMuchOutput { program: String, stream: &'static str, bytes: usize },
    #[error("`{program}` cannot be read from: {source}")]
    Pipe { program: String, source: std::io::Error },
}

/// Runs a program to its end. When this returns, or is dropped, the whole process group is gone. (A process that made
/// itself a group of its own is out of reach.)
pub async fn run(program: &Program, bounds: Bounds) -> Result<Finished, Error> {
    let mut group = Group::start(program)?;
    let timed_out = || Error::TimedOut { program: program.program.clone(), time: bounds.time };
    tokio::time::timeout(bounds.time, finish(&mut group, program, bounds)).await.map_err(|_| timed_out())?
}

async fn finish(group: &mut Group, program: &Program, bounds: Bounds) -> Result<Finished, Error> {
    let stdin = group.child.stdin().take();
    let (stdout, stderr) = (group.child.stdout().take(), group.child.stderr().take());
    let (mut said, mut complained) = (Vec::new(), Vec::new());
    let status = {
        let drained = async {
            let out = read(stdout, &mut said, "stdout", program, bounds.output_bytes);
            let err = read(stderr, &mut complained, "stderr", program, bounds.output_bytes);
            tokio::try_join!(feed(stdin, &program.stdin), out, err).map(|_| ())
        };
        ended(group.leader_ended(program), drained).await?
    };
    Ok(Finished { exit_code: exit_code(status), stdout: said, stderr: complained })
}

/// The end of the leader decides. A process that has left the group may hold the pipes open; nobody waits for it.
async fn ended(
    leader: impl Future<Output = Result<ExitStatus, Error>>,
    drained: impl Future<Output = Result<(), Error>>,
) -> Result<ExitStatus, Error> {
    tokio::pin!(leader, drained);
    let status = tokio::select! {
        done = &mut drained => {
            done?;
            return leader.await;
        }
        status = &mut leader => status?,
    };
    match tokio::time::timeout(DRAIN_TIME, drained).await {
        Ok(done) => done.map(|()| status),
        Err(_) => Ok(status),
    }
}

/// A program that does not read its input is free to end without it.
async fn feed(stdin: Option<ChildStdin>, input: &[u8]) -> Result<(), Error> {
    if let Some(mut stdin) = stdin {
        let _ = stdin.write_all(input).await;
    }
    Ok(())
}

async fn read(
    pipe: Option<impl AsyncRead + Unpin>,
    kept: &mut Vec<u8>,
    stream: &'static str,
    program: &Program,
    limit: usize,
) -> Result<(), Error> {
    let Some(mut pipe) = pipe else { return Ok(()) };
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        let count = pipe.read(&mut chunk).await.map_err(|source| program.pipe(source))?;
        if count == 0 {
            return Ok(());
        }
        if kept.len() + count > limit {
            return Err(Error::TooMuchOutput { program: program.program.clone(), stream, bytes: limit });
        }
        kept.extend_from_slice(&chunk[..count]);
    }
}

/// A running process group; dropping it kills every member.
struct Group {
    child: Box<dyn ChildWrapper>,
}

impl Group {
    fn start(program: &Program) -> Result<Group, Error> {
        let mut command = CommandWrap::from(program.command());
        command.wrap(KillOnDrop).wrap(ProcessGroup::leader());
        let failed = |source| Error::Start { program: program.program.clone(), source };
        Ok(Group { child: command.spawn().map_err(failed)? })
    }

    /// Waits for the leader alone, then ends what it may have left in the background, so that the pipes close.
    async fn leader_ended(&mut self, program: &Program) -> Result<ExitStatus, Error> {
        let status = self.child.inner_mut().wait().await.map_err(|source| program.pipe(source))?;
        let _ = self.child.start_kill();
        Ok(status)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // An error means that nobody is left to kill.
        let _ = self.child.start_kill();
    }
}

impl Program {
    /// A program of the settings and the message for it. Secrets reach it as variables: what stands among the arguments of
    /// a process, every account of the machine can read.
    pub fn of_channel(
        words: &[String],
        env: &BTreeMap<String, String>,
        secrets: &Secrets,
        stdin: Vec<u8>,
    ) -> Result<Program, String> {
        let (program, arguments) = words.split_first().ok_or("the channel's command is empty")?;
        if let Some(word) = arguments.iter().find(|word| word.contains("${")) {
            return Err(secret_word(word));
        }
        let mut environment = BTreeMap::new();
        for (name, text) in env {
            let value = secrets.expand(text).map_err(|error| format!("`env`: {error}"))?;
            environment.insert(name.clone(), value);
        }
        Ok(Program { program: program.clone(), arguments: arguments.to_vec(), environment, stdin, folder: None })
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).env_clear();
        for name in KEPT_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        command.envs(&self.environment);
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn pipe(&self, source: std::io::Error) -> Error {
        Error::Pipe { program: self.program.clone(), source }
    }
}

fn secret_word(word: &str) -> String {
    let text = format!("`command`: `{word}` would show a secret to everybody who lists the processes of this machine");
    format!("{text}; give it to the program as a variable: env = {{ TOKEN = \"${{TOKEN}}\" }}")
}

#[cfg(unix)]
fn exit_code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

#[cfg(not(unix))]
fn exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or(-1)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Nobody tells of a process that is not ours, or of a file: they are looked at so often.
    const LOOK: Duration = Duration::from_millis(5);
    const BOUNDS: Bounds = Bounds { time: Duration::from_secs(20), output_bytes: 1000 };

    fn shell(script: &str) -> Program {
        Program { program: "/bin/sh".into(), arguments: vec!["-c".into(), script.into()], ..Program::default() }
    }

    /// Waits until no process has the id any more, or only a zombie that its new parent has yet to reap.
    async fn gone(id: &str) -> bool {
        let stat = format!("/proc/{}/stat", id.trim());
        let mut looks = tokio::time::interval(LOOK);
        for _ in 0..1000 {
            looks.tick().await;
            let dead = match std::fs::read_to_string(&stat) {
                Ok(text) => text.rsplit(')').next().unwrap().trim_start().starts_with('Z'),
                Err(_) => true,
            };
            if dead {
                return true;
            }
        }
        false
    }

    async fn content(path: &std::path::Path) -> String {
        let mut looks = tokio::time::interval(LOOK);
        for _ in 0..2000 {
            looks.tick().await;
            match std::fs::read_to_string(path) {
                Ok(text) if text.ends_with('\n') => return text,
                Ok(_) | Err(_) => {}
            }
        }
        panic!("{} was not written", path.display());
    }

    #[tokio::test]
    async fn gives_output_exit_code_and_a_clean_environment() {
        let mut program = shell("cat; echo err >&2; env | grep -c CARGO; exit 3");
        program.stdin = b"in".to_vec();
        let finished = run(&program, BOUNDS).await.unwrap();
        assert_eq!(finished.exit_code, 3);
        assert_eq!(finished.stdout, b"in0\n");
        assert_eq!(finished.stderr, b"err\n");
        assert_eq!(run(&shell("kill -9 $$"), BOUNDS).await.unwrap().exit_code, 137);
    }

    #[tokio::test]
    async fn bounds_time_output_and_bad_programs() {
        let short = Bounds { time: Duration::from_millis(50), ..BOUNDS };
        let error = run(&shell("sleep 60"), short).await.unwrap_err();
        assert!(matches!(error, Error::TimedOut { .. }), "{error}");
        let error = run(&shell("yes"), BOUNDS).await.unwrap_err();
        assert!(matches!(error, Error::TooMuchOutput { stream: "stdout", .. }), "{error}");
        let missing = Program { program: "/no/such/program".into(), ..Program::default() };
        assert!(run(&missing, BOUNDS).await.unwrap_err().to_string().contains("/no/such/program"));
    }

    #[tokio::test]
    async fn a_leader_that_ends_takes_its_background_along() {
        let finished = run(&shell("sleep 60 & echo $!"), BOUNDS).await.unwrap();
        assert!(gone(&String::from_utf8(finished.stdout).unwrap()).await);
    }

    #[tokio::test]
    async fn a_process_that_left_the_group_is_not_waited_for() {
        let finished = run(&shell("setsid sleep 60 & echo $!"), BOUNDS).await.unwrap();
        let id = String::from_utf8(finished.stdout).unwrap();
        run(&shell(&format!("kill {id}")), BOUNDS).await.unwrap();
        assert!(gone(&id).await);
    }

    #[tokio::test]
    async fn a_dropped_call_leaves_no_process_tree() {
        let folder = tempfile::tempdir().unwrap();
        let mut program = shell("sh -c 'sleep 60 & echo $! > grandchild; wait' & echo $! > child; wait");
        program.folder = Some(folder.path().to_owned());
        let running = tokio::spawn(async move { run(&program, BOUNDS).await.map(|_| ()) });
        let child = content(&folder.path().join("child")).await;
        let grandchild = content(&folder.path().join("grandchild")).await;
        running.abort();
        assert!(running.await.unwrap_err().is_cancelled());
        assert!(gone(&child).await && gone(&grandchild).await);
    }
}
