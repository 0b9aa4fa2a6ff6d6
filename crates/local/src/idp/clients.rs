//! Who may send people here: applications that were registered beforehand, those that registered
//! themselves (RFC 7591), and those whose id is the address of a document about them.

use std::{
    collections::BTreeMap,
    net::IpAddr,
    path::PathBuf,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::{Deserialize, Serialize};
use url::{Host, Url};

use super::{Client, IdpError, file, random};

/// Most that register themselves; beyond it, the one goes first that was used longest ago.
const MAX_REGISTERED: usize = 100;

/// An application, however it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Application {
    pub(super) id: String,
    /// What it calls itself; nobody vouches for that. `None`: it is known by its id.
    pub(super) name: Option<String>,
    pub(super) redirect_uris: Vec<String>,
    /// Whether it gets refresh tokens.
    pub(super) refreshes: bool,
    /// Whether it is one that an operator named.
    pub(super) named_beforehand: bool,
}

impl Application {
    /// Whether people may be sent back to `asked`: to a redirect URI of its own, byte by byte. A program
    /// that waits on this machine takes whatever port is free (RFC 8252, section 7.3), so there the
    /// port does not matter; an operator says so by leaving it out.
    pub(super) fn may_return_to(&self, asked: &str) -> bool {
        self.redirect_uris.iter().any(|own| {
            own == asked
                || (!self.named_beforehand || !has_port(own))
                    && without_port(own).is_some_and(|own| Some(own) == without_port(asked))
        })
    }
}

impl From<&Client> for Application {
    fn from(client: &Client) -> Self {
        Self {
            id: client.id.clone(),
            name: None,
            redirect_uris: client.redirect_uris.clone(),
            refreshes: true,
            named_beforehand: true,
        }
    }
}

/// A plain-http address on this machine, less its port.
fn without_port(uri: &str) -> Option<Url> {
    let mut url = Url::parse(uri).ok()?;
    if url.scheme() != "http" || !is_loopback(&url) {
        return None;
    }
    url.set_port(None).ok()?;
    Some(url)
}

fn has_port(uri: &str) -> bool {
    Url::parse(uri).is_ok_and(|url| url.port().is_some())
}

/// Whether a URL stays on this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// Whether strangers may name this as their redirect URI: https, or this machine; nothing that two
/// readers could read as two places.
pub(super) fn is_redirect_uri(uri: &str) -> bool {
    let plain = uri.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
    let url = Url::parse(uri).ok().filter(|_| plain && uri.len() <= 1024);
    url.is_some_and(|url| {
        let safe = url.scheme() == "https" || url.scheme() == "http" && is_loopback(&url);
        safe && url.host().is_some()
            && url.fragment().is_none()
            && url.username().is_empty()
            && url.password().is_none()
    })
}

/// One that registered itself, as it is kept.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Registered {
    name: Option<String>,
    redirect_uris: Vec<String>,
    refreshes: bool,
    /// When it was used last, unix seconds.
    used: i64,
}

/// Those that registered themselves, in one file: they keep their ids for years.
#[derive(Debug)]
pub(super) struct Registrations {
    path: PathBuf,
    all: Mutex<BTreeMap<String, Registered>>,
}

impl Registrations {
    /// Reads the file; one that cannot be parsed counts as empty (applications register again).
    pub(super) fn open(path: PathBuf) -> Result<Self, IdpError> {
        let all = match std::fs::read(&path) {
            Ok(bytes) => serde_json::from_slice(&bytes).unwrap_or_else(|error| {
                tracing::warn!(path = %path.display(), %error, "registered clients are unreadable");
                BTreeMap::new()
            }),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(e) => return file(&path, Err(e)),
        };
        Ok(Self {
            path,
            all: Mutex::new(all),
        })
    }

    /// Registers an application; returns its id.
    pub(super) fn add(
        &self,
        name: Option<String>,
        redirect_uris: Vec<String>,
        refreshes: bool,
        now: i64,
    ) -> Result<String, IdpError> {
        let id = format!("dyn-{}", random(16)?);
        let mut all = self.all();
        if all.len() >= MAX_REGISTERED {
            let oldest = all.iter().min_by_key(|(_, one)| one.used);
            if let Some(oldest) = oldest.map(|(id, _)| id.clone()) {
                all.remove(&oldest);
            }
        }
        let registered = Registered {
            name,
            redirect_uris,
            refreshes,
            used: now,
        };
        all.insert(id.clone(), registered);
        self.save(&all)?;
        Ok(id)
    }

