//! Certificates in use, and their files looked at again and again: a mounted Secret changes under one's
//! hands, and no file system tells of that on every node.

use super::certificates::{Certificate, Certificates};
use super::files::{All, Source, Unreadable, shown_name};
use super::metrics::{Loaded, TlsMetrics};
use arc_swap::{ArcSwap, Guard};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(2);

type Fingerprint = [u8; 32];

/// The certificates in use.
#[derive(Debug)]
pub struct Store {
    source: Source,
    current: ArcSwap<Certificates>,
    /// What was last seen of each, and what of it is in use. Held while files are looked at.
    known: Mutex<BTreeMap<String, Known>>,
    /// Why some could not be read at the last look, as it was told.
    unreadable: Mutex<BTreeMap<String, String>>,
    metrics: TlsMetrics,
}

#[derive(Debug, Clone)]
struct Known {
    seen: Fingerprint,
    certificate: Option<Arc<Certificate>>,
}

impl Store {
    /// Reads all of them for the first time.
    ///
    /// # Errors
    /// One cannot be used, or there is none.
    pub fn open(source: Source, metrics: TlsMetrics) -> Result<Self, Unreadable> {
        let mut known = BTreeMap::new();
        for (name, written) in source.written()? {
            let shown = shown_name(&name);
            let written = written?;
            let certificate = written.read(shown).map_err(|bad| Unreadable::Bad {
                name: shown.to_owned(),
                bad,
            })?;
            let certificate = Some(Arc::new(certificate));
            let seen = written.fingerprint();
            known.insert(name, Known { seen, certificate });
        }
        let all = Certificates::new(in_use(&known)).ok_or(Unreadable::None)?;
        metrics.in_use(&all);
        Ok(Self {
            source,
            current: ArcSwap::from_pointee(all),
            known: Mutex::new(known),
            unreadable: Mutex::default(),
            metrics,
        })
    }

    /// Those in use.
    pub(super) fn current(&self) -> Guard<Arc<Certificates>> {
        self.current.load()
    }

    /// Looks at the files for as long as it is polled.
    pub async fn follow(self: Arc<Self>) {
        let mut every = tokio::time::interval(LOOK_EVERY);
        every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            every.tick().await;
            let this = self.clone();
            // Files are on disks and networks.
            let looked = tokio::task::spawn_blocking(move || this.look()).await;
            if let Err(error) = looked {
                tracing::error!(%error, "certificates could not be looked at");
            }
        }
    }

    /// Takes what has changed, and keeps what was good of what is not any more.
    pub fn look(&self) {
        let written = match self.source.written() {
            Ok(written) => written,
            Err(error) => {
                // A mount that is being swapped; or one that went away, which the next look tells too.
                self.metrics.loaded(Loaded::Kept);
                tracing::warn!(%error, "certificates cannot be read, those before stay in use");
                return;
            }
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        self.tell_unreadable(&written);
        let before = known.len();
        known.retain(|name, _| written.contains_key(name));
        let mut changed = known.len() != before;
        for (name, written) in &written {
            // One that cannot be read may be one that is being written.
            let Ok(written) = written else { continue };
            let seen = written.fingerprint();
            let old = known.get(name);
            if old.is_some_and(|old| old.seen == seen) {
                continue;
            }
            let shown = shown_name(name);
            let certificate = match written.read(shown) {
                Ok(certificate) => {
                    changed = true;
                    self.metrics.loaded(Loaded::Taken);
                    tracing::info!(certificate = shown, names = ?certificate.names, "a certificate was read");
                    Some(Arc::new(certificate))
                }
                Err(error) => {
                    self.metrics.loaded(Loaded::Kept);
                    tracing::error!(certificate = shown, %error, "a certificate cannot be used, the one before stays in use");
                    old.and_then(|old| old.certificate.clone())
                }
            };
            known.insert(name.clone(), Known { seen, certificate });
        }
        if !changed {
            return;
        }
        match Certificates::new(in_use(&known)) {
            Some(all) => {
                self.metrics.in_use(&all);
                self.current.store(Arc::new(all));
            }
            None => tracing::error!("no certificate is left, those before stay in use"),
        }
    }

    /// Tells of those that cannot be read, once for each reason: they may stay so for days.
    fn tell_unreadable(&self, written: &All) {
        let now = written.iter().filter_map(|(name, written)| {
            let error = written.as_ref().err()?;
            Some((name.clone(), error.to_string()))
        });
        let now: BTreeMap<_, _> = now.collect();
        let mut before = self
            .unreadable
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for (name, error) in now
            .iter()
            .filter(|(name, error)| before.get(*name) != Some(error))
        {
            self.metrics.loaded(Loaded::Kept);
            tracing::warn!(certificate = shown_name(name), %error, "a certificate cannot be read, the one before stays in use");
        }
        *before = now;
    }
}

fn in_use(known: &BTreeMap<String, Known>) -> Vec<Arc<Certificate>> {
    let all = known.values();
    all.filter_map(|known| known.certificate.clone()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    fn write(folder: &Path, name: &str, until: i32) {
        let mut params = rcgen::CertificateParams::new(vec![format!("{name}.test")]).unwrap();
        params.not_after = rcgen::date_time_ymd(until, 1, 1);
        let key = rcgen::KeyPair::generate().unwrap();
        let chain = params.self_signed(&key).unwrap().pem();
        std::fs::write(folder.join(format!("{name}.crt")), chain).unwrap();
        std::fs::write(folder.join(format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    #[test]
    fn one_that_cannot_be_read_stays_and_keeps_no_other_from_changing() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            write(folder.path(), name, 2050);
        }
        let source = Source {
            alone: None,
            folder: Some(folder.path().to_owned()),
        };
        let store = Store::open(source.clone(), TlsMetrics::default()).unwrap();
        let ends = |store: &Store, name: &str| {
            let current = store.current();
            current
                .find(&format!("{name}.test"))
                .map(|found| found.ends)
        };
        let (before, after) = (ends(&store, "a").unwrap(), 2_556_144_000);
        for name in ["a", "b", "c"] {
            write(folder.path(), name, 2051);
        }
        std::fs::remove_file(folder.path().join("b.key")).unwrap();
        store.look();
        assert_eq!(ends(&store, "a"), Some(after));
        assert_eq!(ends(&store, "b"), Some(before));
        assert_eq!(ends(&store, "c"), Some(after));
        // Told once, for as long as it stays so.
        assert_eq!(store.metrics.kept(), 1);
        store.look();
        assert_eq!(store.metrics.kept(), 1);
        // A proxy that starts is told.
        let error = Store::open(source, TlsMetrics::default()).unwrap_err();
        assert!(error.to_string().contains("b.key"), "{error}");
        write(folder.path(), "b", 2051);
        std::fs::remove_file(folder.path().join("c.crt")).unwrap();
        store.look();
        assert_eq!(ends(&store, "b"), Some(after));
        // What is there no more goes.
        assert_eq!(ends(&store, "c"), None);
    }
}
