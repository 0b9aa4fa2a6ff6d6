//! Claims of workspaces: made before the pod that mounts them, deleted only with their workspace's
//! data, never changed.

use super::{Cluster, ClusterError, CreateAnswer, Stored, limited};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams, Preconditions};
use nogoo9_model::claim::{self, PlannedClaim};
use nogoo9_model::container::Trouble;
use nogoo9_model::keys;
use nogoo9_model::mode::Claim;
use nogoo9_model::record::Record;
use nogoo9_model::upgrade::{Refusal, Refused};
use serde_json::Value;

impl Cluster {
    fn claims_api(&self) -> Api<PersistentVolumeClaim> {
        Api::namespaced(self.client.clone(), &self.workspaces)
    }

    /// What is known of a claim in the workspaces' namespace. One that does not exist yet is what
    /// it is `planned` to be; whatever else prevents reading it makes it unreadable, which is the
    /// careful answer.
    pub async fn claim(&self, name: &str, planned: Option<&PlannedClaim>) -> Claim {
        let modes = match limited("read claim", name, self.claims_api().get_opt(name)).await {
            // The status names what the volume can do; a claim that is not bound yet only has wishes.
            Ok(Some(found)) => found
                .status
                .and_then(|status| status.access_modes)
                .or_else(|| found.spec.and_then(|spec| spec.access_modes)),
            Ok(None) => planned.and_then(|planned| {
                let modes = planned.spec.get("accessModes")?.as_array()?;
                Some(
                    modes
                        .iter()
                        .filter_map(|m| m.as_str().map(ToOwned::to_owned))
                        .collect(),
                )
            }),
            Err(_) => None,
        };
        modes.map_or(Claim::Unreadable, |modes| access(&modes))
    }

    /// Makes the claims that this pod of the workspace mounts, where they are missing. It may be
    /// repeated after a crash: names are functions of the record, and what exists stays as it is.
    ///
    /// # Errors
    /// [`ClusterError`], never `Exists` or `Rejected`: those are the answer. `Unavailable` while a
    /// former claim of the name is still being deleted.
    pub async fn ensure_claims(
        &self,
        record: &Record,
        pod: &Value,
    ) -> Result<CreateAnswer, ClusterError> {
        for planned in record.claims_of(pod) {
            if let Some(trouble) = self.ensure_claim(record, planned).await? {
                let name = pod.pointer("/metadata/name").and_then(Value::as_str);
                return Ok(CreateAnswer::Refused(Refused {
                    pod: name.unwrap_or_default().to_owned(),
                    why: Refusal::Rejected(trouble),
                }));
            }
        }
        Ok(CreateAnswer::There)
    }

    /// Makes one claim; says how it was refused, if it was.
    async fn ensure_claim(
        &self,
        record: &Record,
        planned: &PlannedClaim,
    ) -> Result<Option<Trouble>, ClusterError> {
        let api = self.claims_api();
        let name = planned.object.as_str();
        if let Some(there) = limited("read claim", name, api.get_opt(name)).await? {
            return usable(record, planned, &there);
        }
        let object = parse(record, planned)?;
        match limited(
            "create claim",
            name,
            api.create(&PostParams::default(), &object),
        )
        .await
        {
            Ok(_) => {
                tracing::info!(workspace = record.id, claim = name, "claim created");
                Ok(None)
            }
            Err(ClusterError::Rejected { trouble, .. }) => Ok(Some(trouble)),
            // Another controller was faster, with the same claim.
            Err(ClusterError::Exists { .. }) => {
                match limited("read claim", name, api.get_opt(name)).await? {
                    Some(there) => usable(record, planned, &there),
                    None => Err(busy(planned, "it went while it was looked at")),
                }
            }
            Err(error) => Err(error),
        }
    }

