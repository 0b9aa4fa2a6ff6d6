//! The way from a proxy to the API server, which can be cut without either of them noticing.

use anyhow::Context as _;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use tempfile::NamedTempFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};
use url::Url;

/// Carries bytes while it is open; while it is cut they are kept. It ends with this value.
pub(super) struct Link {
    open: watch::Sender<bool>,
    kubeconfig: NamedTempFile,
    accepting: JoinHandle<()>,
}

impl Link {
    /// A way to the API server of this kubeconfig.
    pub(super) async fn to(kubeconfig: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(kubeconfig).context("kubeconfig")?;
        let (before, rest) = text.split_once("https://").context("a server")?;
        let end = rest.find(['"', '\n']).unwrap_or(rest.len());
        let (server, after) = rest.split_at(end);
        let url = Url::parse(&format!("https://{}", server.trim()))?;
        let api = *url
            .socket_addrs(|| None)?
            .first()
            .context("address of the API server")?;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let ours = listener.local_addr()?;
        let file = NamedTempFile::new()?;
        std::fs::write(file.path(), format!("{before}https://{ours}{after}"))?;
        let open = watch::Sender::new(true);
        Ok(Self {
            accepting: tokio::spawn(accept(listener, api, open.subscribe())),
            open,
            kubeconfig: file,
        })
    }

    /// What leads through it.
    pub(super) fn kubeconfig(&self) -> &Path {
        self.kubeconfig.path()
    }

    pub(super) fn cut(&self) {
        self.open.send_replace(false);
    }

    pub(super) fn mend(&self) {
        self.open.send_replace(true);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, api: SocketAddr, open: watch::Receiver<bool>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        let open = open.clone();
        connections.spawn(async move {
            let server = TcpStream::connect(api).await?;
            let (from_client, to_client) = tokio::io::split(client);
            let (from_server, to_server) = tokio::io::split(server);
            // Whichever side ends, ends both.
            tokio::select! {
                ended = carry(from_client, to_server, open.clone()) => ended,
                ended = carry(from_server, to_client, open) => ended,
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

async fn carry(
    mut from: ReadHalf<TcpStream>,
    mut to: WriteHalf<TcpStream>,
    mut open: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let read = from.read(&mut buffer).await?;
        // Also the end of a connection is not heard of while it is cut.
        if open.wait_for(|open| *open).await.is_err() || read == 0 {
            return Ok(());
        }
        to.write_all(buffer.get(..read).unwrap_or_default()).await?;
    }
}
