//! Where the programs under test are: in the profile folder that this test was built into.

use anyhow::{Context as _, bail};
use std::path::PathBuf;

/// Path of one of the workspace's programs.
///
/// # Errors
/// It was not built: `cargo test -p nogoo9-tests` alone does not build other packages' programs.
pub fn binary(name: &str) -> anyhow::Result<PathBuf> {
    let exe = std::env::current_exe().context("path of the test itself")?;
    // target/{profile}/deps/{suite}-{hash}
    let profile = exe
        .parent()
        .and_then(|deps| deps.parent())
        .context("the test does not lie in target/{profile}/deps")?;
    let path = profile.join(name);
    if !path.is_file() {
        bail!(
            "{} is missing: run the suites by `make test`, or `cargo build` first",
            path.display()
        );
    }
    Ok(path)
}
