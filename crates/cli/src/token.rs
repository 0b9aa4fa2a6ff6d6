//! `nogoo9 token`.

use std::{io::Write as _, time::Duration};

use nogoo9_local::{
    idp::{TOKEN_LIFE, mint, mint_scoped},
    supervisor::Instance,
};
use nogoo9_runtime::config::Problems;

use crate::{DataDirArg, wrong};

/// Longest life that may be asked for, seconds: a day.
const MAX_LIFE: u64 = 24 * 3600;

/// Flags of `nogoo9 token`.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TokenArgs {
    /// Development user: alice, bob, admin or vera.
    user: String,
    #[command(flatten)]
    data_dir: DataDirArg,
    /// How long it is good for, in seconds. [default: 3600]
    #[arg(long, value_name = "SECONDS")]
    ttl: Option<String>,
    /// Its scopes, separated by spaces; they count where `--scopes on` is. [default: all]
    #[arg(long, value_name = "SCOPES")]
    scope: Option<String>,
}

const EXAMPLES: &str = "\
The token is like one got by signing in, and is meant for the MCP endpoint and the JSON API.
It needs an instance that ran here once, since that made the key; it need not run now.

Example:
  curl -H \"Authorization: Bearer $(nogoo9 token alice)\" http://localhost:9009/api/v1/workspaces";

pub(crate) fn run(args: &TokenArgs) -> anyhow::Result<()> {
    let mut problems = Problems::default();
    let default = TOKEN_LIFE.as_secs();
    let ttl: Option<Duration> =
        problems.seconds("ttl", args.ttl.as_deref(), default, (1, MAX_LIFE));
    let Some(ttl) = ttl else {
        return Err(wrong(problems).into());
    };
    let dir = args.data_dir.resolve()?;
    let Some(instance) = Instance::read(&dir)? else {
        anyhow::bail!(
            "--data-dir {}: no instance ran here, so there is no key to sign with; start one \
             with: nogoo9 up --data-dir {0}",
            dir.display()
        );
    };
    let (issuer, audience) = (&instance.issuer, &instance.audience);
    let token = match &args.scope {
        Some(scope) => mint_scoped(&dir, issuer, &args.user, audience, scope, ttl)?,
        None => mint(&dir, issuer, &args.user, audience, ttl)?,
    };
    writeln!(std::io::stdout().lock(), "{token}")?;
    Ok(())
}
