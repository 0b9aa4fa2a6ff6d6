//! What the sample is told by its environment. Only these names are read.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// The sample's settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// `POD_NAME`.
    pub pod: String,
    /// `POD_IP`, which it binds; 127.0.0.1 if unset.
    pub ip: IpAddr,
    /// `PORT`, 3000 if unset.
    pub port: u16,
    /// `DOCS_PORT`: where it says what it can, if it shall.
    pub docs_port: Option<u16>,
    /// `WORKSPACE_ID`.
    pub workspace: String,
    /// `VERSION`, else the image's tag (`NOGOO9_IMAGE_TAG`).
    pub version: String,
    /// `MESSAGE`, shown on the page.
    pub message: String,
    /// `SHELL`, else bash where it is installed, else `/bin/sh`.
    pub shell: PathBuf,
    /// `HOME`, where shells start.
    pub home: Option<PathBuf>,
    /// Where files are kept: `NOGOO9_VOLUME_DATA`, by which the process kubelet tells the folder of
    /// a volume named `data`, else `NOGOO9_SAMPLE_DATA`. Unset or no folder: none are kept.
    pub data: Option<PathBuf>,
    /// `PATH` of shells.
    pub path: String,
    /// `START_DELAY_MS`: how long it waits before it listens.
    pub start_delay: Duration,
    /// `READY_DELAY_MS`: how long its health check fails once it listens.
    pub ready_delay: Duration,
    /// `FLAP_MS`: once it is ready its health check passes and fails by turns, for so long each.
    pub flap: Option<Duration>,
    /// `CRASH=1`: end with exit code 1 at once.
    pub crash: bool,
    /// `ABRUPT=1`: end at once when asked to end.
    pub abrupt: bool,
    /// `HOSTILE=1`: attack whoever sends a request.
    pub hostile: bool,
    /// `LOCK_DATA=1`: be the only one that uses the folder of files, or say so and end.
    pub lock: bool,
}

/// A variable that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{name}={value}: {problem}")]
pub struct ConfigError {
    /// The variable.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What is wrong with it.
    pub problem: &'static str,
}

impl Config {
    /// Reads the settings through `lookup`, such as `|name| std::env::var(name).ok()`.
    ///
    /// # Errors
    /// Names the first variable that cannot be used.
    pub fn from_lookup(
        lookup: impl Fn(&'static str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let text = |name| lookup(name).filter(|value| !value.is_empty());
        let delay = |name| {
            parse(name, text(name), 0_u64, "not a number of milliseconds")
                .map(Duration::from_millis)
        };
        let bash = PathBuf::from("/bin/bash");
        let fallback = || {
            if bash.exists() {
                bash.clone()
            } else {
                PathBuf::from("/bin/sh")
            }
        };
        Ok(Self {
            pod: text("POD_NAME").unwrap_or_else(|| "unknown".to_owned()),
            ip: parse(
                "POD_IP",
                text("POD_IP"),
                IpAddr::V4(Ipv4Addr::LOCALHOST),
                "not an IP address",
            )?,
            port: parse("PORT", text("PORT"), 3000, "not a port number")?,
            docs_port: match text("DOCS_PORT") {
                None => None,
                port => Some(parse("DOCS_PORT", port, 0, "not a port number")?),
            },
            workspace: text("WORKSPACE_ID").unwrap_or_default(),
            version: text("VERSION")
                .or_else(|| text("NOGOO9_IMAGE_TAG"))
                .unwrap_or_else(|| "unknown".to_owned()),
            message: text("MESSAGE").unwrap_or_default(),
            shell: text("SHELL")
                .map(PathBuf::from)
                .filter(|path| path.exists())
                .unwrap_or_else(fallback),
            home: text("HOME").map(PathBuf::from).filter(|path| path.is_dir()),
            data: text("NOGOO9_VOLUME_DATA")
                .or_else(|| text("NOGOO9_SAMPLE_DATA"))
                .map(PathBuf::from)
                .filter(|path| path.is_dir()),
            path: text("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".to_owned()),
            start_delay: delay("START_DELAY_MS")?,
            ready_delay: delay("READY_DELAY_MS")?,
            flap: Some(delay("FLAP_MS")?).filter(|span| !span.is_zero()),
            crash: text("CRASH").as_deref() == Some("1"),
            abrupt: text("ABRUPT").as_deref() == Some("1"),
            hostile: text("HOSTILE").as_deref() == Some("1"),
            lock: text("LOCK_DATA").as_deref() == Some("1"),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        SocketAddr::new(self.ip, self.port)
    }
}

fn parse<T: std::str::FromStr>(
    name: &'static str,
    value: Option<String>,
    default: T,
    problem: &'static str,
) -> Result<T, ConfigError> {
    match value {
        None => Ok(default),
        Some(value) => value.parse().map_err(|_| ConfigError {
            name,
            value,
            problem,
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(set: &[(&str, &str)]) -> Result<Config, ConfigError> {
        Config::from_lookup(|name| {
            set.iter()
                .find(|(key, _)| *key == name)
                .map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn version_and_address() {
        let config = read(&[]).unwrap();
        assert_eq!(
            (config.address().to_string(), config.version),
            ("127.0.0.1:3000".into(), "unknown".into())
        );
        let tagged = [
            ("NOGOO9_IMAGE_TAG", "2.0"),
            ("POD_IP", "127.64.0.9"),
            ("PORT", "81"),
        ];
        let config = read(&tagged).unwrap();
        assert_eq!(
            (config.address().to_string(), config.version),
            ("127.64.0.9:81".into(), "2.0".into())
        );
        assert_eq!(
            read(&[("NOGOO9_IMAGE_TAG", "2.0"), ("VERSION", "x")])
                .unwrap()
                .version,
            "x"
        );
    }

    #[test]
    fn mistakes_name_the_variable() {
        for (name, value) in [
            ("PORT", "http"),
            ("DOCS_PORT", "docs"),
            ("POD_IP", "here"),
            ("START_DELAY_MS", "-1"),
            ("READY_DELAY_MS", "1s"),
            ("FLAP_MS", "often"),
        ] {
            let error = read(&[(name, value)]).unwrap_err();
            assert!(
                error.to_string().starts_with(&format!("{name}={value}: ")),
                "{error}"
            );
        }
    }
}
