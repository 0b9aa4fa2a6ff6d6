//! Flags, environment and file into checked settings: precedence flag > environment >
//! file > default; all mistakes reported at once, each by its flag's name.
//!
//! clap stops at its first error, so flags are declared as `Option<String>` (or
//! `Vec<String>`) and checked here, by [`Problems`]. Left to clap are unknown flags and
//! missing values.

mod file;
mod problems;

use std::{ffi::OsString, fmt};

use crate::args::ConfigArgs;

pub use problems::Problems;

/// Flags of a binary that know how to become its settings.
pub trait Configure: clap::Parser {
    /// The checked settings.
    type Settings;

    /// The flags `--config` and `--check-config`.
    fn config(&self) -> &ConfigArgs;

    /// Checks every flag, noting each mistake; `None` if one that is needed is missing
    /// or wrong. Look at all of them before using `?` on one.
    fn settings(&self, problems: &mut Problems) -> Option<Self::Settings>;
}

/// What came of the flags.
#[derive(Debug)]
pub enum Loaded<S> {
    /// Go on with these.
    Run(S),
    /// `--check-config` was given and all is well: exit 0.
    Checked,
}

/// The configuration is wrong. Exit code 2.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// Unknown flags, missing values; also `--help` and `--version`. Printed by clap.
    #[error(transparent)]
    Usage(#[from] clap::Error),
    /// One or more mistakes.
    #[error("{}", list(.0))]
    Problems(Vec<Problem>),
    /// A `Configure::settings` that returned nothing and said nothing: our mistake.
    #[error("the configuration was refused without a reason; please report this")]
    Silent,
}

/// One mistake in the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The flag, without dashes.
    pub flag: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "--{}: {}", self.flag, self.message)
    }
}

fn list(problems: &[Problem]) -> String {
    let count = problems.len();
    let noun = if count == 1 { "mistake" } else { "mistakes" };
    let mut text = format!("{count} {noun} in the configuration");
    for problem in problems {
        text.push_str("\n  ");
        text.push_str(&problem.to_string());
    }
    text
}

/// Reads flags, environment and file, and checks them.
///
/// # Errors
/// [`ConfigError`], with every mistake found.
pub fn load<A: Configure>(
    argv: impl IntoIterator<Item = OsString>,
) -> Result<Loaded<A::Settings>, ConfigError> {
    let mut problems = Problems::default();
    let args = parse::<A>(argv, &mut problems)?;
    let settings = args.settings(&mut problems);
    let settings = problems.finish(settings)?;
    Ok(if args.config().check_config {
        Loaded::Checked
    } else {
        Loaded::Run(settings)
    })
}

/// Parses the command line, then again with what the file adds.
fn parse<A: Configure>(
    argv: impl IntoIterator<Item = OsString>,
    problems: &mut Problems,
) -> Result<A, ConfigError> {
    let argv: Vec<OsString> = argv.into_iter().collect();
    let command = A::command();
    let matches = command.clone().try_get_matches_from(&argv)?;
    let args = A::from_arg_matches(&matches)?;
    let Some(path) = &args.config().config else {
        return Ok(args);
    };
    let added = file::flags(path, &command, &matches, problems);
    // Before the line's own arguments: after them there may be a `--`.
    let line = argv
        .iter()
        .take(1)
        .cloned()
        .chain(added)
        .chain(argv.iter().skip(1).cloned());
    let matches = command.try_get_matches_from(line)?;
    Ok(A::from_arg_matches(&matches)?)
}
