//! Pods of alice's, and requests of her browser.

use super::Stage;
use crate::client::{Answer, Connection, own, request};
use crate::cluster::Spec;
use crate::upstream::Upstream;

impl Stage {
    /// A pod of alice's with a server behind it, once the proxy routes to it; and its uid.
    pub(crate) async fn serving(
        &self,
        name: &str,
        workspace: &str,
        generation: u32,
    ) -> (Upstream, String) {
        let app = Upstream::start(name).await;
        let pod = Spec::new(name, workspace, generation, app.address);
        let uid = self.run(&pod).await;
        (app, uid)
    }

    /// Runs a pod, until the proxy routes to it; returns its uid.
    pub(crate) async fn run(&self, pod: &Spec<'_>) -> String {
        let uid = self.cluster.run(pod).await;
        self.routed(pod.workspace, Some(&uid)).await;
        uid
    }

    /// One that is not ready, once the proxy knows of it.
    pub(crate) async fn starting<'a>(
        &self,
        name: &'a str,
        workspace: &'a str,
    ) -> (Upstream, Spec<'a>) {
        let app = Upstream::start(name).await;
        let pod = Spec::new(name, workspace, 1, app.address);
        self.cluster.create(&pod).await;
        self.routed(workspace, None).await;
        (app, pod)
    }

    /// `GET` as alice's browser does inside her workspace.
    pub(crate) async fn get(&self, workspace: &str, path: &str) -> Answer {
        let (host, cookie) = self.alice(workspace);
        self.ask("GET", &host, path, &own(&cookie)).await
    }

    /// Sends a request of alice's browser inside her workspace, and leaves the answer to be read.
    pub(crate) async fn begin(
        &self,
        method: &str,
        workspace: &str,
        path: &str,
        body: &str,
    ) -> Connection {
        let (host, cookie) = self.alice(workspace);
        let length = body.len().to_string();
        let mut headers = own(&cookie).to_vec();
        if !body.is_empty() {
            headers.push(("Content-Length", &length));
        }
        let mut connection = Connection::open(self.address).await;
        connection
            .send(format!("{}{body}", request(method, &host, path, &headers)))
            .await;
        connection
    }

    pub(crate) async fn ask(
        &self,
        method: &str,
        host: &str,
        path: &str,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut connection = Connection::open(self.address).await;
        let mut all = headers.to_vec();
        all.push(("Connection", "close"));
        connection.send(request(method, host, path, &all)).await;
        connection.answer().await
    }
}
