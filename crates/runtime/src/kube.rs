//! A Kubernetes client with deadlines, errors that name `--kubeconfig`, the API server's clock, and
//! what it says of how busy it is.

mod clock;
mod date;
mod pressure;

use std::{path::Path, time::Duration};

use ::kube::{
    Client, Config, ResourceExt as _,
    client::ClientBuilder,
    config::{KubeConfigOptions, Kubeconfig, KubeconfigError},
};

pub use clock::ServerClock;
use date::DateLayer;
pub use pressure::Pressure;
use pressure::PressureLayer;

/// Longest wait for a TCP and TLS connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Longest silence on a connection. Above the 60 s that a watch may run without an event
/// (ask for at most that), below the minutes for which a lost peer would go unnoticed.
const READ_TIMEOUT: Duration = Duration::from_secs(75);
/// Longest wait for a request to be taken.
const WRITE_TIMEOUT: Duration = Duration::from_secs(15);
/// Longest wait of [`Connection::check`].
const CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// Whether the client repeats requests that got 429, 503 or 504.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// Repeats any verb, POST too, up to 15 times: for reads and watches.
    On,
    /// Never: for leases, creates and deletes, where the caller must know what happened.
    Off,
}

/// A client of one cluster.
#[derive(Clone)]
pub struct Connection {
    /// The client.
    pub client: Client,
    /// Time as the API server tells it in each reply.
    pub clock: ServerClock,
    /// How long the API server wants to be left alone, by its replies.
    pub pressure: Pressure,
    config: Config,
    source: String,
}

/// The cluster cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum KubeError {
    /// The kubeconfig file cannot be read.
    #[error("--kubeconfig {path}: cannot be read: {source}; name an existing file")]
    Read {
        /// The file.
        path: String,
        /// What the operating system said.
        source: std::io::Error,
    },
    /// The kubeconfig file has no usable cluster and user.
    #[error(
        "--kubeconfig {path}: {reason}; try it with: kubectl --kubeconfig {path} get namespaces"
    )]
    Content {
        /// The file.
        path: String,
        /// What is wrong, without quoting the file, which holds credentials.
        reason: String,
    },
    /// No kubeconfig was named and none was found.
    #[error(
        "no cluster found: {reason}; run inside a pod with a service account, or name a file \
         with --kubeconfig"
    )]
    NotFound {
        /// What was tried.
        reason: String,
    },
    /// The client cannot be built from the configuration.
    #[error("{origin}: no client can be made of it: {reason}")]
    Client {
        /// Where the configuration came from.
        origin: String,
        /// What is wrong.
        reason: String,
    },
    /// The API server did not answer.
    #[error(
        "{origin}: the API server {url} does not answer: {reason}; check the address and that \
         the cluster runs"
    )]
    Unreachable {
        /// Where the configuration came from.
        origin: String,
        /// The server.
        url: String,
        /// What happened.
        reason: String,
    },
    /// The API server refused the credentials.
    #[error(
        "{origin}: the API server {url} refuses these credentials ({reason}); renew the token or \
         certificate"
    )]
    Refused {
        /// Where the configuration came from.
        origin: String,
        /// The server.
        url: String,
        /// What it said.
        reason: String,
    },
}

impl KubeError {
    /// Whether waiting may help: the server was not reached. False: the configuration or
    /// the credentials are wrong.
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Unreachable { .. })
    }
}

/// Builds a client: from the file, else from the pod's service account, else from
/// `KUBECONFIG` or `~/.kube/config`. Sends nothing; see [`Connection::check`].
///
/// # Errors
/// [`KubeError`], other than `Unreachable` and `Refused`.
pub async fn connect(kubeconfig: Option<&Path>, retry: Retry) -> Result<Connection, KubeError> {
    let (source, config) = match kubeconfig {
        Some(path) => (
            format!("--kubeconfig {}", path.display()),
            from_file(path).await?,
        ),
        None => from_environment().await?,
    };
    let (clock, pressure) = (ServerClock::new(), Pressure::new());
    Connection::new(source, config, clock, pressure, retry)
}

impl Connection {
    fn new(
        source: String,
        mut config: Config,
        clock: ServerClock,
        pressure: Pressure,
        retry: Retry,
    ) -> Result<Self, KubeError> {
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        config.read_timeout = Some(READ_TIMEOUT);
        config.write_timeout = Some(WRITE_TIMEOUT);
        // Else the time that a pooled connection lay idle counts against its next reply.
        config.reset_reader_on_write = true;
        config.default_retry = retry == Retry::On;
        let client = ClientBuilder::try_from(config.clone())
            .map_err(|e| KubeError::Client {
                origin: source.clone(),
                reason: e.to_string(),
            })?
            .with_layer(&DateLayer::new(clock.clone()))
            .with_layer(&PressureLayer::new(pressure.clone()))
            .build();
        Ok(Self {
            client,
            clock,
            pressure,
            config,
            source,
        })
    }

