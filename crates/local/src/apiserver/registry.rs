//! The kinds served: names, groups, scopes, and which field selectors each knows.

/// A stored kind.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Resource {
    Namespaces,
    Nodes,
    Pods,
    ConfigMaps,
    Secrets,
    PersistentVolumeClaims,
    ServiceAccounts,
    Quotas,
    Events,
    Leases,
    EndpointSlices,
}

/// Static facts of a kind.
#[derive(Debug)]
pub(crate) struct Info {
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
    pub(crate) kind: &'static str,
    pub(crate) plural: &'static str,
    pub(crate) singular: &'static str,
    pub(crate) short: &'static [&'static str],
    pub(crate) categories: &'static [&'static str],
    pub(crate) namespaced: bool,
    /// Has a `status` that only the `status` subresource writes.
    pub(crate) status: bool,
    /// Field selector name to JSON pointers; the first that holds a value counts.
    pub(crate) fields: &'static [(&'static str, &'static [&'static str])],
}

impl Info {
    /// `pods`, `leases.coordination.k8s.io`: the name that messages use.
    pub(crate) fn qualified(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_owned()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }

    /// `v1`, `coordination.k8s.io/v1`.
    pub(crate) fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }
}

/// The `apiVersion` text of a group and version.
pub(crate) fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() {
        version.to_owned()
    } else {
        format!("{group}/{version}")
    }
}

/// A kind under the group it was asked by: events are served by two groups from one store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Served {
    pub(crate) resource: Resource,
    pub(crate) group: &'static str,
    pub(crate) version: &'static str,
}

impl Served {
    /// Whether objects need conversion from and to their stored form.
    pub(crate) fn converted(&self) -> bool {
        self.group != self.resource.info().group
    }

    pub(crate) fn api_version(&self) -> String {
        api_version(self.group, self.version)
    }
}

/// The second group of events.
pub(crate) const EVENTS_GROUP: &str = "events.k8s.io";

impl Resource {
    pub(crate) const ALL: [Resource; 11] = [
        Resource::Namespaces,
        Resource::Nodes,
        Resource::Pods,
        Resource::ConfigMaps,
        Resource::Secrets,
        Resource::PersistentVolumeClaims,
        Resource::ServiceAccounts,
        Resource::Quotas,
        Resource::Events,
        Resource::Leases,
        Resource::EndpointSlices,
    ];

    /// The stored kind with this plural name (unique here across groups).
    pub(crate) fn by_plural(plural: &str) -> Option<Resource> {
        Self::ALL
            .into_iter()
            .find(|resource| resource.info().plural == plural)
    }

    pub(crate) fn info(self) -> &'static Info {
        match self {
            Resource::Namespaces => &NAMESPACES,
            Resource::Nodes => &NODES,
            Resource::Pods => &PODS,
            Resource::ConfigMaps => &CONFIG_MAPS,
            Resource::Secrets => &SECRETS,
            Resource::PersistentVolumeClaims => &CLAIMS,
            Resource::ServiceAccounts => &SERVICE_ACCOUNTS,
            Resource::Quotas => &QUOTAS,
            Resource::Events => &EVENTS,
            Resource::Leases => &LEASES,
            Resource::EndpointSlices => &ENDPOINT_SLICES,
        }
    }
}

/// Everything served, in discovery order.
pub(crate) fn served() -> impl Iterator<Item = Served> {
    Resource::ALL
        .into_iter()
        .map(|resource| {
            let info = resource.info();
            Served {
                resource,
                group: info.group,
                version: info.version,
            }
        })
        .chain([Served {
            resource: Resource::Events,
            group: EVENTS_GROUP,
            version: "v1",
        }])
}

/// The kind at a path.
pub(crate) fn find(group: &str, version: &str, plural: &str) -> Option<Served> {
    served()
        .find(|s| s.group == group && s.version == version && s.resource.info().plural == plural)
}

/// Named groups with their version, each once.
pub(crate) fn groups() -> Vec<(&'static str, &'static str)> {
    let mut groups: Vec<_> = served()
        .filter(|s| !s.group.is_empty())
        .map(|s| (s.group, s.version))
        .collect();
    groups.sort_unstable();
    groups.dedup();
    groups
}

const fn core(kind: &'static str, plural: &'static str, singular: &'static str) -> Info {
    Info {
        group: "",
        version: "v1",
        kind,
        plural,
        singular,
        short: &[],
        categories: &[],
        namespaced: true,
        status: false,
        fields: &[],
    }
}

static NAMESPACES: Info = Info {
    short: &["ns"],
    namespaced: false,
    status: true,
    fields: &[("status.phase", &["/status/phase"])],
    ..core("Namespace", "namespaces", "namespace")
};
static NODES: Info = Info {
    short: &["no"],
    namespaced: false,
    status: true,
    fields: &[("spec.unschedulable", &["/spec/unschedulable"])],
    ..core("Node", "nodes", "node")
};
static PODS: Info = Info {
    short: &["po"],
    categories: &["all"],
    status: true,
    fields: &[
        ("spec.nodeName", &["/spec/nodeName"]),
        ("spec.restartPolicy", &["/spec/restartPolicy"]),
        ("spec.schedulerName", &["/spec/schedulerName"]),
        ("spec.serviceAccountName", &["/spec/serviceAccountName"]),
        ("status.phase", &["/status/phase"]),
        ("status.podIP", &["/status/podIP"]),
        ("status.nominatedNodeName", &["/status/nominatedNodeName"]),
    ],
    ..core("Pod", "pods", "pod")
};
static CONFIG_MAPS: Info = Info {
    short: &["cm"],
    ..core("ConfigMap", "configmaps", "configmap")
};
static SECRETS: Info = Info {
    fields: &[("type", &["/type"])],
    ..core("Secret", "secrets", "secret")
};
static CLAIMS: Info = Info {
    short: &["pvc"],
    status: true,
    ..core(
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "persistentvolumeclaim",
    )
};
static SERVICE_ACCOUNTS: Info = Info {
    short: &["sa"],
    ..core("ServiceAccount", "serviceaccounts", "serviceaccount")
};
static QUOTAS: Info = Info {
    short: &["quota"],
    status: true,
    ..core("ResourceQuota", "resourcequotas", "resourcequota")
};
static EVENTS: Info = Info {
    short: &["ev"],
    fields: &[
        ("involvedObject.kind", &["/involvedObject/kind"]),
        ("involvedObject.namespace", &["/involvedObject/namespace"]),
        ("involvedObject.name", &["/involvedObject/name"]),
        ("involvedObject.uid", &["/involvedObject/uid"]),
        ("involvedObject.apiVersion", &["/involvedObject/apiVersion"]),
        (
            "involvedObject.resourceVersion",
            &["/involvedObject/resourceVersion"],
        ),
        ("involvedObject.fieldPath", &["/involvedObject/fieldPath"]),
        ("reason", &["/reason"]),
        ("reportingComponent", &["/reportingComponent"]),
        ("source", &["/source/component", "/reportingComponent"]),
        ("type", &["/type"]),
    ],
    ..core("Event", "events", "event")
};
static LEASES: Info = Info {
    group: "coordination.k8s.io",
    ..core("Lease", "leases", "lease")
};
static ENDPOINT_SLICES: Info = Info {
    group: "discovery.k8s.io",
    ..core("EndpointSlice", "endpointslices", "endpointslice")
};
