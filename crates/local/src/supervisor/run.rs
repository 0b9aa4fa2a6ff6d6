//! Starting in order, watching over it, stopping in order.

use std::{path::PathBuf, time::Duration};

use nogoo9_runtime::{
    kube::{Connection, Retry, connect},
    shutdown::Shutdown,
};
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    CLIENT_ID, DataDir, MCP_CLIENT_ID, Part, UpError, UpOptions, WORKSPACES_NAMESPACE, banner,
    check_listen,
    cluster::{self, Kubeconfigs},
    components::Wiring,
    keeper::{Keeper, Launch},
    logs::Sink,
    ports::{self, Ports},
    ready::{INSTANCE_FILE, Instance, Pids, READY_FILE, Ready, probe},
    spawner::Spawner,
};
use crate::{
    files,
    idp::{Client, Idp, IdpConfig},
    kubelet::{self, KubeletConfig, LocalImages},
};

/// How long a child may take to become ready.
const START_BOUND: Duration = Duration::from_secs(60);
/// Pause between two looks at a starting child.
const LOOK: Duration = Duration::from_millis(50);
/// Deaths before a child is ready that are put up with: a killed instance's children may
/// hold files and ports for a moment.
const START_DEATHS: u32 = 5;
/// How long the kubelet may take to stop all pods.
const KUBELET_BOUND: Duration = Duration::from_secs(15);
/// Where MCP clients wait for their code, on whatever port.
const MCP_REDIRECTS: [&str; 4] = [
    "http://127.0.0.1/callback",
    "http://localhost/callback",
    "http://127.0.0.1/",
    "http://localhost/",
];
/// Name of the node, and of the log of this process.
const NODE: &str = "local";
const UP: &str = "up";

/// Runs everything until a signal comes, then stops it in order.
///
/// # Errors
/// [`UpError`]: what was started is stopped again before it returns.
pub async fn up(options: UpOptions, dir: DataDir, shutdown: Shutdown) -> Result<(), UpError> {
    check_listen(options.listen)?;
    let mut instance = Up {
        options,
        dir,
        shutdown,
        parts: Parts::default(),
    };
    let ended = tokio::select! {
        biased;
        () = instance.shutdown.graceful.clone().cancelled_owned() => Ok(()),
        ended = instance.run() => ended,
    };
    instance.stop().await;
    ended
}

struct Up {
    options: UpOptions,
    dir: DataDir,
    shutdown: Shutdown,
    parts: Parts,
}

/// What runs, in the order of starting.
#[derive(Default)]
struct Parts {
    api_server: Option<Keeper>,
    kubelet: Option<InProcess>,
    idp: Option<InProcess>,
    control: Option<Keeper>,
    proxy: Option<Keeper>,
}

/// A part that is a task of this process.
struct InProcess {
    stop: CancellationToken,
    task: JoinHandle<Result<(), UpError>>,
}

