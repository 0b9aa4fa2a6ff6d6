//! Collects mistakes while flags become values.

use std::{fmt::Display, net::SocketAddr, path::PathBuf, str::FromStr, time::Duration};

use url::Url;

use super::{ConfigError, Problem};
use crate::secret::Secret;

/// The mistakes found so far. Every method that reads a flag notes what is wrong and
/// returns `None`, so that checking goes on.
#[derive(Debug, Default)]
pub struct Problems(Vec<Problem>);

impl Problems {
    /// Notes a mistake. Say what is wrong and what to do; the flag is named for you.
    pub fn add(&mut self, flag: &str, message: impl Into<String>) {
        self.0.push(Problem {
            flag: flag.to_owned(),
            message: message.into(),
        });
    }

    /// The mistakes, in the order found.
    pub fn list(&self) -> &[Problem] {
        &self.0
    }

    /// The settings, if nothing was wrong.
    ///
    /// # Errors
    /// All mistakes; [`ConfigError::Silent`] if there are neither settings nor mistakes.
    pub fn finish<S>(self, settings: Option<S>) -> Result<S, ConfigError> {
        match settings {
            Some(settings) if self.0.is_empty() => Ok(settings),
            None if self.0.is_empty() => Err(ConfigError::Silent),
            _ => Err(ConfigError::Problems(self.0)),
        }
    }

    /// A value that must be there; `example` shows one.
    pub fn required<'a>(
        &mut self,
        flag: &str,
        value: Option<&'a str>,
        example: &str,
    ) -> Option<&'a str> {
        match value.map(str::trim) {
            Some(text) if !text.is_empty() => Some(text),
            Some(_) => {
                self.add(flag, format!("is empty; set it, as in: --{flag} {example}"));
                None
            }
            None => {
                let env = env_name(flag);
                self.add(
                    flag,
                    format!("is missing; set it, as in: --{flag} {example} (or {env})"),
                );
                None
            }
        }
    }

    /// Parses a value; absent: `default`.
    pub fn parse<T: FromStr<Err: Display>>(
        &mut self,
        flag: &str,
        value: Option<&str>,
        default: T,
    ) -> Option<T> {
        match value {
            None => Some(default),
            Some(text) => text
                .trim()
                .parse()
                .map_err(|e| self.add(flag, format!("`{text}` does not parse: {e}")))
                .ok(),
        }
    }

    /// A socket address `IP:PORT`; absent: `default`.
    pub fn addr(
        &mut self,
        flag: &str,
        value: Option<&str>,
        default: SocketAddr,
    ) -> Option<SocketAddr> {
        let Some(text) = value else {
            return Some(default);
        };
        let hint = "use IP:PORT, as in 127.0.0.1:9009 or [::1]:9009";
        text.trim()
            .parse()
            .map_err(|_| self.add(flag, format!("`{text}` is no socket address; {hint}")))
            .ok()
    }

    /// Whole seconds between `min` and `max`; absent: `default`.
    pub fn seconds(
        &mut self,
        flag: &str,
        value: Option<&str>,
        default: u64,
        (min, max): (u64, u64),
    ) -> Option<Duration> {
        self.number(flag, value, default, (min, max))
            .map(Duration::from_secs)
    }

    /// A whole number between `min` and `max`; absent: `default`.
    pub fn number(
        &mut self,
        flag: &str,
        value: Option<&str>,
        default: u64,
        (min, max): (u64, u64),
    ) -> Option<u64> {
        let Some(text) = value else {
            return Some(default);
        };
        match text.trim().parse::<u64>() {
            Ok(n) if (min..=max).contains(&n) => Some(n),
            _ => {
                self.add(
                    flag,
                    format!("`{text}` is not a whole number from {min} to {max}"),
                );
                None
            }
        }
    }

    /// `true` or `false` (also `yes|no`, `on|off`, `1|0`); absent: `default`.
    pub fn switch(&mut self, flag: &str, value: Option<&str>, default: bool) -> Option<bool> {
        let Some(text) = value else {
            return Some(default);
        };
        match text.trim().to_ascii_lowercase().as_str() {
            "true" | "yes" | "on" | "1" => Some(true),
            "false" | "no" | "off" | "0" => Some(false),
            _ => {
                self.add(flag, format!("`{text}` is neither true nor false"));
                None
            }
        }
    }

    /// The name of a namespace (a DNS-1123 label); absent: `default`.
    pub fn namespace(&mut self, flag: &str, value: Option<&str>, default: &str) -> Option<String> {
        let name = value.unwrap_or(default).trim();
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let good = !name.is_empty()
            && name.len() <= 63
            && name.bytes().all(inner)
            && !name.starts_with('-')
            && !name.ends_with('-');
        if good {
            return Some(name.to_owned());
        }
        self.add(
            flag,
            format!("`{name}` is no namespace name; use a-z, 0-9 and -, 63 characters at most"),
        );
        None
    }

    /// An http(s) URL that must be there, without credentials, query or fragment.
    pub fn required_url(&mut self, flag: &str, value: Option<&str>, example: &str) -> Option<Url> {
        let text = self.required(flag, value, example)?;
        self.http_url(flag, text)
    }

    /// Several http(s) URLs, in order.
    pub fn urls(&mut self, flag: &str, values: &[String]) -> Option<Vec<Url>> {
        let urls: Vec<_> = values
            .iter()
            .map(|v| self.http_url(flag, v.trim()))
            .collect();
        urls.into_iter().collect()
    }

    fn http_url(&mut self, flag: &str, text: &str) -> Option<Url> {
        let shape = "use http(s)://HOST[:PORT][/PATH]";
        // The text may hold a password, so it is not repeated.
        let url = Url::parse(text)
            .map_err(|e| self.add(flag, format!("is no URL ({e}); {shape}")))
            .ok()?;
        let reason = if !matches!(url.scheme(), "http" | "https") {
            "is neither http nor https"
        } else if !url.username().is_empty() || url.password().is_some() {
            "holds a user name or password, which would end up in logs"
        } else if url.query().is_some() || url.fragment().is_some() {
            "has a query or a fragment"
        } else {
            return Some(url);
        };
        self.add(flag, format!("{reason}; {shape}"));
        None
    }

    /// A secret read from a file that must hold one; absent: `None` inside.
    #[allow(
        clippy::option_option,
        reason = "a mistake and an absent flag are two things"
    )]
    pub fn secret_file(&mut self, flag: &str, value: Option<&str>) -> Option<Option<Secret>> {
        self.secret(flag, value, Secret::read)
    }

    /// A shared token read from a file (22 characters or more); absent: `None` inside.
    #[allow(
        clippy::option_option,
        reason = "a mistake and an absent flag are two things"
    )]
    pub fn token_file(&mut self, flag: &str, value: Option<&str>) -> Option<Option<Secret>> {
        self.secret(flag, value, Secret::read_token)
    }

    #[allow(
        clippy::option_option,
        reason = "a mistake and an absent flag are two things"
    )]
    fn secret(
        &mut self,
        flag: &str,
        value: Option<&str>,
        read: fn(&std::path::Path) -> Result<Secret, crate::secret::SecretError>,
    ) -> Option<Option<Secret>> {
        let Some(path) = value else {
            return Some(None);
        };
        read(&PathBuf::from(path))
            .map_err(|e| self.add(flag, e.to_string()))
            .ok()
            .map(Some)
    }
}

/// The environment variable of a flag.
pub(crate) fn env_name(flag: &str) -> String {
    format!("NOGOO9_{}", flag.to_ascii_uppercase().replace('-', "_"))
}
