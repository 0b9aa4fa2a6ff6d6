//! Watches, resource versions, and what a restart leaves of them.

use std::collections::BTreeMap;

use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::Client;
use kube::api::{
    Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::runtime::watcher;
use serde_json::json;

use crate::support::*;

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), NAMESPACE)
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"k": "0"}})).unwrap()
}

async fn set(maps: &Api<ConfigMap>, name: &str, value: &str) -> u64 {
    let patch = json!({"data": {"k": value}});
    let map = maps
        .patch(name, &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    map.metadata.resource_version.unwrap().parse().unwrap()
}

/// All events of a watch that ends by its timeout of one second.
async fn events(pods: &Api<Pod>, params: WatchParams, version: &str) -> Vec<String> {
    let stream = pods.watch(&params.timeout(1), version).await.unwrap();
    let events: Vec<WatchEvent<Pod>> = tokio::time::timeout(LONG, stream.try_collect())
        .await
        .unwrap()
        .unwrap();
    events
        .into_iter()
        .map(|event| match event {
            WatchEvent::Added(p) => format!("added {}", p.metadata.name.unwrap()),
            WatchEvent::Modified(p) => format!("modified {}", p.metadata.name.unwrap()),
            WatchEvent::Deleted(p) => format!("deleted {}", p.metadata.name.unwrap()),
            WatchEvent::Bookmark(b) => format!("bookmark {}", b.metadata.resource_version),
            WatchEvent::Error(e) => format!("error {} {}", e.code, e.reason),
        })
        .collect()
}

#[tokio::test]
async fn events_come_in_order_and_selectors_turn_leaving_into_deletion() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let client = server.client().await;
    make_namespace(&client).await;
    let pods = pods(&client);
    let params = PostParams::default();
    let start = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();
    let relabel = |value: &str| Patch::Merge(json!({"metadata": {"labels": {"app": value}}}));
    // Other schedulers' pods, so that nothing else writes here.
    let quiet = |name: &str| pod_with(name, |p| p["spec"]["schedulerName"] = "none".into());
    pods.create(&params, &quiet("a")).await.unwrap();
    pods.create(&params, &quiet("b")).await.unwrap();
    pods.patch("a", &PatchParams::default(), &relabel("x"))
        .await
        .unwrap();
    pods.patch("a", &PatchParams::default(), &relabel("w"))
        .await
        .unwrap();
    pods.delete("b", &DeleteParams::default()).await.unwrap();
    let end = pods
        .list(&ListParams::default())
        .await
        .unwrap()
        .metadata
        .resource_version
        .unwrap();

    let none = WatchParams {
        bookmarks: false,
        ..WatchParams::default()
    };
    assert_eq!(
        events(&pods, none.clone(), &start).await,
        [
            "added a",
            "added b",
            "modified a",
            "modified a",
            "deleted b"
        ]
    );
    assert_eq!(
        events(&pods, none.clone().labels("app=w"), &start).await,
        ["added a", "added b", "deleted a", "added a", "deleted b"]
    );
    assert_eq!(
        events(&pods, none.clone().fields("metadata.name=b"), &start).await,
        ["added b", "deleted b"]
    );
    assert_eq!(
        events(&pods, none.clone(), &end).await,
        Vec::<String>::new()
    );
    assert_eq!(events(&pods, none, "0").await, ["added a"]);
    // A watch that ends by itself leaves a bookmark to go on from.
    assert_eq!(
        events(&pods, WatchParams::default(), &end).await,
        [format!("bookmark {end}")]
    );
    // A version from the future is another life's.
    assert_eq!(
        events(&pods, WatchParams::default(), "99999999").await,
        ["error 410 Expired"]
    );
    server.stop().await;
}

/// Follows a watcher until it shows the wanted state; counts its full lists.
async fn follow(
    stream: &mut (
             impl futures::Stream<Item = Result<watcher::Event<ConfigMap>, watcher::Error>> + Unpin
         ),
    state: &mut BTreeMap<String, String>,
    wanted: impl Fn(&BTreeMap<String, String>) -> bool,
) -> usize {
    let mut lists = 0;
    let mut fresh = BTreeMap::new();
    let entry = |map: ConfigMap| (map.metadata.name.unwrap(), map.data.unwrap()["k"].clone());
    tokio::time::timeout(LONG, async {
        while !wanted(state) {
            // A lost connection is an error in between; the watcher goes on by itself.
            match stream.next().await.expect("goes on") {
                Ok(watcher::Event::Init) => fresh = BTreeMap::new(),
                Ok(watcher::Event::InitApply(map)) => fresh.extend([entry(map)]),
                Ok(watcher::Event::InitDone) => {
                    lists += 1;
                    *state = std::mem::take(&mut fresh);
                }
                Ok(watcher::Event::Apply(map)) => state.extend([entry(map)]),
                Ok(watcher::Event::Delete(map)) => {
                    state.remove(&map.metadata.name.unwrap());
                }
                Err(_) => {}
            }
        }
    })
    .await
    .unwrap_or_else(|_| panic!("the watcher stays at {state:?}"));
    lists
}