impl Up {
    /// Starts all parts and watches over them. Whatever was started is in `parts`, so that
    /// this can be dropped at any point.
    async fn run(&mut self) -> Result<(), UpError> {
        // A killed instance leaves its ready files, which would speak for us too early.
        self.unpublish();
        let mut ports = ports::reserve(&self.dir, self.options.listen).await?;
        let spawner = Spawner::start().map_err(|e| UpError::System(e.to_string()))?;
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(Duration::from_secs(2))
            .build()
            .map_err(|e| UpError::System(e.to_string()))?;
        let kubeconfigs = self.kubeconfigs(&ports)?;
        let options = self.options.clone();
        let data_dir = self.dir.path().to_owned();
        let wiring = Wiring {
            options: &options,
            data_dir: &data_dir,
            listen: ports.listen.addr(),
            api_server: ports.api_server.addr(),
            control: ports.control.addr(),
            control_admin: ports.control_admin.addr(),
            proxy_admin: ports.proxy_admin.addr(),
            issuer: format!("http://{}", ports.issuer.addr()),
            admin_token: self.dir.admin_token()?,
            control_kubeconfig: kubeconfigs.control.clone(),
            proxy_kubeconfig: kubeconfigs.proxy.clone(),
        };
        let ready = self.describe(&wiring, &kubeconfigs);
        self.remember(&ready)?;

        if options.kubeconfig.is_none() {
            ports.api_server.release();
            let keeper = self.child(wiring.api_server(), &spawner).await?;
            self.parts.api_server = Some(keeper);
        }
        let connection = connect(Some(&kubeconfigs.admin), Retry::On).await?;
        self.cluster(&connection).await?;
        if options.kubeconfig.is_none() {
            self.parts.kubelet = Some(self.kubelet(&connection));
        }
        self.parts.idp = Some(self.idp(&mut ports, &wiring).await?);

        ports.control.release();
        ports.control_admin.release();
        if !options.without.contains(&Part::Control) {
            let control = self.child(wiring.control(), &spawner).await?;
            self.parts.control = Some(control);
        }
        ports.listen.release();
        ports.proxy_admin.release();
        if !options.without.contains(&Part::Proxy) {
            let proxy = self.child(wiring.proxy(), &spawner).await?;
            self.parts.proxy = Some(proxy);
        }
        // The proxy is not ready before control is: it waits for its keys.
        if let Some(keeper) = &self.parts.control {
            self.await_ready(keeper, &http, &ready.admin_control)
                .await?;
            if let Some(keeper) = &self.parts.proxy {
                self.await_ready(keeper, &http, &ready.admin_proxy).await?;
            }
        }

        self.publish(&ready)?;
        banner::print(
            &ready,
            super::default_data_dir().as_deref() != Some(self.dir.path()),
        );
        self.watch(ready).await
    }

    fn kubeconfigs(&self, ports: &Ports) -> Result<Kubeconfigs, UpError> {
        match &self.options.kubeconfig {
            Some(path) => Kubeconfigs::given(path),
            None => {
                let tokens = self.dir.api_tokens()?;
                Kubeconfigs::embedded(&self.dir, ports.api_server.addr(), &tokens)
            }
        }
    }

    fn describe(&self, wiring: &Wiring<'_>, kubeconfigs: &Kubeconfigs) -> Ready {
        let url = wiring.url();
        Ready {
            workspace_url: format!("http://{{id}}.localhost:{}/", wiring.listen.port()),
            mcp_url: format!("{url}/mcp"),
            url,
            issuer: wiring.issuer.clone(),
            kubeconfig: kubeconfigs.admin.clone(),
            admin_proxy: format!("http://{}", wiring.proxy_admin),
            admin_control: format!("http://{}", wiring.control_admin),
            admin_token_file: wiring.admin_token.clone(),
            data_dir: self.dir.path().to_owned(),
            pids: Pids::default(),
            commands: self
                .options
                .without
                .iter()
                .map(|part| {
                    let launch = match part {
                        Part::Control => wiring.control(),
                        Part::Proxy => wiring.proxy(),
                    };
                    (launch.name.to_owned(), launch.unguarded())
                })
                .collect(),
        }
    }

    /// What `nogoo9 token` needs, also while nothing runs.
    fn remember(&self, ready: &Ready) -> Result<(), UpError> {
        let instance = Instance {
            url: ready.url.clone(),
            issuer: ready.issuer.clone(),
            audience: ready.mcp_url.clone(),
        };
        let json =
            serde_json::to_vec_pretty(&instance).map_err(|e| UpError::System(e.to_string()))?;
        self.dir.write(INSTANCE_FILE, &json).map(drop)
    }

    async fn child(&self, launch: Launch, spawner: &Spawner) -> Result<Keeper, UpError> {
        let sink = Sink::new(launch.name, self.dir.log(launch.name)?);
        let force = self.shutdown.force.clone();
        Keeper::start(launch, sink, spawner.clone(), force).await
    }

