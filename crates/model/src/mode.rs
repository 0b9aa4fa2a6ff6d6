//! How a workspace is upgraded, from the volumes of its pod.

use k8s_openapi::api::core::v1::PodSpec;
use serde::{Deserialize, Serialize};

/// How an upgrade replaces the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// The successor runs beside the old pod and takes over when it is ready.
    SideBySide,
    /// The old pod goes first, since both cannot hold what it holds.
    Recreate,
}

/// What is known of a claim that a pod mounts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// Its access modes.
    Modes {
        /// ReadWriteOncePod is among them.
        once_pod: bool,
        /// Another writable one is among them.
        writable: bool,
    },
    /// It could not be read.
    Unreadable,
}

/// Chooses the mode: a writable claim, hostPath or hostPort makes it [`Mode::Recreate`]. The
/// template may opt shared claims into side by side, but never ReadWriteOncePod ones; a claim that
/// cannot be read counts as writable.
///
/// `claim` answers for each claim name that the spec mounts.
#[must_use]
pub fn choose(spec: &PodSpec, claim: impl Fn(&str) -> Claim, template_opts_in: bool) -> Mode {
    let host_port = spec
        .containers
        .iter()
        .chain(spec.init_containers.iter().flatten())
        .flat_map(|container| container.ports.iter().flatten())
        .any(|port| port.host_port.is_some_and(|port| port != 0));
    if host_port || spec.host_network == Some(true) {
        return Mode::Recreate;
    }
    for volume in spec.volumes.iter().flatten() {
        if volume.host_path.is_some() {
            return Mode::Recreate;
        }
        let Some(source) = &volume.persistent_volume_claim else {
            continue;
        };
        match claim(&source.claim_name) {
            Claim::Unreadable | Claim::Modes { once_pod: true, .. } => return Mode::Recreate,
            Claim::Modes { writable, .. } => {
                if writable && source.read_only != Some(true) && !template_opts_in {
                    return Mode::Recreate;
                }
            }
        }
    }
    Mode::SideBySide
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn mode(spec: Value, claim: Claim, opt_in: bool) -> Mode {
        choose(&serde_json::from_value(spec).unwrap(), |_| claim, opt_in)
    }

    #[test]
    fn rows() {
        let rwo = Claim::Modes {
            once_pod: false,
            writable: true,
        };
        let rox = Claim::Modes {
            once_pod: false,
            writable: false,
        };
        let rwop = Claim::Modes {
            once_pod: true,
            writable: false,
        };
        let bare = json!({"containers": []});
        let with = |volume: Value| json!({"containers": [], "volumes": [volume]});
        let claim = || with(json!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}}));
        let read_only = with(
            json!({"name": "v", "persistentVolumeClaim": {"claimName": "c", "readOnly": true}}),
        );
        let host_path = with(json!({"name": "v", "hostPath": {"path": "/x"}}));
        let host_port =
            json!({"containers": [{"name": "m", "ports": [{"containerPort": 1, "hostPort": 1}]}]});
        for (what, spec, state, opt_in, expected) in [
            ("no volume", bare, rwo, false, Mode::SideBySide),
            (
                "emptyDir",
                with(json!({"name": "v", "emptyDir": {}})),
                rwo,
                false,
                Mode::SideBySide,
            ),
            ("writable claim", claim(), rwo, false, Mode::Recreate),
            (
                "writable claim, opted in",
                claim(),
                rwo,
                true,
                Mode::SideBySide,
            ),
            ("read-only claim", claim(), rox, false, Mode::SideBySide),
            ("mounted read-only", read_only, rwo, false, Mode::SideBySide),
            ("once-pod, opted in", claim(), rwop, true, Mode::Recreate),
            (
                "unreadable, opted in",
                claim(),
                Claim::Unreadable,
                true,
                Mode::Recreate,
            ),
            ("hostPath", host_path, rwo, true, Mode::Recreate),
            ("hostPort", host_port, rwo, true, Mode::Recreate),
        ] {
            assert_eq!(mode(spec, state, opt_in), expected, "{what}");
        }
    }
}
