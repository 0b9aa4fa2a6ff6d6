//! A web site of https, with a document about each client (the id of a client is its address).

use anyhow::Context as _;
use nogoo9_local::idp::Pki;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::json;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::task::AbortOnDropHandle;

/// The running site. Ends with this value.
pub(super) struct Documents {
    address: SocketAddr,
    folder: TempDir,
    _serve: AbortOnDropHandle<()>,
}

impl Documents {
    pub(super) async fn publish() -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        Pki::ensure_for(folder.path(), "documents of clients", &[loopback])?;
        let acceptor = acceptor(folder.path())?;
        let listener = TcpListener::bind((loopback, 0)).await?;
        let address = listener.local_addr()?;
        let serve = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                // One at a time: there is one reader.
                let _over = answer(stream, &acceptor, address).await;
            }
        });
        Ok(Self {
            address,
            folder,
            _serve: AbortOnDropHandle::new(serve),
        })
    }

    /// The authority that vouches for it.
    pub(super) fn authority(&self) -> PathBuf {
        self.folder.path().join("ca.crt")
    }

    /// The id of a client that may or may not be given refresh tokens.
    pub(super) fn client(&self, name: &str, refreshes: bool) -> String {
        let kind = if refreshes { "refreshing" } else { "plain" };
        format!("https://{}/{kind}/{name}.json", self.address)
    }
}

fn acceptor(folder: &Path) -> anyhow::Result<TlsAcceptor> {
    let read = |name: &str| std::fs::read(folder.join(name));
    let certificate = CertificateDer::from_pem_slice(&read("server.crt")?)?;
    let key = PrivateKeyDer::from_pem_slice(&read("server.key")?)?;
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)?;
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn answer(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    address: SocketAddr,
) -> anyhow::Result<()> {
    let mut stream = BufReader::new(acceptor.accept(stream).await?);
    let mut first = String::new();
    stream.read_line(&mut first).await?;
    let path = first.split(' ').nth(1).context("no path")?.to_owned();
    let mut line = String::new();
    while !matches!(line.as_str(), "\r\n") {
        line.clear();
        anyhow::ensure!(stream.read_line(&mut line).await? > 0, "no end of headers");
    }
    let mut grants = vec!["authorization_code"];
    grants.extend(path.starts_with("/refreshing/").then_some("refresh_token"));
    let document = json!({
        "client_id": format!("https://{address}{path}"),
        "client_name": "A client with a document",
        "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": grants,
        "token_endpoint_auth_method": "none",
    })
    .to_string();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n",
        document.len()
    );
    stream.write_all((head + &document).as_bytes()).await?;
    stream.shutdown().await?;
    Ok(())
}
