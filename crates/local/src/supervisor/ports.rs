//! The ports of the parts: chosen once, kept, so that kubeconfigs and the issuer of tokens
//! stay valid over restarts.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    time::Duration,
};

use serde::{Deserialize, Serialize};

use super::{DataDir, UpError, data_dir::read_json};

const FILE: &str = "ports.json";
/// Below the range that Linux takes for outgoing connections (32768 and up): a connection
/// must not be able to sit on the port of a child that is just being started again.
const LOWEST: u16 = 20_000;
const HIGHEST: u16 = 32_000;
/// Tries to find a free one.
const TRIES: usize = 200;
/// After a kill, the old children may hold their ports for a moment.
const RELEASE_TRIES: usize = 40;
const RELEASE_PAUSE: Duration = Duration::from_millis(50);

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Kept {
    listen: Option<u16>,
    issuer: Option<u16>,
    api_server: Option<u16>,
    control: Option<u16>,
    control_admin: Option<u16>,
    proxy_admin: Option<u16>,
}

/// The ports of this start, each held by a socket until its owner is started.
#[derive(Debug)]
pub(super) struct Ports {
    pub(super) listen: Reserved,
    pub(super) issuer: Reserved,
    pub(super) api_server: Reserved,
    pub(super) control: Reserved,
    pub(super) control_admin: Reserved,
    pub(super) proxy_admin: Reserved,
}

/// An address that nobody else can take meanwhile.
#[derive(Debug)]
pub(super) struct Reserved {
    addr: SocketAddr,
    held: Option<TcpListener>,
}

impl Reserved {
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Gives the address up for its owner to bind.
    pub(super) fn release(&mut self) {
        self.held = None;
    }

    /// Hands the socket itself over.
    pub(super) fn take(&mut self) -> Option<TcpListener> {
        self.held.take()
    }

    fn held(listener: TcpListener) -> std::io::Result<Self> {
        Ok(Self {
            addr: listener.local_addr()?,
            held: Some(listener),
        })
    }
}

/// Takes the kept ports, or chooses new ones, and keeps them.
///
/// `listen` with port 0 means "any, but always the same"; another port must be free.
pub(super) async fn reserve(dir: &DataDir, listen: SocketAddr) -> Result<Ports, UpError> {
    let file = dir.file(FILE);
    let mut kept: Kept = read_json(&file)?.unwrap_or_default();
    let listen = if listen.port() == 0 {
        let reserved = any(kept.listen, listen.ip()).await?;
        kept.listen = Some(reserved.addr().port());
        reserved
    } else {
        exact(listen).await?
    };
    let local = Ipv4Addr::LOCALHOST.into();
    let issuer = match kept.issuer {
        // It stands in every token and session.
        Some(port) => kept_issuer(port, &file).await?,
        None => choose(local)?,
    };
    let ports = Ports {
        listen,
        issuer,
        api_server: any(kept.api_server, local).await?,
        control: any(kept.control, local).await?,
        control_admin: any(kept.control_admin, local).await?,
        proxy_admin: any(kept.proxy_admin, local).await?,
    };
    kept.issuer = Some(ports.issuer.addr().port());
    kept.api_server = Some(ports.api_server.addr().port());
    kept.control = Some(ports.control.addr().port());
    kept.control_admin = Some(ports.control_admin.addr().port());
    kept.proxy_admin = Some(ports.proxy_admin.addr().port());
    let json = serde_json::to_vec_pretty(&kept).map_err(|e| UpError::System(e.to_string()))?;
    dir.write(FILE, &json)?;
    Ok(ports)
}

async fn kept_issuer(port: u16, file: &Path) -> Result<Reserved, UpError> {
    let addr = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    patiently(addr).await.map_err(|_| UpError::KeptPort {
        port,
        file: file.to_owned(),
    })
}

/// The kept port if it is free, else a new one.
async fn any(kept: Option<u16>, ip: std::net::IpAddr) -> Result<Reserved, UpError> {
    if let Some(port) = kept {
        match patiently(SocketAddr::new(ip, port)).await {
            Ok(reserved) => return Ok(reserved),
            Err(error) => tracing::warn!(port, %error, "kept port is taken; choosing another"),
        }
    }
    choose(ip)
}

async fn exact(addr: SocketAddr) -> Result<Reserved, UpError> {
    patiently(addr).await.map_err(|source| {
        UpError::Listen(nogoo9_runtime::listen::ListenError {
            flag: "listen",
            addr,
            source,
        })
    })
}

async fn patiently(addr: SocketAddr) -> std::io::Result<Reserved> {
    let mut last = bind(addr);
    for _ in 0..RELEASE_TRIES {
        match &last {
            Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => {}
            _ => break,
        }
        tokio::time::sleep(RELEASE_PAUSE).await;
        last = bind(addr);
    }
    last
}

fn choose(ip: std::net::IpAddr) -> Result<Reserved, UpError> {
    for _ in 0..TRIES {
        let random = getrandom::u32().map_err(|e| UpError::System(e.to_string()))?;
        let span = u32::from(HIGHEST - LOWEST);
        let port = LOWEST + u16::try_from(random % span).unwrap_or_default();
        if let Ok(reserved) = bind(SocketAddr::new(ip, port)) {
            return Ok(reserved);
        }
    }
    Err(UpError::NoPort(LOWEST, HIGHEST))
}

/// std sets SO_REUSEADDR, as the owners will: closed connections are no obstacle.
fn bind(addr: SocketAddr) -> std::io::Result<Reserved> {
    TcpListener::bind(addr).and_then(Reserved::held)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn ports_are_kept_and_the_issuers_is_defended() {
        let tmp = tempfile::tempdir().unwrap();
        let dir = DataDir::open(tmp.path()).unwrap();
        let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        let all = |p: &Ports| {
            [
                &p.listen,
                &p.issuer,
                &p.api_server,
                &p.control,
                &p.control_admin,
                &p.proxy_admin,
            ]
            .map(|r| r.addr().port())
        };
        let first = reserve(&dir, any).await.unwrap();
        let before = all(&first);
        drop(first);
        let second = reserve(&dir, any).await.unwrap();
        assert_eq!(all(&second), before);
        drop(second);

        let addr = |port| SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
        let taken = TcpListener::bind(addr(before[3])).unwrap();
        let third = reserve(&dir, any).await.unwrap();
        assert_ne!(all(&third)[3], before[3]);
        assert_eq!(all(&third)[..3], before[..3]);
        drop((third, taken));

        let _taken = TcpListener::bind(addr(before[1])).unwrap();
        let error = reserve(&dir, any).await.unwrap_err();
        assert!(matches!(error, UpError::KeptPort { .. }), "{error}");
        let _other = TcpListener::bind(addr(before[0])).unwrap();
        let error = reserve(&dir, addr(before[0])).await.unwrap_err();
        assert!(
            error.to_string().starts_with("--listen 127.0.0.1:"),
            "{error}"
        );
    }
}
