//! What a proxy says of itself on its admin listener.

use super::{Partner, Stage, TOKEN};
use crate::client::{Connection, request};
use crate::eventually;
use std::net::SocketAddr;

impl Stage {
    pub(crate) async fn is_ready(&self) -> bool {
        is_ready_at(self.admin).await
    }

    /// JSON of the admin listener.
    pub(crate) async fn admin(&self, path: &str) -> serde_json::Value {
        admin_at(self.admin, path).await
    }

    /// All metrics, as they are scraped.
    pub(crate) async fn metrics(&self) -> String {
        metrics_at(self.admin).await
    }

    /// A metric without labels.
    pub(crate) async fn metric(&self, name: &str) -> i64 {
        let text = self.metrics().await;
        let prefix = format!("nogoo9_proxy_{name} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
        line.unwrap_or_else(|| panic!("no {name} in:\n{text}"))
            .parse()
            .unwrap()
    }

    /// Waits until the proxy routes a workspace to the pod of that uid; `None`: to no pod.
    pub(crate) async fn routed(&self, workspace: &str, uid: Option<&str>) {
        routed_at(self.admin, workspace, uid).await;
    }

    /// Waits until that many requests are held.
    pub(crate) async fn held(&self, count: i64) {
        eventually("held requests", || async {
            self.metric("held_requests").await == count
        })
        .await;
    }
}

impl Partner {
    pub(crate) async fn routed(&self, workspace: &str, uid: &str) {
        routed_at(self.admin, workspace, Some(uid)).await;
    }

    pub(crate) async fn metrics(&self) -> String {
        metrics_at(self.admin).await
    }
}

async fn admin_at(admin: SocketAddr, path: &str) -> serde_json::Value {
    let mut connection = Connection::open(admin).await;
    let token = format!("Bearer {TOKEN}");
    connection
        .send(request(
            "GET",
            "admin",
            path,
            &[("Authorization", &token), ("Connection", "close")],
        ))
        .await;
    let answer = connection.answer().await;
    assert_eq!(answer.status, 200, "{}", answer.text());
    serde_json::from_slice(&answer.body).unwrap()
}

async fn metrics_at(admin: SocketAddr) -> String {
    let mut connection = Connection::open(admin).await;
    connection
        .send(request(
            "GET",
            "admin",
            "/metrics",
            &[("Connection", "close")],
        ))
        .await;
    connection.answer().await.text()
}

async fn routed_at(admin: SocketAddr, workspace: &str, uid: Option<&str>) {
    eventually("the route", || async {
        let routes = admin_at(admin, "/routes").await;
        let entry = &routes["routes"][workspace];
        match uid {
            Some(uid) => entry["active"] == uid,
            None => entry.is_object() && entry.get("active").is_none(),
        }
    })
    .await;
}

pub(super) async fn is_ready_at(admin: SocketAddr) -> bool {
    let Ok(stream) = tokio::net::TcpStream::connect(admin).await else {
        return false;
    };
    let mut connection = Connection {
        stream,
        buffer: Vec::new(),
    };
    connection
        .send(request(
            "GET",
            "admin",
            "/readyz",
            &[("connection", "close")],
        ))
        .await;
    connection.answer().await.status == 200
}