    /// A second client of the same cluster, on the same clock, that retries differently.
    ///
    /// # Errors
    /// As [`connect`]; cannot fail in practice, since this configuration worked before.
    pub fn with_retry(&self, retry: Retry) -> Result<Self, KubeError> {
        Self::new(
            self.source.clone(),
            self.config.clone(),
            self.clock.clone(),
            self.pressure.clone(),
            retry,
        )
    }

    /// The API server's URL.
    pub fn url(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// Asks the API server whether it answers and takes these credentials, by reading one
    /// object of `namespace` that every component may read: a list of at most one pod.
    /// Waits 10 s at most.
    ///
    /// # Errors
    /// `Unreachable` or `Refused`.
    pub async fn check(&self, namespace: &str) -> Result<(), KubeError> {
        let pods: ::kube::Api<k8s_openapi::api::core::v1::Pod> =
            ::kube::Api::namespaced(self.client.clone(), namespace);
        let params = ::kube::api::ListParams::default().limit(1);
        let unreachable = |reason| KubeError::Unreachable {
            origin: self.source.clone(),
            url: self.url(),
            reason,
        };
        match tokio::time::timeout(CHECK_TIMEOUT, pods.list(&params)).await {
            Ok(Ok(list)) => {
                let seen = list.items.first().map(|pod| pod.name_any());
                tracing::debug!(pod = seen, "API server answered");
                Ok(())
            }
            Ok(Err(::kube::Error::Api(status))) if matches!(status.code, 401 | 403) => {
                Err(KubeError::Refused {
                    origin: self.source.clone(),
                    url: self.url(),
                    reason: status.message.clone(),
                })
            }
            Ok(Err(error)) => Err(unreachable(deepest(&error))),
            Err(_) => Err(unreachable(format!(
                "no reply within {} s",
                CHECK_TIMEOUT.as_secs()
            ))),
        }
    }
}

/// The innermost cause: "connection refused" rather than "client error (Connect)".
fn deepest(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

async fn from_file(path: &Path) -> Result<Config, KubeError> {
    let name = path.display().to_string();
    // Parsed from text that we read, and not by `Kubeconfig::read_from`: that one quotes
    // the file, tokens and all, in its parse errors. Relative certificate paths are
    // resolved as kubectl does.
    let text = tokio::fs::read_to_string(path)
        .await
        .map_err(|source| KubeError::Read {
            path: name.clone(),
            source,
        })?;
    let content = |reason: String| KubeError::Content {
        path: name.clone(),
        reason,
    };
    let mut parsed = Kubeconfig::from_yaml(&text).map_err(|e| content(safe(&e)))?;
    absolute_paths(&mut parsed, path);
    Config::from_custom_kubeconfig(parsed, &KubeConfigOptions::default())
        .await
        .map_err(|e| content(safe(&e)))
}

/// The error without any of the file's text.
fn safe(error: &KubeconfigError) -> String {
    match error {
        KubeconfigError::Parse(yaml) => match yaml.location() {
            Some(at) => format!("is not a kubeconfig: YAML error in line {}", at.line()),
            None => "is not a kubeconfig: YAML error".to_owned(),
        },
        other => other.to_string(),
    }
}

fn absolute_paths(config: &mut Kubeconfig, file: &Path) {
    let Some(folder) = file.parent() else { return };
    let fix = |path: &mut Option<String>| {
        if let Some(p) = path {
            *p = folder.join(&*p).to_string_lossy().into_owned();
        }
    };
    for named in &mut config.clusters {
        if let Some(cluster) = &mut named.cluster {
            fix(&mut cluster.certificate_authority);
        }
    }
    for named in &mut config.auth_infos {
        if let Some(auth) = &mut named.auth_info {
            fix(&mut auth.client_certificate);
            fix(&mut auth.client_key);
            fix(&mut auth.token_file);
        }
    }
}

async fn from_environment() -> Result<(String, Config), KubeError> {
    let in_cluster = match Config::incluster() {
        Ok(config) => return Ok(("the pod's service account".to_owned(), config)),
        Err(e) => e.to_string(),
    };
    match Config::from_kubeconfig(&KubeConfigOptions::default()).await {
        Ok(config) => Ok(("the default kubeconfig".to_owned(), config)),
        Err(e) => Err(KubeError::NotFound {
            reason: format!("{in_cluster}; {}", safe(&e)),
        }),
    }
}
