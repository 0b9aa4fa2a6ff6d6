//! The official MCP clients: TypeScript's of both generations (one greets with `initialize`, one finds
//! the newest protocol) and Python's. What agents do works in each, what fails is told so that they can
//! show it, and each finds its own way to a token.

mod documents;
mod sign_in;
mod work;

use nogoo9_tests::{Options, Suite};
use std::process::ExitCode;

fn main() -> ExitCode {
    Suite::new(Options::default())
        .scenario("first_generation", |site| {
            work::generation(site, "v1", "2025-11-25")
        })
        .scenario("second_generation", |site| {
            work::generation(site, "v2", "2026-07-28")
        })
        .scenario(
            "they_sign_in_where_scopes_mean_nothing",
            sign_in::where_scopes_mean_nothing,
        )
        .scenario(
            "they_sign_in_by_all_three_ways_and_step_up",
            sign_in::where_scopes_count,
        )
        .main()
}
