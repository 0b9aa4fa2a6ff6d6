//! The Lease by which one control of several is elected. Every write states the version it rests on.

use super::{Cluster, ClusterError, limited};
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::PostParams;

impl Cluster {
    /// A Lease of control's own namespace, read live.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub(crate) async fn lease(&self, name: &str) -> Result<Option<Lease>, ClusterError> {
        limited("read Lease", name, self.leases_api().get_opt(name)).await
    }

    /// Creates a Lease.
    ///
    /// # Errors
    /// `Exists` if there is one, or another [`ClusterError`].
    pub(crate) async fn create_lease(&self, lease: &Lease) -> Result<(), ClusterError> {
        let name = lease.metadata.name.clone().unwrap_or_default();
        let params = PostParams::default();
        limited(
            "create Lease",
            &name,
            self.leases_api().create(&params, lease),
        )
        .await
        .map(|_| ())
    }

    /// Replaces a Lease, if it still has the version that it states.
    ///
    /// # Errors
    /// `Conflict` if it has not, or another [`ClusterError`].
    pub(crate) async fn put_lease(&self, lease: &Lease) -> Result<(), ClusterError> {
        let name = lease.metadata.name.clone().unwrap_or_default();
        let params = PostParams::default();
        let api = self.leases_api();
        limited("write Lease", &name, api.replace(&name, &params, lease))
            .await
            .map(|_| ())
    }

    fn leases_api(&self) -> Api<Lease> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