    /// The application of that id.
    pub(super) fn get(&self, id: &str) -> Option<Application> {
        self.all().get(id).map(|one| Application {
            id: id.to_owned(),
            name: one.name.clone(),
            redirect_uris: one.redirect_uris.clone(),
            refreshes: one.refreshes,
            named_beforehand: false,
        })
    }

    /// Notes that somebody signed in by it.
    pub(super) fn used(&self, id: &str, now: i64) -> Result<(), IdpError> {
        let mut all = self.all();
        match all.get_mut(id) {
            Some(one) => one.used = now,
            None => return Ok(()),
        }
        self.save(&all)
    }

    fn save(&self, all: &BTreeMap<String, Registered>) -> Result<(), IdpError> {
        let json = serde_json::to_vec(all).map_err(|e| IdpError::Sign(e.to_string()))?;
        file(&self.path, crate::files::write_private(&self.path, &json))
    }

    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Registered>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application(uris: &[&str], named_beforehand: bool) -> Application {
        Application {
            id: "c".to_owned(),
            name: None,
            redirect_uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
            refreshes: true,
            named_beforehand,
        }
    }

    #[test]
    fn only_ports_of_this_machine_do_not_matter() {
        let own = [
            "http://127.0.0.1:3000/cb",
            "http://localhost/cb",
            "https://app.test:8443/cb",
        ];
        for (asked, stranger, named) in [
            ("http://127.0.0.1:3000/cb", true, true),
            ("http://127.0.0.1:4000/cb", true, false),
            ("http://localhost:4000/cb", true, true),
            ("http://localhost/cb", true, true),
            ("https://app.test:8443/cb", true, true),
            ("https://app.test/cb", false, false),
            ("http://127.0.0.1:3000/cb/", false, false),
            ("http://127.0.0.1:3000/cb?x=1", false, false),
            ("http://127.0.0.2:3000/cb", false, false),
            ("http://localhost:4000@evil.test/cb", false, false),
            ("http://localhost.evil.test:4000/cb", false, false),
            ("https://localhost/cb", false, false),
            ("http://me@localhost/cb", false, false),
            ("http://localhost/cb#x", false, false),
            ("", false, false),
        ] {
            assert_eq!(
                application(&own, false).may_return_to(asked),
                stranger,
                "{asked}"
            );
            assert_eq!(
                application(&own, true).may_return_to(asked),
                named,
                "{asked}"
            );
        }
    }

    #[test]
    fn strangers_are_sent_to_https_or_this_machine_alone() {
        for good in [
            "https://app.test/cb",
            "https://app.test/cb?tenant=1",
            "http://localhost:1/",
            "http://127.0.0.1/cb",
            "http://[::1]:9/cb",
        ] {
            assert!(is_redirect_uri(good), "{good}");
        }
        for bad in [
            "http://app.test/cb",
            "app://cb",
            "javascript:alert(1)",
            "data:text/html,x",
            "https://app.test/cb#x",
            "https://me:pw@app.test/cb",
            "https://app.test\\@evil.test/",
            "https:// app.test/",
            "//app.test/cb",
            "/cb",
            "",
        ] {
            assert!(!is_redirect_uri(bad), "{bad}");
        }
    }

    #[test]
    fn the_one_unused_for_longest_makes_room_and_a_restart_none() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("clients.json");
        let all = Registrations::open(path.clone()).unwrap();
        let add = |now| all.add(None, vec!["http://localhost/".to_owned()], false, now);
        let ids: Vec<String> = (0..MAX_REGISTERED)
            .map(|i| add(i64::try_from(i).unwrap()).unwrap())
            .collect();
        all.used(&ids[0], 1000).unwrap();
        add(1001).unwrap();
        let again = Registrations::open(path).unwrap();
        assert!(again.get(&ids[0]).is_some());
        assert!(again.get(&ids[1]).is_none());
        assert!(again.get(&ids[2]).is_some());
        assert_eq!(again.all().len(), MAX_REGISTERED);
        again.used("unknown", 1).unwrap();
    }
}
