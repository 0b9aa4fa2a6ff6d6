//! The public URL of a real cluster: a TCP forwarder from loopback to the proxy's pods, as a load
//! balancer in front of them would be.

use anyhow::Context as _;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::ListParams;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// Longest time to reach a pod; a pod that is gone may not refuse.
const CONNECT: Duration = Duration::from_secs(2);
/// How often a connection looks for a pod before it is given up.
const TRIES: usize = 40;
/// Between two looks.
const LOOK: Duration = Duration::from_millis(250);
/// Longest look at the endpoints; an API server that has lost its store does not answer.
const ASK: Duration = Duration::from_secs(2);

/// Endpoints of a Service, found anew whenever they are asked for.
#[derive(Clone)]
pub(super) struct Endpoints {
    slices: Api<EndpointSlice>,
    service: String,
    port: String,
}

impl std::fmt::Debug for Endpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.service, self.port)
    }
}

impl Endpoints {
    /// Those of a Service's named port.
    pub(super) fn new(slices: Api<EndpointSlice>, service: &str, port: &str) -> Self {
        Self {
            slices,
            service: service.to_owned(),
            port: port.to_owned(),
        }
    }

    /// Addresses of its ready pods.
    pub(super) async fn ready(&self) -> anyhow::Result<Vec<SocketAddr>> {
        let of_service = format!("kubernetes.io/service-name={}", self.service);
        let params = ListParams::default().labels(&of_service);
        let slices = self.slices.list(&params).await.context("endpoints")?;
        let mut found = Vec::new();
        for slice in slices.items {
            let ports = slice.ports.iter().flatten();
            let port = ports
                .filter(|port| port.name.as_deref() == Some(self.port.as_str()))
                .find_map(|port| u16::try_from(port.port?).ok());
            let Some(port) = port else { continue };
            for endpoint in slice.endpoints {
                let ready = endpoint.conditions.and_then(|c| c.ready).unwrap_or(true);
                let addresses = endpoint.addresses.iter().filter(|_| ready);
                found.extend(
                    addresses
                        .filter_map(|address| address.parse::<IpAddr>().ok())
                        .map(|ip| SocketAddr::new(ip, port)),
                );
            }
        }
        Ok(found)
    }
}

/// The running forwarder. Ends with this value, and every connection with it.
#[derive(Debug)]
pub(super) struct Forwarder {
    looks: JoinHandle<()>,
    forwards: JoinHandle<()>,
}

impl Forwarder {
    /// Takes connections at `listen` to the endpoints in turn.
    pub(super) async fn start(listen: SocketAddr, endpoints: Endpoints) -> anyhow::Result<Self> {
        let listener = TcpListener::bind(listen)
            .await
            .with_context(|| format!("{listen}, where the public URL must lead"))?;
        let (tell, known) = watch::channel(endpoints.ready().await?);
        Ok(Self {
            looks: tokio::spawn(look(endpoints, tell)),
            forwards: tokio::spawn(forward(listener, known)),
        })
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.looks.abort();
        self.forwards.abort();
    }
}

/// Keeps the known endpoints fresh. While the API server is away the last ones stay, as they do with
/// every load balancer: a proxy goes on without it, and so must the way there.
async fn look(endpoints: Endpoints, known: watch::Sender<Vec<SocketAddr>>) {
    while !known.is_closed() {
        if let Ok(Ok(found)) = tokio::time::timeout(ASK, endpoints.ready()).await {
            known.send_replace(found);
        }
        tokio::time::sleep(LOOK).await;
    }
}

async fn forward(listener: TcpListener, known: watch::Receiver<Vec<SocketAddr>>) {
    let turn = Arc::new(AtomicUsize::new(0));
    let mut connections = JoinSet::new();
    loop {
        let Ok((mut near, _)) = listener.accept().await else {
            // That client is gone, or there are too many; the next one is no worse off.
            tokio::time::sleep(LOOK).await;
            continue;
        };
        let (known, turn) = (known.clone(), Arc::clone(&turn));
        connections.spawn(async move {
            if let Some(mut far) = dial(&known, &turn).await {
                let _nodelay = (near.set_nodelay(true), far.set_nodelay(true));
                // However it ends: both sides see it.
                let _ended = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            }
        });
        while connections.try_join_next().is_some() {}
    }
}

/// While proxies roll there may be a moment without one.
async fn dial(known: &watch::Receiver<Vec<SocketAddr>>, turn: &AtomicUsize) -> Option<TcpStream> {
    for _ in 0..TRIES {
        let found = known.borrow().clone();
        for _ in 0..found.len() {
            let next = turn.fetch_add(1, Ordering::Relaxed) % found.len();
            let Some(address) = found.get(next) else {
                continue;
            };
            let dialled = tokio::time::timeout(CONNECT, TcpStream::connect(address)).await;
            if let Ok(Ok(stream)) = dialled {
                return Some(stream);
            }
        }
        tokio::time::sleep(LOOK).await;
    }
    None
}