/// A port that stays free while its server is away: below the range that Linux gives to outgoing
/// connections. It is bound to and not listened at: processes that are started have a copy of what is
/// open until they run their own program, and whoever listens has the port for himself.
fn free_port() -> u16 {
    loop {
        let port = 20_000 + u16::try_from(getrandom::u32().unwrap() % 12_000).unwrap();
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_reuseaddr(true).unwrap();
        if socket.bind(([127, 0, 0, 1], port).into()).is_ok() {
            return port;
        }
    }
}

#[tokio::test]
async fn a_watcher_survives_a_restart_on_the_same_data() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_on(dir.path(), free_port()).await;
    let client = server.client().await;
    make_namespace(&client).await;
    let (port, ca) = (server.address.port(), server.ca.clone());
    let maps = maps(&client);
    maps.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    maps.create(&PostParams::default(), &config_map("b"))
        .await
        .unwrap();
    let before = set(&maps, "a", "1").await;

    let fast = kube::runtime::watcher::DefaultBackoff::default();
    let stream = watcher(maps.clone(), watcher::Config::default());
    let mut stream = std::pin::pin!(kube::runtime::WatchStreamExt::backoff(stream, fast));
    let mut state = BTreeMap::new();
    let lists = follow(&mut stream, &mut state, |s| s.len() == 2).await;
    assert_eq!(lists, 1);
    assert_eq!(state["a"], "1");

    server.stop().await;
    let server = Server::start_on(dir.path(), port).await;
    assert_eq!(server.ca, ca, "the certificate is kept");
    maps.delete("b", &DeleteParams::default()).await.unwrap();
    let after = set(&maps, "a", "2").await;
    assert!(after > before, "{after} after {before}");
    follow(&mut stream, &mut state, |s| s.len() == 1 && s["a"] == "2").await;
    server.stop().await;
}

#[tokio::test]
async fn a_version_that_left_the_log_is_gone_and_watchers_list_again() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let client = server.client().await;
    make_namespace(&client).await;
    let maps = maps(&client);
    maps.create(&PostParams::default(), &config_map("a"))
        .await
        .unwrap();
    let old = set(&maps, "a", "old").await;
    // More changes than the log holds, by writers that commit together.
    let writers = (0..32).map(|writer| {
        let maps = maps.clone();
        async move {
            for n in 0..40 {
                set(&maps, "a", &format!("{writer}-{n}")).await;
            }
        }
    });
    futures::future::join_all(writers).await;

    let stream = maps
        .watch(&WatchParams::default().timeout(5), &old.to_string())
        .await
        .unwrap();
    let events: Vec<WatchEvent<ConfigMap>> = stream.try_collect().await.unwrap();
    assert_eq!(events.len(), 1);
    let WatchEvent::Error(error) = &events[0] else {
        panic!("{events:?}")
    };
    assert_eq!((error.code, error.reason.as_str()), (410, "Expired"));
    assert!(
        error.message.starts_with("too old resource version: "),
        "{}",
        error.message
    );

    // kube's watcher starts from a list and follows.
    let mut stream = std::pin::pin!(watcher(maps.clone(), watcher::Config::default()));
    let mut state = BTreeMap::new();
    follow(&mut stream, &mut state, |s| s.len() == 1).await;
    set(&maps, "a", "end").await;
    follow(&mut stream, &mut state, |s| s["a"] == "end").await;
    server.stop().await;
}

#[tokio::test]
async fn streaming_lists_end_with_a_marked_bookmark() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(dir.path()).await;
    let client = server.client().await;
    make_namespace(&client).await;
    let maps = maps(&client);
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name))
            .await
            .unwrap();
    }
    let mut stream = std::pin::pin!(watcher(
        maps.clone(),
        watcher::Config::default().streaming_lists()
    ));
    let mut state = BTreeMap::new();
    assert_eq!(follow(&mut stream, &mut state, |s| s.len() == 3).await, 1);
    set(&maps, "b", "9").await;
    follow(&mut stream, &mut state, |s| s["b"] == "9").await;
    server.stop().await;
}
