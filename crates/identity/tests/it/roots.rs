//! A provider behind a certificate authority of its own.

use crate::support::{Signer, jwks};
use nogoo9_identity::Roots;
use nogoo9_identity::source::{KeySource, SourceError};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// An authority, as PEM, and TLS settings of a server at 127.0.0.1 that it vouches for.
fn authority() -> (String, rustls::ServerConfig) {
    let ca_key = KeyPair::generate().expect("a key");
    let mut ca = CertificateParams::new(Vec::<String>::new()).expect("parameters");
    ca.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    ca.key_usages = vec![KeyUsagePurpose::KeyCertSign];
    let pem = ca.self_signed(&ca_key).expect("a certificate").pem();
    let issuer = Issuer::new(ca, ca_key);
    let key = KeyPair::generate().expect("a key");
    let certificate = CertificateParams::new(vec!["127.0.0.1".to_owned()])
        .expect("parameters")
        .signed_by(&key, &issuer)
        .expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let config = rustls::ServerConfig::builder_with_provider(Arc::new(
        rustls::crypto::ring::default_provider(),
    ))
    .with_safe_default_protocol_versions()
    .expect("versions")
    .with_no_client_auth()
    .with_single_cert(vec![certificate.der().clone()], key)
    .expect("TLS settings");
    (pem, config)
}

/// A provider on https: its issuer, and its task. It answers one request a connection.
async fn provider(config: rustls::ServerConfig) -> (String, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let issuer = format!("https://{}", listener.local_addr().expect("an address"));
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let discovery = serde_json::json!({"issuer": issuer, "jwks_uri": format!("{issuer}/keys")});
    let serve = async move {
        loop {
            let (tcp, _) = listener.accept().await.expect("a connection");
            // A client that does not trust us ends the handshake.
            let Ok(mut tls) = acceptor.accept(tcp).await else {
                continue;
            };
            let mut head = [0; 4096];
            let mut read = 0;
            while !head[..read].ends_with(b"\r\n\r\n") {
                read += tls.read(&mut head[read..]).await.expect("a request");
            }
            let body = if head.starts_with(b"GET /keys ") {
                jwks(&[&Signer::ed25519("k")])
            } else {
                discovery.to_string().into_bytes()
            };
            let answer = format!(
                "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
                body.len()
            );
            tls.write_all(answer.as_bytes()).await.expect("sent");
            tls.write_all(&body).await.expect("sent");
            let _closed = tls.shutdown().await;
        }
    };
    (issuer, AbortOnDropHandle::new(tokio::spawn(serve)))
}

#[tokio::test]
async fn an_authority_of_ones_own_is_trusted_if_it_is_named_and_only_then() {
    let (pem, config) = authority();
    let (issuer, _server) = provider(config).await;
    let (another, _) = authority();
    let source = |roots| KeySource::Issuer {
        issuer: issuer.clone(),
        roots,
    };
    for stranger in [Roots::default(), Roots::and_pem(another.as_bytes())] {
        let refused = source(stranger).load().await;
        assert!(
            matches!(refused, Err(SourceError::Unreachable { .. })),
            "{refused:?}"
        );
    }
    let both = format!("{another}\n# and ours\n{pem}");
    let keys = source(Roots::and_pem(both.as_bytes())).load().await;
    assert!(!keys.expect("keys").is_empty());
}
