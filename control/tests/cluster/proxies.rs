//! Proxies found by the EndpointSlices of a Service: who is asked, and what counts as silence.

use crate::support::{Faults, SYSTEM, Site};
use axum::extract::Query;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::get;
use axum::{Json, Router};
use futures::future::join_all;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use nogoo9_control::upgrade::{Discovery, Proxies};
use nogoo9_model::upgrade::ProxyReport;
use nogoo9_model::wire::Sessions;
use nogoo9_runtime::secret::Secret;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::{Instant, sleep};
use tokio_util::task::AbortOnDropHandle;
use url::Url;

const SERVICE: &str = "nogoo9-proxy-admin";
const TOKEN: &str = "the-token-that-proxies-ask-for";
/// Longest wait for the watch to hear of a change.
const PATIENCE: Duration = Duration::from_secs(60);

/// What the proxies of these tests say, by workspace.
async fn sessions(
    headers: HeaderMap,
    Query(query): Query<HashMap<String, String>>,
) -> Result<Json<Sessions>, StatusCode> {
    let token = headers.get("authorization").map(|value| value.as_bytes());
    if token != Some(format!("Bearer {TOKEN}").as_bytes()) {
        return Err(StatusCode::UNAUTHORIZED);
    }
    let active = Some(format!("pod of {}", query["workspace"]));
    Ok(Json(Sessions {
        active,
        ..Sessions::default()
    }))
}

/// A proxy's admin listener.
async fn proxy(address: SocketAddr) -> (SocketAddr, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = Router::new().route("/sessions", get(sessions));
    let serve = async move { axum::serve(listener, router).await.unwrap() };
    (address, AbortOnDropHandle::new(tokio::spawn(serve)))
}

fn slice(name: &str, service: &str, port: u16, endpoints: &Value) -> EndpointSlice {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
        "addressType": "IPv4",
        "endpoints": endpoints,
        "ports": [{"name": "admin", "port": port, "protocol": "TCP"}],
    }))
    .unwrap()
}

/// Who answered, and who did not.
fn split(reports: &[ProxyReport]) -> [Vec<&str>; 2] {
    [true, false].map(|answered| {
        reports
            .iter()
            .filter(|report| report.answer.is_some() == answered)
            .map(|report| report.proxy.as_str())
            .collect()
    })
}

