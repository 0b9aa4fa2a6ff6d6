//! Where the programs are.

use std::path::{Path, PathBuf};

use super::UpError;

/// The binaries that local mode runs.
#[derive(Clone, Debug)]
pub struct Programs {
    /// `nogoo9`: guard, pod shim, embedded API server.
    pub nogoo9: PathBuf,
    /// `nogoo9-control`.
    pub control: PathBuf,
    /// `nogoo9-proxy`.
    pub proxy: PathBuf,
    /// `nogoo9-sample`, the program of the sample image.
    pub sample: PathBuf,
}

impl Programs {
    /// All beside `nogoo9` itself.
    ///
    /// # Errors
    /// [`UpError::NoProgram`] for the first that is missing.
    pub fn beside(nogoo9: &Path) -> Result<Self, UpError> {
        let named = |name, package| {
            let path = nogoo9.with_file_name(name);
            if path.is_file() {
                Ok(path)
            } else {
                Err(UpError::NoProgram { path, package })
            }
        };
        Ok(Self {
            nogoo9: nogoo9.to_owned(),
            control: named("nogoo9-control", "nogoo9-control")?,
            proxy: named("nogoo9-proxy", "nogoo9-proxy")?,
            sample: named("nogoo9-sample", "nogoo9-local")?,
        })
    }
}
