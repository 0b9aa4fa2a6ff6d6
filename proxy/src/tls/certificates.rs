//! Certificates, and which one stands for a name. Pure.

use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// A certificate with its key.
#[derive(Debug)]
pub struct Certificate {
    /// What its files are called.
    pub name: String,
    /// What the library signs with.
    pub key: Arc<CertifiedKey>,
    /// Names in lower case; `*.` in front of those that stand for all of one level.
    pub names: Vec<String>,
    /// Addresses that it stands for.
    pub addresses: Vec<IpAddr>,
    /// Seconds since 1970 at which it ends.
    pub ends: i64,
}

/// Why files are no certificate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Bad {
    /// The first file has none.
    #[error("there is no certificate in PEM")]
    NoCertificate,
    /// The second file has none.
    #[error("there is no private key in PEM (PKCS#8, PKCS#1 or SEC1), or its kind is unknown")]
    NoKey,
    /// They do not belong together.
    #[error("the private key is not that of the certificate")]
    Mismatch,
    /// A certificate cannot be read.
    #[error("the certificate cannot be read: {0}")]
    Unreadable(String),
    /// It stands for nothing.
    #[error("the certificate names no host (subjectAltName)")]
    Nameless,
}

impl Certificate {
    /// Reads a chain, the certificate itself first, and its key.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn read(name: &str, chain: &[u8], key: &[u8]) -> Result<Self, Bad> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(chain)
            .collect::<Result<_, _>>()
            .map_err(|_| Bad::NoCertificate)?;
        let first = chain.first().ok_or(Bad::NoCertificate)?;
        let (_, parsed) =
            X509Certificate::from_der(first).map_err(|error| Bad::Unreadable(error.to_string()))?;
        let (mut names, mut addresses) = (Vec::new(), Vec::new());
        let subject = parsed.subject_alternative_name();
        let subject = subject.map_err(|error| Bad::Unreadable(error.to_string()))?;
        for general in subject.iter().flat_map(|san| &san.value.general_names) {
            match general {
                GeneralName::DNSName(name) => names.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => addresses.extend(address(bytes)),
                _ => {}
            }
        }
        if names.is_empty() && addresses.is_empty() {
            return Err(Bad::Nameless);
        }
        let ends = parsed.validity().not_after.timestamp();
        let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| Bad::NoKey)?;
        let key = any_supported_type(&key).map_err(|_| Bad::NoKey)?;
        let key = CertifiedKey::new(chain, key);
        key.keys_match().map_err(|_| Bad::Mismatch)?;
        Ok(Self {
            name: name.to_owned(),
            key: Arc::new(key),
            names,
            addresses,
            ends,
        })
    }

    /// Whether it stands for `host`, a name or an address without port (RFC 9110, section 4.3.4).
    #[must_use]
    pub fn covers(&self, host: &str) -> bool {
        let plain = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = plain.parse::<IpAddr>() {
            return self.addresses.contains(&address);
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let wildcard = parent(&host).map(|parent| format!("*.{parent}"));
        self.names
            .iter()
            .any(|name| *name == host || Some(name) == wildcard.as_ref())
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    let four = <[u8; 4]>::try_from(bytes).map(IpAddr::from);
    four.or_else(|_| <[u8; 16]>::try_from(bytes).map(IpAddr::from))
        .ok()
}

/// What is left of a name without its first label.
fn parent(name: &str) -> Option<&str> {
    let (first, parent) = name.split_once('.')?;
    (!first.is_empty() && !parent.is_empty()).then_some(parent)
}

/// All certificates, by what they stand for.
#[derive(Debug)]
pub(super) struct Certificates {
    all: Vec<Arc<Certificate>>,
    by_name: HashMap<String, Arc<Certificate>>,
    default: Arc<Certificate>,
}

impl Certificates {
    /// These, of which the first stands in for names that none has. Where several have one name, the one
    /// that lasts longest does. `None`: there are none.
    #[must_use]
    pub(super) fn new(all: Vec<Arc<Certificate>>) -> Option<Self> {
        let default = all.first()?.clone();
        let mut by_name: HashMap<String, Arc<Certificate>> = HashMap::new();
        for certificate in &all {
            for name in &certificate.names {
                let known = by_name.get(name);
                if known.is_none_or(|known| known.ends < certificate.ends) {
                    by_name.insert(name.clone(), certificate.clone());
                }
            }
        }
        Some(Self {
            all,
            by_name,
            default,
        })
    }

    /// All of them.
    #[must_use]
    pub(super) fn all(&self) -> &[Arc<Certificate>] {
        &self.all
    }

    /// The one that stands for a host: by its own name rather than by that of its level.
    #[must_use]
    pub(super) fn find(&self, host: &str) -> Option<&Arc<Certificate>> {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.by_name.get(&host).or_else(|| {
            let wildcard = format!("*.{}", parent(&host)?);
            self.by_name.get(&wildcard)
        })
    }

    /// The one that a client is shown that asks for this name.
    #[must_use]
    pub(super) fn pick(&self, asked: Option<&str>) -> &Arc<Certificate> {
        asked
            .and_then(|name| self.find(name))
            .unwrap_or(&self.default)
    }
}

#[cfg(test)]
mod tests;
