//! What image names mean on this node: the path of an executable.
//!
//! There is no registry here. A configured *repository* (`nogoo9-sample`) or one
//! exact name (`nogoo9-sample:1.0`) stands for a program; the tag is passed to it as
//! `NOGOO9_IMAGE_TAG`. Any other name fails as it would with a registry that does
//! not have it: `ErrImagePull`, then `ImagePullBackOff`.
//!
//! For development, a tag that ends in `_slow-pull-N` + `s` or `m`
//! (`nogoo9-sample:2.0_slow-pull-90s`) takes that long to pull, at most an hour. The
//! suffix is not part of the tag that the program sees.
//!
//! An image may also be *nothing* ([`LocalImages::nothing`]): its containers run, are
//! ready, end when told to and hold their volumes, as any other does, but are no process.
//! Hundreds of them cost next to nothing, and whoever talks to one is refused.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Image names with a local meaning.
#[derive(Debug, Clone, Default)]
pub struct LocalImages {
    /// `None`: nothing.
    programs: BTreeMap<String, Option<PathBuf>>,
}

/// What a container of an image runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// `None`: nothing.
    pub(crate) program: Option<PathBuf>,
    pub(crate) tag: String,
    /// How long it takes to pull; zero for all but slow images.
    pub(crate) pull: Duration,
}

/// Why an image has no meaning here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ImageError {
    /// Not an image name at all.
    Invalid(String),
    /// A name that stands for nothing on this node.
    NotFound(String),
}

/// The longest pull that a slow image may ask for.
const MAX_PULL: Duration = Duration::from_secs(3600);

impl LocalImages {
    /// No image at all.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The samples that come with `nogoo9`: any tag of `nogoo9-sample` is the program
    /// of that name in `bin_dir`.
    #[must_use]
    pub fn samples(bin_dir: &Path) -> Self {
        Self::new().with("nogoo9-sample", bin_dir.join("nogoo9-sample"))
    }

    /// Adds a program. `name` is a repository (any tag) or `repository:tag` (that tag
    /// only, which wins over the repository).
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, program: impl Into<PathBuf>) -> Self {
        self.programs.insert(name.into(), Some(program.into()));
        self
    }

    /// Adds an image whose containers are no process, unless their spec has a `command`.
    #[must_use]
    pub fn nothing(mut self, name: impl Into<String>) -> Self {
        self.programs.insert(name.into(), None);
        self
    }

    /// The configured names, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.programs.keys().map(String::as_str)
    }

    pub(crate) fn resolve(&self, name: &str) -> Result<Image, ImageError> {
        let (repository, tag) = split(name).ok_or_else(|| {
            ImageError::Invalid(format!(
                "Failed to apply default image tag \"{name}\": couldn't parse image name \
                 \"{name}\": invalid reference format"
            ))
        })?;
        let (tag, pull) = slow_pull(tag);
        let program = self
            .programs
            .get(&format!("{repository}:{tag}"))
            .or_else(|| self.programs.get(repository))
            .ok_or_else(|| {
                let known: Vec<&str> = self.names().collect();
                ImageError::NotFound(format!(
                    "failed to pull image \"{name}\": {name}: not found (this node runs local \
                     programs only; it knows: {})",
                    known.join(", ")
                ))
            })?;
        Ok(Image {
            program: program.clone(),
            tag: tag.to_owned(),
            pull,
        })
    }
}

/// Splits `[host[:port]/]path[:tag][@digest]` into repository and tag, by the rules
/// of the image reference grammar that matter here.
fn split(name: &str) -> Option<(&str, &str)> {
    let (name, _digest) = name
        .split_once('@')
        .map_or((name, None), |(n, d)| (n, Some(d)));
    let last = name.rfind('/').map_or(0, |slash| slash.saturating_add(1));
    let (repository, tag) = match name.get(last..)?.find(':') {
        Some(colon) => {
            let at = last.checked_add(colon)?;
            (name.get(..at)?, name.get(at.checked_add(1)?..)?)
        }
        None => (name, "latest"),
    };
    let valid_repository = !repository.is_empty()
        && repository.split('/').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric())
                && part.ends_with(|c: char| c.is_ascii_alphanumeric())
                && part
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_:".contains(c))
        });
    let valid_tag = tag.len() <= 128
        && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && tag
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    (valid_repository && valid_tag).then_some((repository, tag))
}

fn slow_pull(tag: &str) -> (&str, Duration) {
    let parse = || {
        let (rest, time) = tag.rsplit_once("_slow-pull-")?;
        let (count, unit) = match time.strip_suffix('s') {
            Some(count) => (count, 1),
            None => (time.strip_suffix('m')?, 60),
        };
        let seconds = count.parse::<u64>().ok()?.checked_mul(unit)?;
        Some((rest, Duration::from_secs(seconds).min(MAX_PULL)))
    };
    parse().unwrap_or((tag, Duration::ZERO))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images() -> LocalImages {
        LocalImages::new()
            .with("nogoo9-sample", "/bin/sample")
            .with("nogoo9-sample:next", "/bin/next")
            .nothing("nogoo9-nothing")
    }

    #[test]
    fn names_resolve() {
        for (name, program, tag, seconds) in [
            ("nogoo9-sample", "/bin/sample", "latest", 0),
            ("nogoo9-sample:1.0", "/bin/sample", "1.0", 0),
            ("nogoo9-sample:next", "/bin/next", "next", 0),
            ("nogoo9-sample:2.0@sha256:00", "/bin/sample", "2.0", 0),
            ("nogoo9-sample:2.0_slow-pull-90s", "/bin/sample", "2.0", 90),
            ("nogoo9-sample:2.0_slow-pull-2m", "/bin/sample", "2.0", 120),
            (
                "nogoo9-sample:2.0_slow-pull-9000m",
                "/bin/sample",
                "2.0",
                3600,
            ),
            (
                "nogoo9-sample:2.0_slow-pull-soon",
                "/bin/sample",
                "2.0_slow-pull-soon",
                0,
            ),
        ] {
            let image = images().resolve(name).unwrap();
            assert_eq!(
                (
                    image.program.unwrap().to_str().unwrap(),
                    image.tag.as_str(),
                    image.pull.as_secs()
                ),
                (program, tag, seconds),
                "{name}"
            );
        }
    }

    #[test]
    fn nothing_is_an_image_too() {
        let image = images().resolve("nogoo9-nothing:2.0").unwrap();
        assert_eq!((image.program, image.tag.as_str()), (None, "2.0"));
    }

    #[test]
    fn other_names_do_not() {
        for name in [
            "nginx",
            "nginx:1.27",
            "ghcr.io/a/nogoo9-sample:1.0",
            "localhost:5000/x",
        ] {
            let error = images().resolve(name).unwrap_err();
            assert!(
                matches!(&error, ImageError::NotFound(text) if text.contains("nogoo9-sample")),
                "{name}: {error:?}"
            );
        }
        for name in ["", "Nginx", "a:", "a:b c", "a//b", "-a", "a:+1"] {
            let error = images().resolve(name).unwrap_err();
            assert!(matches!(error, ImageError::Invalid(_)), "{name}: {error:?}");
        }
    }
}
