//! An embedded Kubernetes API server: enough of the real one that kube-rs and kubectl work
//! unmodified against it, with state on disk.
//!
//! Kinds: pods (with `status`, `binding`, `eviction`, `log`), nodes, namespaces, configmaps, secrets,
//! persistentvolumeclaims, serviceaccounts, events (in both groups), resourcequotas, leases,
//! endpointslices. Not offered: exec, port-forward, server-side apply, CRDs, webhooks, garbage
//! collection by owner.
//!
//! A request goes through [`http`](self::http) (method, path, token) to a verb, which runs as one
//! transaction in the [`store`](self::store)'s writer: admission, validation, conflict rules and
//! storage happen together, so no other check can be outrun. A write is durable before its reply.
//! Rules of kinds are pure functions over JSON values (`pods`, `strategy`, `quota`, `patch`,
//! `selectors`, `table`).
//!
//! Beside it run what a cluster's control plane runs beside its API server: a scheduler, the
//! binding and protection of claims, and the care for nodes that fall silent.

mod auth;
mod binding;
mod claims;
mod discovery;
mod disk;
mod events;
mod eviction;
mod failure;
mod housekeeping;
mod http;
mod involved;
mod listing;
mod logs;
mod names;
mod nodes;
mod object;
mod patch;
mod pods;
mod protobuf;
mod quota;
mod registry;
mod removal;
mod request;
mod scheduler;
mod selectors;
mod server;
mod service;
mod store;
mod strategy;
mod table;
mod taints;
mod tx;
mod typed;
mod validate;
mod watch;
mod writing;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use data_encoding::BASE64;
use serde_json::json;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

pub use crate::pki::{Pki, PkiError};
pub use auth::Tokens;
pub use disk::DiskError;

/// Namespaces that exist from the start and stay.
const BUILT_IN_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// What the server needs to know.
#[derive(Debug, Clone)]
pub struct ApiServerConfig {
    /// Folder of `state.redb`, `pki/`, and the kubelet's `pods/` with the logs.
    pub data_dir: PathBuf,
    /// Where to listen; port 0 takes a free one, see [`Bound::address`].
    pub listen: SocketAddr,
    /// Who may ask.
    pub tokens: Tokens,
}

/// Four heartbeats of a kubelet, as in a real cluster.
pub const DEFAULT_NODE_GRACE: Duration = Duration::from_secs(40);

/// Why the server cannot start or go on.
#[derive(Debug, Error)]
pub enum ApiServerError {
    /// The data directory cannot be made.
    #[error("cannot make the data directory {path}: {source}; choose another by --data-dir")]
    DataDir {
        /// The folder.
        path: String,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The state file cannot be used.
    #[error("cannot use {path}: {source}; is another instance running with this --data-dir?")]
    State {
        /// The file.
        path: String,
        /// What went wrong.
        source: DiskError,
    },
    /// There is no usable certificate.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; choose another address by --listen")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What went wrong.
        source: std::io::Error,
    },
    /// The objects that every cluster has cannot be made.
    #[error("cannot make the built-in namespaces: {0}")]
    Bootstrap(String),
}

/// A server that listens and does not serve yet.
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    tls: TlsAcceptor,
    store: store::Store,
    config: ApiServerConfig,
    pki: Pki,
    node_grace: Duration,
}

/// Opens the state and listens. Connections wait until [`Bound::serve`] runs.
///
/// # Errors
/// When the data directory, the certificate or the address cannot be used.
pub async fn bind(config: ApiServerConfig) -> Result<Bound, ApiServerError> {
    std::fs::create_dir_all(&config.data_dir).map_err(|source| ApiServerError::DataDir {
        path: config.data_dir.display().to_string(),
        source,
    })?;
    let pki = Pki::ensure(&config.data_dir)?;
    let tls = TlsAcceptor::from(Arc::new(pki.server_config()?));
    let path = config.data_dir.join("state.redb");
    let store = store::Store::open(&path).map_err(|source| ApiServerError::State {
        path: path.display().to_string(),
        source,
    })?;
    let listen_error = |source| ApiServerError::Listen {
        address: config.listen,
        source,
    };
    let listener = TcpListener::bind(config.listen)
        .await
        .map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    housekeeping::bootstrap(&store)
        .await
        .map_err(|failure| ApiServerError::Bootstrap(failure.status().to_string()))?;
    Ok(Bound {
        listener,
        address,
        tls,
        store,
        config,
        pki,
        node_grace: DEFAULT_NODE_GRACE,
    })
}

impl Bound {
    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The certificate of the authority, PEM.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        self.pki.ca_pem()
    }

    /// Sets how long a kubelet may say nothing before its node counts as lost, instead of
    /// [`DEFAULT_NODE_GRACE`].
    #[must_use]
    pub fn with_node_grace(self, node_grace: Duration) -> Self {
        Self { node_grace, ..self }
    }

    /// Serves until `shutdown`; then ends watches, finishes requests in flight and closes the
    /// state, so that another instance can open it.
    pub async fn serve(self, shutdown: CancellationToken) {
        // Its own token: dropping this future must stop the background tasks too.
        let stop = shutdown.child_token();
        let _stop_at_drop = stop.clone().drop_guard();
        let store = Arc::new(self.store);
        let api = Arc::new(http::Api {
            store: Arc::clone(&store),
            data_dir: self.config.data_dir,
            tokens: self.config.tokens,
            address: self.address,
            shutdown: stop.clone(),
        });
        tracing::info!(address = %self.address, version = store.version(), "API server ready");
        tokio::join!(
            server::run(self.listener, self.tls, api),
            scheduler::run(Arc::clone(&store), stop.clone()),
            claims::run(Arc::clone(&store), stop.clone()),
            nodes::run(Arc::clone(&store), self.node_grace, stop.clone()),
            housekeeping::run(Arc::clone(&store), stop.clone()),
        );
        store.close().await;
        tracing::info!("API server stopped");
    }
}

/// Binds and serves until `shutdown`.
///
/// # Errors
/// When the server cannot start.
pub async fn serve(
    config: ApiServerConfig,
    shutdown: CancellationToken,
) -> Result<(), ApiServerError> {
    let bound = bind(config).await?;
    bound.serve(shutdown).await;
    Ok(())
}

/// A kubeconfig for kubectl and kube-rs, as YAML. It holds the token: keep the file private.
#[must_use]
pub fn kubeconfig(server: SocketAddr, ca_pem: &str, token: &str, namespace: &str) -> String {
    // JSON is YAML; strings are quoted by the serialiser, so no value can break out of its place.
    let config = json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "nogoo9",
        "clusters": [{"name": "nogoo9", "cluster": {
            "server": format!("https://{server}"),
            "certificate-authority-data": BASE64.encode(ca_pem.as_bytes()),
        }}],
        "users": [{"name": "nogoo9", "user": {"token": token}}],
        "contexts": [{"name": "nogoo9", "context": {
            "cluster": "nogoo9", "user": "nogoo9", "namespace": namespace,
        }}],
    });
    format!("{config:#}\n")
}