    /// Whether the API server would take the claims that this pod mounts, without creating them.
    ///
    /// # Errors
    /// `Rejected`, with the API server's own words, or another [`ClusterError`].
    pub async fn try_claims(&self, record: &Record, pod: &Value) -> Result<(), ClusterError> {
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        for planned in record.claims_of(pod) {
            let object = parse(record, planned)?;
            let name = planned.object.as_str();
            match limited(
                "check claim",
                name,
                self.claims_api().create(&params, &object),
            )
            .await
            {
                Ok(_) | Err(ClusterError::Exists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Deletes the claims that `before` lists as unused and `after` does not, where no volume was
    /// ever bound to them: they hold nothing.
    ///
    /// # Errors
    /// `Conflict` if the record is not the one that was read any more, or if a claim was changed
    /// in between: then it may have been bound. Or another [`ClusterError`]. Those deleted before it
    /// stay deleted.
    pub async fn drop_unbound_claims(
        &self,
        read: &Stored<Record>,
        after: &Record,
    ) -> Result<(), ClusterError> {
        let api = self.claims_api();
        let before = &read.value;
        let gone = before
            .unused_claims
            .iter()
            .filter(|claim| !after.unused_claims.contains(claim));
        for planned in gone {
            let name = planned.object.as_str();
            let Some(there) = limited("read claim", name, api.get_opt(name)).await? else {
                continue;
            };
            let bound = there
                .spec
                .as_ref()
                .is_some_and(|spec| spec.volume_name.is_some());
            if bound || !belongs(before, &there) {
                continue;
            }
            self.still(read).await?;
            self.delete_claim(before, &there).await?;
        }
        Ok(())
    }

    /// Deletes one claim, if it is still the one that was read; it goes once no pod uses it.
    async fn delete_claim(
        &self,
        record: &Record,
        claim: &PersistentVolumeClaim,
    ) -> Result<bool, ClusterError> {
        let name = claim.metadata.name.as_deref().unwrap_or_default();
        let params = DeleteParams {
            preconditions: Some(Preconditions {
                uid: claim.metadata.uid.clone(),
                resource_version: claim.metadata.resource_version.clone(),
            }),
            ..DeleteParams::default()
        };
        match limited(
            "delete claim",
            name,
            self.claims_api().delete(name, &params),
        )
        .await
        {
            Ok(_) => {
                tracing::info!(workspace = record.id, claim = name, "claim deleted");
                Ok(true)
            }
            Err(ClusterError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Deletes every claim of the workspace and its owner, also those that no version of its
    /// template names any more. They go once no pod uses them.
    ///
    /// # Errors
    /// `Conflict` if the record is not the one that was read any more, or another
    /// [`ClusterError`]; those deleted before it stay deleted.
    pub async fn delete_claims(&self, read: &Stored<Record>) -> Result<usize, ClusterError> {
        let record = &read.value;
        let api = self.claims_api();
        let params = ListParams::default().labels(&keys::workspace_selector(&record.id));
        let list = limited("list claims of", &record.id, api.list(&params)).await?;
        // Listed before this: as long as the record is there, nobody can have made the same id anew.
        self.still(read).await?;
        let mut deleted = 0;
        for claim in list.items.iter().filter(|claim| belongs(record, claim)) {
            deleted += usize::from(self.delete_claim(record, claim).await?);
        }
        Ok(deleted)
    }
}

impl Cluster {
    /// Makes sure that a record is still the one that was read.
    async fn still(&self, read: &Stored<Record>) -> Result<(), ClusterError> {
        let now = self.record(&read.value.id).await?;
        let same = |now: &Stored<Record>| {
            now.uid == read.uid && now.resource_version == read.resource_version
        };
        if now.as_ref().is_some_and(same) {
            return Ok(());
        }
        Err(ClusterError::Conflict {
            what: "delete claims of",
            object: read.value.id.clone(),
        })
    }
}

fn access(modes: &[String]) -> Claim {
    Claim::Modes {
        once_pod: modes.iter().any(|mode| mode == "ReadWriteOncePod"),
        writable: modes.is_empty() || modes.iter().any(|mode| mode.starts_with("ReadWrite")),
    }
}

/// Whether a claim is the workspace's, and its owner's.
fn belongs(record: &Record, claim: &PersistentVolumeClaim) -> bool {
    let label = |key: &str| claim.metadata.labels.as_ref().and_then(|all| all.get(key));
    let annotations = claim.metadata.annotations.as_ref();
    label(keys::WORKSPACE_ID) == Some(&record.id)
        && annotations.and_then(|all| all.get(keys::USER_SUB)) == Some(&record.owner)
}

/// Whether a claim that exists can be used; else how it is refused.
fn usable(
    record: &Record,
    planned: &PlannedClaim,
    there: &PersistentVolumeClaim,
) -> Result<Option<Trouble>, ClusterError> {
    if !belongs(record, there) {
        let message = format!(
            "persistentvolumeclaim \"{}\" exists and is not this workspace's: delete or rename it",
            planned.object
        );
        return Ok(Some(Trouble::new("ClaimTaken", message)));
    }
    if there.metadata.deletion_timestamp.is_some() {
        return Err(busy(planned, "its former claim is still being deleted"));
    }
    Ok(None)
}

fn busy(planned: &PlannedClaim, reason: &str) -> ClusterError {
    ClusterError::Unavailable {
        what: "create claim",
        object: planned.object.clone(),
        reason: reason.to_owned(),
    }
}

fn parse(record: &Record, planned: &PlannedClaim) -> Result<PersistentVolumeClaim, ClusterError> {
    serde_json::from_value(claim::object(record, planned)).map_err(|error| {
        ClusterError::Malformed {
            object: format!("claim {}", planned.object),
            reason: error.to_string(),
        }
    })
}
