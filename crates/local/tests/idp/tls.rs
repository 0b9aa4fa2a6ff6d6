//! The development identity provider over https, as a test cluster's pods reach it.

use std::{net::SocketAddr, path::Path, time::Duration};

use nogoo9_local::idp::{Idp, IdpConfig, IdpError, Pki};
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// An address of this machine that packets from outside could have, if there is one.
const EVERYWHERE: &str = "0.0.0.0:0";

fn open(dir: &Path, issuer: &str) -> Idp {
    let _already = rustls::crypto::ring::default_provider().install_default();
    Idp::open(IdpConfig {
        data_dir: dir.to_owned(),
        issuer: issuer.to_owned(),
        clients: Vec::new(),
        audience: "http://localhost:9009/mcp".to_owned(),
    })
    .unwrap()
}

fn pki(dir: &Path, addr: SocketAddr) -> Pki {
    Pki::ensure_for(&dir.join("tls"), "test", &[addr.ip()]).unwrap()
}

fn client(trusted: Option<&Pki>) -> reqwest::Client {
    let mut builder = reqwest::Client::builder().timeout(Duration::from_secs(60));
    if let Some(pki) = trusted {
        let ca = reqwest::Certificate::from_pem(pki.ca_pem().as_bytes()).unwrap();
        builder = builder.add_root_certificate(ca);
    }
    builder.build().unwrap()
}

#[tokio::test]
async fn who_trusts_its_authority_finds_an_https_issuer() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let issuer = format!("https://{addr}");
    let pki = pki(dir.path(), addr);
    let stop = CancellationToken::new();
    let idp = open(dir.path(), &issuer);
    let served = tokio::spawn({
        let (pki, stop) = (pki.clone(), stop.clone());
        async move { idp.serve_tls(listener, &pki, stop).await }
    });
    // Somebody who never says hello keeps nobody out.
    let silent = TcpStream::connect(addr).await.unwrap();
    let url = format!("{issuer}/.well-known/openid-configuration");
    let found: Value = client(Some(&pki))
        .get(&url)
        .send()
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(found["issuer"], issuer.as_str());
    assert_eq!(found["jwks_uri"], format!("{issuer}/jwks"));
    assert!(
        client(None).get(&url).send().await.is_err(),
        "trusted by a client that does not know its authority"
    );
    // At its next start it has the same authority.
    assert_eq!(self::pki(dir.path(), addr).ca_pem(), pki.ca_pem());
    stop.cancel();
    served.await.unwrap().unwrap();
    drop(silent);
}

#[tokio::test]
async fn it_listens_where_nobody_from_outside_comes() {
    let dir = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind(EVERYWHERE).await.unwrap();
    let pki = pki(dir.path(), listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let refused = open(dir.path(), "https://anywhere")
        .serve_tls(listener, &pki, stop)
        .await;
    assert!(
        matches!(refused, Err(IdpError::Reachable(_))),
        "{refused:?}"
    );
}
