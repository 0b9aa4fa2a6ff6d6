//! From errors to exit codes: 0 good, 1 failed, 2 wrong configuration.

use std::{io::Write as _, process::ExitCode};

use crate::config::{self, ConfigError, Configure};

/// Exit code for mistakes in flags, environment or configuration file.
const EXIT_CONFIG: u8 = 2;

/// The whole `main` of a binary: reads flags, environment and file, answers
/// `--help`, `--version` and `--check-config`, reports all mistakes at once, and
/// otherwise calls `run`.
pub fn start<A: Configure>(run: impl FnOnce(A::Settings) -> anyhow::Result<()>) -> ExitCode {
    main_exit(match config::load::<A>(std::env::args_os()) {
        Ok(config::Loaded::Run(settings)) => run(settings),
        Ok(config::Loaded::Checked) => {
            say("The configuration is good.\n");
            Ok(())
        }
        Err(error) => Err(error.into()),
    })
}

/// Turns a result into an exit code, printing the error for a human: message and
/// causes, never `Debug`.
///
/// Waits a moment for the last log lines: they come before the error that they explain.
pub fn main_exit(result: anyhow::Result<()>) -> ExitCode {
    crate::telemetry::flush();
    let Err(error) = result else {
        return ExitCode::SUCCESS;
    };
    match error.downcast_ref::<ConfigError>() {
        Some(ConfigError::Usage(usage)) => {
            // clap knows the stream, the colours and the code (0 for --help).
            let code = u8::try_from(usage.exit_code()).unwrap_or(EXIT_CONFIG);
            let _closed_pipe = usage.print();
            ExitCode::from(code)
        }
        Some(other) => {
            complain(&format!("error: {other}\n"));
            ExitCode::from(EXIT_CONFIG)
        }
        None => {
            complain(&format!("error: {}\n", chain(&error)));
            ExitCode::FAILURE
        }
    }
}

/// The message and those of its causes that add something.
fn chain(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1) {
        let cause = cause.to_string();
        // Many errors already quote their source.
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// Standard output may be a closed pipe; that is no reason to fail.
fn say(text: &str) {
    let _closed_pipe = std::io::stdout().lock().write_all(text.as_bytes());
}

fn complain(text: &str) {
    let _closed_pipe = std::io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::chain;
    use anyhow::Context as _;

    #[test]
    fn causes_are_appended_once() {
        let io = || std::io::Error::other("disk gone");
        let quoted = Err::<(), _>(io()).context("saving failed: disk gone");
        assert_eq!(chain(&quoted.unwrap_err()), "saving failed: disk gone");
        let plain = Err::<(), _>(io()).context("saving failed");
        assert_eq!(chain(&plain.unwrap_err()), "saving failed: disk gone");
    }
}