    /// Waits for the API server and puts in what local mode needs.
    async fn cluster(&self, connection: &Connection) -> Result<(), UpError> {
        let deadline = Instant::now() + START_BOUND;
        while let Err(error) = connection.check(WORKSPACES_NAMESPACE).await {
            // A cluster of somebody else's runs or does not; ours has only just been started.
            let Some(keeper) = &self.parts.api_server else {
                return Err(error.into());
            };
            if !error.is_transient() {
                return Err(error.into());
            }
            self.look(keeper, deadline, &error.to_string())?;
            tokio::time::sleep(LOOK).await;
        }
        cluster::namespaces(&connection.client).await?;
        if self.parts.api_server.is_some() {
            cluster::templates(&connection.client).await?;
        }
        Ok(())
    }

    fn kubelet(&self, connection: &Connection) -> InProcess {
        let programs = &self.options.programs;
        let config = KubeletConfig {
            client: connection.client.clone(),
            node_name: NODE.to_owned(),
            data_dir: self.dir.path().to_owned(),
            shim: vec![programs.nogoo9.clone().into(), "pod-shim".into()],
            images: LocalImages::new()
                .with("nogoo9-sample", &programs.sample)
                .nothing("nogoo9-nothing"),
        };
        let stop = CancellationToken::new();
        let kubelet = kubelet::run(config, stop.clone());
        InProcess {
            stop,
            task: tokio::spawn(async move { kubelet.await.map_err(UpError::from) }),
        }
    }

    async fn idp(&self, ports: &mut Ports, wiring: &Wiring<'_>) -> Result<InProcess, UpError> {
        let url = wiring.url();
        let config = IdpConfig {
            data_dir: self.dir.path().to_owned(),
            issuer: wiring.issuer.clone(),
            clients: vec![
                Client {
                    id: CLIENT_ID.to_owned(),
                    redirect_uris: vec![format!("{url}/auth/callback")],
                },
                Client {
                    id: MCP_CLIENT_ID.to_owned(),
                    redirect_uris: MCP_REDIRECTS.map(str::to_owned).to_vec(),
                },
            ],
            audience: format!("{url}/mcp"),
        };
        let idp = Idp::open_trusting(config, self.options.client_ca.as_deref())?;
        let addr = ports.issuer.addr();
        let listener = match ports.issuer.take() {
            Some(held) => listener(held).map_err(|e| UpError::System(e.to_string()))?,
            None => nogoo9_runtime::listen::bind("issuer", addr).await?,
        };
        let stop = CancellationToken::new();
        let serve = idp.serve(listener, stop.clone());
        Ok(InProcess {
            stop,
            task: tokio::spawn(async move { serve.await.map_err(UpError::from) }),
        })
    }

    async fn await_ready(
        &self,
        keeper: &Keeper,
        http: &reqwest::Client,
        admin: &str,
    ) -> Result<(), UpError> {
        let deadline = Instant::now() + START_BOUND;
        while let Err(reason) = probe(http, admin).await {
            self.look(keeper, deadline, &reason)?;
            tokio::time::sleep(LOOK).await;
        }
        Ok(())
    }

    /// Whether it is worth waiting on for a child that is not ready for `reason`.
    fn look(&self, keeper: &Keeper, deadline: Instant, reason: &str) -> Result<(), UpError> {
        let name = keeper.name;
        let status = keeper.status.borrow().clone();
        if status.misconfigured || status.deaths >= START_DEATHS {
            return Err(UpError::NotStarting {
                name,
                reason: status.last_end.unwrap_or_default(),
                tail: keeper.sink.tail(),
                log: self.dir.log_path(name),
            });
        }
        if Instant::now() >= deadline {
            return Err(UpError::NotReady {
                name,
                seconds: START_BOUND.as_secs(),
                reason: reason.to_owned(),
                log: self.dir.log_path(name),
            });
        }
        Ok(())
    }

