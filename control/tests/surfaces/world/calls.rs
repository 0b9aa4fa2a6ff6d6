//! What control asks of the API server, written down or held back.

use super::{WORKSPACES, World};
use http::Request;
use kube::Client;
use kube::client::Body;
use nogoo9_runtime::kube::{Retry, connect};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;

/// In the paths of access tokens' Secrets.
const TOKEN: &str = "/nogoo9-pat-";
/// What was asked of the API server about single objects, as `METHOD path`.
#[derive(Clone, Default)]
pub(crate) struct Calls(Arc<Mutex<Vec<String>>>, watch::Sender<bool>);

impl Calls {
    fn hear(&self, request: &Request<Body>) {
        let (path, query) = (request.uri().path(), request.uri().query());
        // What goes on by itself: watches, and looking who leads.
        let watches = query.is_some_and(|query| query.contains("watch="));
        if !watches && !path.contains("/leases") {
            let call = format!("{} {path}", request.method());
            self.0.lock().unwrap().push(call);
        }
    }

    /// Lets no look-up of an access token through from now on, or all again.
    pub(crate) fn hold_tokens(&self, hold: bool) {
        self.1.send_replace(hold);
    }

    async fn pass(&self, path: String) {
        if path.contains(TOKEN) {
            let mut held = self.1.subscribe();
            held.wait_for(|held| !held).await.unwrap();
        }
    }

    /// How many look-ups of access tokens there are.
    pub(crate) fn tokens(&self) -> usize {
        let calls = self.0.lock().unwrap();
        calls.iter().filter(|call| call.contains(TOKEN)).count()
    }

    /// Those since the last time.
    pub(crate) fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl World {
    /// Another control, whose calls of the API server are written down. It does not lead, so that what
    /// it asks of single objects is asked for somebody.
    pub(crate) async fn overheard(&self, flags: &[&str]) -> (String, Calls) {
        let mut connection = connect(Some(&self.kubeconfig), Retry::Off).await.unwrap();
        let calls = Calls::default();
        let (client, heard) = (connection.client.clone(), calls.clone());
        let overheard = tower::service_fn(move |request: Request<Body>| {
            heard.hear(&request);
            let (client, heard) = (client.clone(), heard.clone());
            async move {
                heard.pass(request.uri().path().to_owned()).await;
                client.send(request).await
            }
        });
        connection.client = Client::new(overheard, WORKSPACES);
        let url = self.another_on(connection, &self.issuer, flags).await;
        (url, calls)
    }
}
