//! A certificate authority and the one server certificate it ever signed: of the embedded API
//! server, and of an identity provider that pods reach.

use std::fs;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;

/// Why there is no usable certificate.
#[derive(Debug, Error)]
pub enum PkiError {
    /// A file in the data directory cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// What went wrong with it.
        source: std::io::Error,
    },
    /// A certificate cannot be made.
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    /// What is in the data directory is no certificate or key.
    #[error(
        "the files in {path} are no certificate and key; remove that folder to have new ones made"
    )]
    Unusable {
        /// The folder.
        path: String,
    },
}

/// A certificate authority, and the certificate of the server that it was made for.
#[derive(Clone)]
pub struct Pki {
    ca: String,
    certificate: String,
    key: String,
    folder: String,
}

impl Pki {
    /// Reads the authority and certificate of a data directory's API server (127.0.0.1, ::1 and
    /// localhost), or makes them, in `pki/`.
    ///
    /// # Errors
    /// When files cannot be read, written or understood.
    pub fn ensure(data_dir: &Path) -> Result<Self, PkiError> {
        let addresses = [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(Ipv6Addr::LOCALHOST),
        ];
        Self::ensure_for(&data_dir.join("pki"), "nogoo9 local API server", &addresses)
    }

    /// Reads the authority and certificate in a folder, or makes them for a server of that name at
    /// these addresses and `localhost`.
    ///
    /// # Errors
    /// When files cannot be read, written or understood.
    pub fn ensure_for(folder: &Path, name: &str, addresses: &[IpAddr]) -> Result<Self, PkiError> {
        let names = ["ca.crt", "server.crt", "server.key"].map(|name| folder.join(name));
        fs::create_dir_all(folder).map_err(|source| file_error(folder, source))?;
        // The key is renamed into place last, so its presence means that all three are whole.
        let [ca_path, certificate_path, key_path] = &names;
        if !key_path.exists() {
            let (ca, certificate, key) = make(name, addresses)?;
            write(ca_path, &ca)?;
            write(certificate_path, &certificate)?;
            write(key_path, &key)?;
        }
        let read =
            |path: &Path| fs::read_to_string(path).map_err(|source| file_error(path, source));
        Ok(Self {
            ca: read(ca_path)?,
            certificate: read(certificate_path)?,
            key: read(key_path)?,
            folder: folder.display().to_string(),
        })
    }

    /// The certificate of the authority, PEM: what clients trust.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca
    }

    /// TLS settings of the server.
    pub(crate) fn server_config(&self) -> Result<rustls::ServerConfig, PkiError> {
        let unusable = || PkiError::Unusable {
            path: self.folder.clone(),
        };
        let certificate =
            CertificateDer::from_pem_slice(self.certificate.as_bytes()).map_err(|_| unusable())?;
        let key = PrivateKeyDer::from_pem_slice(self.key.as_bytes()).map_err(|_| unusable())?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|_| unusable())?
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key)
            .map_err(|_| unusable())?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(config)
    }
}

fn make(name: &str, addresses: &[IpAddr]) -> Result<(String, String, String), PkiError> {
    // The authority's key is not kept: a new server certificate means a new authority.
    let ca_key = KeyPair::generate()?;
    let mut ca = CertificateParams::new(Vec::<String>::new())?;
    ca.distinguished_name = named("nogoo9 local CA");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let ca_pem = ca.self_signed(&ca_key)?.pem();
    let issuer = Issuer::new(ca, ca_key);

    let key = KeyPair::generate()?;
    let mut server = CertificateParams::new(vec!["localhost".to_owned()])?;
    server.distinguished_name = named(name);
    let addresses = addresses.iter().copied().map(SanType::IpAddress);
    server.subject_alt_names.extend(addresses);
    server.use_authority_key_identifier_extension = true;
    server.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    let certificate = server.signed_by(&key, &issuer)?;
    Ok((ca_pem, certificate.pem(), key.serialize_pem()))
}

fn named(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// Writes a file that only its owner may read, whole or not at all.
fn write(path: &Path, content: &str) -> Result<(), PkiError> {
    let draft = path.with_extension("tmp");
    let written = fs::OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&draft)
        .and_then(|mut file| {
            file.write_all(content.as_bytes())
                .and_then(|()| file.sync_all())
        })
        .and_then(|()| fs::rename(&draft, path));
    written.map_err(|source| file_error(path, source))
}

fn file_error(path: &Path, source: std::io::Error) -> PkiError {
    PkiError::File {
        path: path.display().to_string(),
        source,
    }
}
