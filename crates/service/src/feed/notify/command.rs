//! A message on the stdin of a program from the configuration, which has a process group, time and output of its own.

use std::collections::BTreeMap;

use relais_runtime::process::{self, Bounds, Error, Program};

use super::{Failed, Message, Senders};

/// A program that has more to say writes it to a file.
const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// As shells have it: found and not executable, not found.
const CANNOT_RUN: [i32; 2] = [126, 127];

pub async fn send(
    argv: &[String],
    env: &BTreeMap<String, String>,
    message: &Message,
    senders: &Senders,
) -> Result<(), Failed> {
    let program = Program::of_channel(argv, env, &senders.secrets, message.body());
    let program = program.map_err(Failed::for_good)?;
    let bounds = Bounds { time: senders.command_time, output_bytes: OUTPUT_BYTES_MAX };
    let finished = process::run(&program, bounds).await.map_err(failed)?;
    if finished.exit_code == 0 {
        return Ok(());
    }
    let words: Vec<&str> = env.values().map(String::as_str).collect();
    let said = senders.masked(&String::from_utf8_lossy(&finished.stderr), &words);
    let message = format!("`{}` ended with {}: {said}", program.program, finished.exit_code);
    Err(Failed { message, again: !CANNOT_RUN.contains(&finished.exit_code) })
}

fn failed(error: Error) -> Failed {
    let again = match error {
        Error::TimedOut { .. } | Error::Pipe { .. } => true,
        Error::Start { .. } | Error::TooMuchOutput { .. } => false,
    };
    Failed { message: error.to_string(), again }
}
