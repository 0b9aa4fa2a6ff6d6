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
/// Looks after which a certificate goes whose files are both gone. They may be gone for a moment, as
/// between `rm` and `cp`, and another one is the wrong one for its clients.
const GONE_AFTER: u32 = 5;

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
    /// `None`: what was seen is no certificate, and there was none before.
    certificate: Option<Arc<Certificate>>,
    /// Looks, one after another, that found neither of its files.
    missing: u32,
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
            let missing = 0;
            known.insert(
                name,
                Known {
                    seen,
                    certificate,
                    missing,
                },
            );
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
        let mut written = match self.source.written() {
            Ok(written) => written,
            Err(error) => {
                // A mount that is being swapped; or one that went away, which the next look tells too.
                self.metrics.loaded(Loaded::Kept);
                tracing::warn!(%error, "certificates cannot be read, those before stay in use");
                return;
            }
        };
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        for name in known.keys() {
            if !written.contains_key(name)
                && let Some(half) = self.source.half(name)
            {
                written.insert(name.clone(), Err(half));
            }
        }
        self.tell_unreadable(&written, &known);
        let mut changed = self.take(&written, &mut known);
        changed |= self.forget(&written, &mut known);
        if changed && let Some(all) = Certificates::new(in_use(&known)) {
            self.metrics.in_use(&all);
            self.current.store(Arc::new(all));
        }
    }

    /// Takes those whose files have changed. Returns whether that changes what is in use.
    fn take(&self, written: &All, known: &mut BTreeMap<String, Known>) -> bool {
        let mut changed = false;
        for (name, written) in written {
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
                    let before = old.and_then(|old| old.certificate.clone());
                    let (result, then) = unusable(before.is_some());
                    self.metrics.loaded(result);
                    tracing::error!(certificate = shown, %error, "a certificate cannot be used, {then}");
                    before
                }
            };
            let missing = 0;
            known.insert(
                name.clone(),
                Known {
                    seen,
                    certificate,
                    missing,
                },
            );
        }
        changed
    }

    /// Forgets those whose files are both gone for good. Returns whether that changes what is in use.
    fn forget(&self, written: &All, known: &mut BTreeMap<String, Known>) -> bool {
        let mut left = in_use(known).len();
        let before = left;
        known.retain(|name, known| {
            if written.contains_key(name) {
                known.missing = 0;
                return true;
            }
            known.missing = known.missing.saturating_add(1);
            if known.missing < GONE_AFTER {
                return true;
            }
            let certificate = shown_name(name);
            if known.certificate.is_none() {
                return false;
            }
            // Without any nobody could connect.
            if left == 1 {
                if known.missing == GONE_AFTER {
                    self.metrics.loaded(Loaded::Kept);
                    tracing::error!(
                        certificate,
                        "the last certificate's files are gone, it stays in use"
                    );
                }
                return true;
            }
            left -= 1;
            tracing::warn!(
                certificate,
                "a certificate's files are gone, it is not used any more"
            );
            self.metrics.loaded(Loaded::Removed);
            false
        });
        left != before
    }

    /// Tells of those that cannot be read, once for each reason: they may stay so for days.
    fn tell_unreadable(&self, written: &All, known: &BTreeMap<String, Known>) {
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
            let is_used = known
                .get(name)
                .is_some_and(|known| known.certificate.is_some());
            let (result, then) = unusable(is_used);
            self.metrics.loaded(result);
            tracing::warn!(certificate = shown_name(name), %error, "a certificate cannot be read, {then}");
        }
        *before = now;
    }
}

/// What comes of files that cannot be used: for the metrics, and for the log.
fn unusable(is_used: bool) -> (Loaded, &'static str) {
    if is_used {
        (Loaded::Kept, "the one before stays in use")
    } else {
        (
            Loaded::Unused,
            "and there is none before it: its names are shown another one",
        )
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
        let source = of(folder.path());
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
        assert_eq!(store.metrics.count(Loaded::Kept), 1);
        store.look();
        assert_eq!(store.metrics.count(Loaded::Kept), 1);
        // A proxy that starts is told.
        let error = Store::open(source, TlsMetrics::default()).unwrap_err();
        assert!(error.to_string().contains("b.key"), "{error}");
        write(folder.path(), "b", 2051);
        store.look();
        assert_eq!(ends(&store, "b"), Some(after));
    }

    fn of(folder: &Path) -> Source {
        Source {
            alone: None,
            folder: Some(folder.to_owned()),
        }
    }

    fn has(store: &Store, name: &str) -> bool {
        store.current().find(&format!("{name}.test")).is_some()
    }

    #[test]
    fn one_goes_once_both_its_files_are_gone_for_good() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        for name in ["a", "b"] {
            write(folder.path(), name, 2050);
        }
        let store = Store::open(of(folder.path()), TlsMetrics::default()).unwrap();
        // Half of it is there: as long as that lasts.
        let chain = std::fs::read(file("b.crt")).unwrap();
        std::fs::remove_file(file("b.crt")).unwrap();
        for _ in 0..2 * GONE_AFTER {
            store.look();
        }
        assert!(has(&store, "b"));
        assert_eq!(store.metrics.count(Loaded::Kept), 1);
        // Nothing of it is there, for a moment, again and again.
        let key = std::fs::read(file("b.key")).unwrap();
        for _ in 0..3 {
            std::fs::remove_file(file("b.key")).unwrap();
            (1..GONE_AFTER).for_each(|_| store.look());
            assert!(has(&store, "b"));
            std::fs::write(file("b.key"), &key).unwrap();
            std::fs::write(file("b.crt"), &chain).unwrap();
            store.look();
            std::fs::remove_file(file("b.crt")).unwrap();
        }
        // For good.
        std::fs::remove_file(file("b.key")).unwrap();
        for _ in 0..2 * GONE_AFTER {
            store.look();
        }
        assert!(!has(&store, "b"));
        assert_eq!(store.metrics.count(Loaded::Removed), 1);
        // The last one stays.
        let kept = store.metrics.count(Loaded::Kept);
        for name in ["a.crt", "a.key"] {
            std::fs::remove_file(file(name)).unwrap();
        }
        for _ in 0..2 * GONE_AFTER {
            store.look();
        }
        assert!(has(&store, "a"));
        assert_eq!(store.metrics.count(Loaded::Kept), kept + 1);
        // Until there is another one.
        write(folder.path(), "c", 2050);
        store.look();
        assert!(has(&store, "c") && !has(&store, "a"));
    }

    #[test]
    fn a_new_one_that_cannot_be_used_is_not_said_to_be() {
        let folder = tempfile::tempdir().unwrap();
        write(folder.path(), "a", 2050);
        // A key of something else is no certificate, at the start and later.
        std::fs::write(folder.path().join("other.key"), "key").unwrap();
        let store = Store::open(of(folder.path()), TlsMetrics::default()).unwrap();
        store.look();
        assert_eq!(store.metrics.count(Loaded::Unused), 0);
        std::fs::write(folder.path().join("b.crt"), "broken").unwrap();
        store.look();
        assert_eq!(store.metrics.count(Loaded::Unused), 1);
        std::fs::write(folder.path().join("b.key"), "broken").unwrap();
        store.look();
        assert_eq!(store.metrics.count(Loaded::Unused), 2);
        assert_eq!(store.metrics.count(Loaded::Kept), 0);
        assert!(has(&store, "a"));
    }
}
