//! Which proxies there are, by the EndpointSlices of a Service.
//!
//! Every endpoint counts for as long as it is listed, ready or not, since what matters is whether
//! somebody may still have something open through it: a proxy that is stopping serves its sockets to
//! the end, and one that is not ready may be a moment away from it.

use crate::cluster::Cluster;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::ResourceExt as _;
use nogoo9_watch::{Config, Watch};
use std::collections::BTreeSet;
use std::net::IpAddr;
use url::Url;

/// The label that ties an EndpointSlice to its Service.
const SERVICE: &str = "kubernetes.io/service-name";
/// Name of the proxies' admin port.
const PORT: &str = "admin";

/// A running watch on the proxies' Service. Dropping it ends it.
pub struct Discovery {
    service: String,
    slices: Watch<BTreeSet<Endpoint>>,
}

/// One endpoint of the Service.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Endpoint {
    /// A proxy's admin listener.
    Admin(Url),
    /// One that cannot be asked, and why.
    Odd(String),
}

/// The proxies that are known now.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Found {
    /// Admin listeners to ask.
    pub(super) urls: BTreeSet<Url>,
    /// What stands in for proxies that cannot be asked: each counts as one that does not answer.
    pub(super) silent: Vec<String>,
}

impl Discovery {
    /// Starts watching a Service in control's own namespace.
    #[must_use]
    pub fn start(cluster: &Cluster, service: &str) -> Self {
        let slices = Watch::start(
            cluster.endpoint_slices_api(),
            Config::labels(format!("{SERVICE}={service}")),
            |slice| Some(endpoints(&slice)),
            |_| {},
        );
        Self {
            service: service.to_owned(),
            slices,
        }
    }

    /// Resolves once the first list was taken in.
    pub async fn synced(&self) {
        self.slices.synced().await;
    }

    /// What is known now. Nothing known is no proof of absence: before the first list, and for a
    /// Service without endpoints, something stands in that gives no answer.
    pub(super) fn found(&self) -> Found {
        if !self.slices.status().is_synced() {
            let waiting = format!("Service {}: not listed yet", self.service);
            return Found {
                silent: vec![waiting],
                ..Found::default()
            };
        }
        // Several slices may name one endpoint while it moves between them.
        let slices = self.slices.store().list();
        let all: BTreeSet<&Endpoint> = slices.iter().flat_map(|slice| slice.iter()).collect();
        let mut found = Found::default();
        for endpoint in all {
            match endpoint {
                Endpoint::Admin(url) => {
                    found.urls.insert(url.clone());
                }
                Endpoint::Odd(why) => found
                    .silent
                    .push(format!("Service {}: {why}", self.service)),
            }
        }
        if found == Found::default() {
            found
                .silent
                .push(format!("Service {}: it has no endpoint", self.service));
        }
        found
    }
}

/// The endpoints that a slice names. Conditions are not looked at; see the module.
fn endpoints(slice: &EndpointSlice) -> BTreeSet<Endpoint> {
    let ports = slice.ports.as_deref().unwrap_or_default();
    let port = ports
        .iter()
        .find(|port| port.name.as_deref() == Some(PORT))
        .and_then(|port| port.port);
    // The addresses of one endpoint are the same pod's: the first is enough.
    let addresses = slice
        .endpoints
        .iter()
        .filter_map(|endpoint| endpoint.addresses.first());
    addresses
        .map(|address| match (port, address.parse::<IpAddr>()) {
            (None, _) => {
                Endpoint::Odd(format!("slice {} names no port '{PORT}'", slice.name_any()))
            }
            (_, Err(_)) => Endpoint::Odd(format!("'{address}' is no IP address")),
            (Some(port), Ok(ip)) => admin_url(ip, port).map_or_else(
                || Endpoint::Odd(format!("port {port} is none")),
                Endpoint::Admin,
            ),
        })
        .collect()
}

fn admin_url(ip: IpAddr, port: i32) -> Option<Url> {
    let port = u16::try_from(port).ok().filter(|port| *port != 0)?;
    Url::parse(&format!("http://{}/", std::net::SocketAddr::new(ip, port))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn read(slice: &Value) -> BTreeSet<Endpoint> {
        endpoints(&serde_json::from_value(slice.clone()).expect("an EndpointSlice"))
    }

    fn slice(endpoints: &Value, ports: &Value) -> Value {
        json!({"metadata": {"name": "proxy-x1"}, "addressType": "IPv4",
            "endpoints": endpoints, "ports": ports})
    }

    #[test]
    fn every_endpoint_counts_whatever_its_conditions() {
        let found = read(&slice(
            &json!([
                {"addresses": ["198.18.1.2"], "conditions": {"ready": true}},
                {"addresses": ["198.18.1.3"], "conditions": {"ready": false, "serving": false}},
                {"addresses": ["198.18.1.4"], "conditions": {"ready": false, "serving": true, "terminating": true}},
                {"addresses": ["fd00::5"]},
            ]),
            &json!([{"name": "http", "port": 9009}, {"name": "admin", "port": 9019}]),
        ));
        let urls: Vec<String> = found
            .iter()
            .map(|endpoint| match endpoint {
                Endpoint::Admin(url) => url.to_string(),
                Endpoint::Odd(why) => panic!("{why}"),
            })
            .collect();
        assert_eq!(
            urls,
            [
                "http://198.18.1.2:9019/",
                "http://198.18.1.3:9019/",
                "http://198.18.1.4:9019/",
                "http://[fd00::5]:9019/",
            ]
        );
    }

    #[test]
    fn what_cannot_be_asked_is_not_left_out() {
        let one = json!([{"addresses": ["198.18.1.2"]}]);
        let odd = |why: &str| BTreeSet::from([Endpoint::Odd(why.to_owned())]);
        let found = read(&slice(&one, &json!([{"name": "http", "port": 9009}])));
        assert_eq!(found, odd("slice proxy-x1 names no port 'admin'"));
        let found = read(&slice(&one, &json!([{"name": "admin", "port": 0}])));
        assert_eq!(found, odd("port 0 is none"));
        let named = json!([{"addresses": ["proxy.example.org"]}]);
        let found = read(&slice(&named, &json!([{"name": "admin", "port": 9019}])));
        assert_eq!(found, odd("'proxy.example.org' is no IP address"));
    }
}