    /// Keeps the ready files true until a part of this process ends, which it should not.
    async fn watch(&mut self, mut ready: Ready) -> Result<(), UpError> {
        let mut children: Vec<_> = [
            &self.parts.api_server,
            &self.parts.control,
            &self.parts.proxy,
        ]
        .into_iter()
        .flatten()
        .map(|keeper| keeper.status.clone())
        .collect();
        loop {
            let pids = self.pids();
            if pids != ready.pids {
                ready.pids = pids;
                self.publish(&ready)?;
            }
            let changes = children.iter_mut().map(|status| Box::pin(status.changed()));
            let changed = async {
                match changes.len() {
                    0 => std::future::pending().await,
                    _ => futures::future::select_all(changes).await,
                }
            };
            tokio::select! {
                _ = changed => {}
                ended = end_of(&mut self.parts.kubelet) => return self.ended("kubelet", ended),
                ended = end_of(&mut self.parts.idp) => return self.ended("identity provider", ended),
            }
        }
    }

    fn ended(&mut self, name: &'static str, ended: Result<(), UpError>) -> Result<(), UpError> {
        ended?;
        Err(UpError::Ended {
            name,
            log: self.dir.log_path(UP),
        })
    }

    fn pids(&self) -> Pids {
        let pid = |keeper: &Option<Keeper>| keeper.as_ref().and_then(|k| k.status.borrow().pid);
        Pids {
            up: std::process::id(),
            apiserver: pid(&self.parts.api_server),
            control: pid(&self.parts.control),
            proxy: pid(&self.parts.proxy),
        }
    }

    fn publish(&self, ready: &Ready) -> Result<(), UpError> {
        let ready = Ready {
            pids: self.pids(),
            ..ready.clone()
        };
        let json = serde_json::to_vec_pretty(&ready).map_err(|e| UpError::System(e.to_string()))?;
        self.dir.write(READY_FILE, &json)?;
        match &self.options.ready_file {
            Some(path) => files::write_private(path, &json).map_err(|source| UpError::ReadyFile {
                path: path.clone(),
                source,
            }),
            None => Ok(()),
        }
    }

    /// Stops what runs, newest first: no request may meet a part that is already gone.
    async fn stop(&mut self) {
        self.unpublish();
        tracing::info!("stopping");
        let parts = std::mem::take(&mut self.parts);
        for keeper in [parts.proxy, parts.control].into_iter().flatten() {
            keeper.stop().await;
        }
        if let Some(kubelet) = parts.kubelet {
            stop_in_process("kubelet", kubelet, &self.shutdown.force).await;
        }
        if let Some(api_server) = parts.api_server {
            api_server.stop().await;
        }
        if let Some(idp) = parts.idp {
            stop_in_process("identity provider", idp, &self.shutdown.force).await;
        }
    }

    fn unpublish(&self) {
        let own = self.dir.file(READY_FILE);
        for path in [Some(&own), self.options.ready_file.as_ref()]
            .into_iter()
            .flatten()
        {
            remove(path);
        }
    }
}

fn remove(path: &PathBuf) {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            tracing::warn!(path = %path.display(), %error, "ready file stays");
        }
        _ => {}
    }
}

/// Completes when a part of this process ends; never, if there is none.
async fn end_of(part: &mut Option<InProcess>) -> Result<(), UpError> {
    match part {
        Some(part) => match (&mut part.task).await {
            Ok(ended) => ended,
            Err(error) => Err(UpError::System(error.to_string())),
        },
        None => std::future::pending().await,
    }
}

async fn stop_in_process(name: &'static str, part: InProcess, force: &CancellationToken) {
    if part.task.is_finished() {
        return;
    }
    part.stop.cancel();
    let abort = part.task.abort_handle();
    let ended = tokio::select! {
        ended = tokio::time::timeout(KUBELET_BOUND, part.task) => ended.is_ok(),
        () = force.cancelled() => false,
    };
    if !ended {
        tracing::warn!(part = name, "part does not end in time");
        abort.abort();
    }
}

fn listener(held: std::net::TcpListener) -> std::io::Result<tokio::net::TcpListener> {
    held.set_nonblocking(true)?;
    tokio::net::TcpListener::from_std(held)
}