/// Asks until these have answered and these have not.
async fn until(proxies: &Proxies, answered: &[&str], silent: &[&str]) -> Vec<ProxyReport> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let reports = proxies.reports("dev").await;
        if split(&reports) == [answered, silent] {
            return reports;
        }
        assert!(Instant::now() < deadline, "{:?}", split(&reports));
        sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn every_listed_proxy_is_asked_and_none_is_forgotten() {
    let site = Site::start().await;
    let slices: Api<EndpointSlice> = Api::namespaced(site.admin.clone(), SYSTEM);
    let (first, _one) = proxy(([127, 64, 0, 1], 0).into()).await;
    let port = first.port();
    let (_, two) = proxy(([127, 64, 0, 2], port).into()).await;
    let url = |last: u8| format!("http://127.64.0.{last}:{port}/");

    let discovery = Arc::new(Discovery::start(&site.cluster(&Faults::default()), SERVICE));
    let proxies = Proxies::new(Vec::new(), Some(Secret::new(TOKEN)))
        .unwrap()
        .discovered_by(discovery.clone());
    // The watch has had no chance to run: this test's only thread has not waited since.
    let [answered, silent] = [
        Vec::<&str>::new(),
        vec!["Service nogoo9-proxy-admin: not listed yet"],
    ];
    assert_eq!(split(&proxies.reports("dev").await), [answered, silent]);
    discovery.synced().await;
    // A Service without endpoints, or a wrong name: nobody says that nothing is open.
    until(
        &proxies,
        &[],
        &["Service nogoo9-proxy-admin: it has no endpoint"],
    )
    .await;

    let leaving = json!({"ready": false, "serving": false, "terminating": true});
    let both = json!([
        {"addresses": ["127.64.0.1"], "conditions": {"ready": true}},
        {"addresses": ["127.64.0.2"], "conditions": leaving},
    ]);
    let create = PostParams::default();
    let made = slice("proxy-a", SERVICE, port, &both);
    slices.create(&create, &made).await.unwrap();
    // Another Service's endpoints are none of ours.
    let other = json!([{"addresses": ["127.64.0.3"]}]);
    let made = slice("other-a", "nogoo9-proxy", port, &other);
    slices.create(&create, &made).await.unwrap();
    let reports = until(&proxies, &[&url(1), &url(2)], &[]).await;
    let said = reports[0].answer.as_ref().unwrap();
    assert_eq!(said.active.as_deref(), Some("pod of dev"));

    // One that is gone without a word counts for as long as it is listed, here by two slices.
    drop(two);
    let made = slice(
        "proxy-b",
        SERVICE,
        port,
        &json!([{"addresses": ["127.64.0.2"]}]),
    );
    slices.create(&create, &made).await.unwrap();
    until(&proxies, &[&url(1)], &[&url(2)]).await;
    slices
        .delete("proxy-b", &DeleteParams::default())
        .await
        .unwrap();
    until(&proxies, &[&url(1)], &[&url(2)]).await;
    let alone = json!({"endpoints": [{"addresses": ["127.64.0.1"]}]});
    let params = PatchParams::default();
    slices
        .patch("proxy-a", &params, &Patch::Merge(&alone))
        .await
        .unwrap();
    until(&proxies, &[&url(1)], &[]).await;

    // Without the token there is no answer.
    let strangers = Proxies::new(Vec::new(), None)
        .unwrap()
        .discovered_by(discovery.clone());
    until(&strangers, &[], &[&url(1)]).await;
    // Those that a flag names are asked as well, each once.
    let named = format!("http://127.64.0.1:{port}").parse().unwrap();
    let too = Proxies::new(vec![named], Some(Secret::new(TOKEN)))
        .unwrap()
        .discovered_by(discovery);
    until(&too, &[&url(1)], &[]).await;
}

/// A proxy that takes connections and never says a word, as one whose node is cut off in the middle
/// of everything: it counts who has knocked.
async fn mute(address: SocketAddr) -> (SocketAddr, Arc<AtomicUsize>, AbortOnDropHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let address = listener.local_addr().unwrap();
    let knocked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&knocked);
    let listen = async move {
        let mut open = Vec::new();
        loop {
            open.push(listener.accept().await.unwrap());
            count.fetch_add(1, Ordering::Relaxed);
        }
    };
    (
        address,
        knocked,
        AbortOnDropHandle::new(tokio::spawn(listen)),
    )
}

#[tokio::test]
async fn one_that_is_cut_off_holds_up_nobody_and_is_heard_once_it_is_back() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let (well, _well) = proxy(([127, 64, 1, 1], 0).into()).await;
    let (address, knocked, cut_off) = mute(([127, 64, 1, 2], 0).into()).await;
    let url = |address: SocketAddr| Url::parse(&format!("http://{address}")).unwrap();
    let urls = vec![url(well), url(address)];
    let proxies = Proxies::new(urls, Some(Secret::new(TOKEN))).unwrap();
    let (well, cut) = (url(well).to_string(), url(address).to_string());
    let silent = |reports: &[ProxyReport]| split(reports)[1].contains(&cut.as_str());
    assert!(silent(&proxies.reports("dev").await));
    // However many workspaces drain at once, at most one of them waits for it.
    let many: Vec<String> = (0..20).map(|n| format!("dev-{n}")).collect();
    for reports in join_all(many.iter().map(|id| proxies.reports(id))).await {
        assert!(silent(&reports), "{reports:?}");
    }
    assert!(knocked.load(Ordering::Relaxed) <= 2, "{knocked:?}");

    cut_off.abort();
    // Its listener is closed once it has ended.
    assert!(cut_off.await.is_err());
    let (_, _back) = proxy(address).await;
    until(&proxies, &[&well, &cut], &[]).await;
}
