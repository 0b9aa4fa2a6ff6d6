//! The pod shim as a program of its own, for a kubelet that is not part of
//! `nogoo9` (which has it as a hidden subcommand) and for this crate's tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    nogoo9_local::shim::main(std::env::args_os().skip(1))
}
