//! Probes: when they run and what a series of results means. Pure; `prober` runs them.

use std::time::Duration;

use k8s_openapi::api::core::v1::{self as core, Container};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

/// Which of a container's probes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    /// As it stands in events: `Readiness probe failed: ...`.
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// What a probe, or a hook, does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Check {
    Http {
        host: Option<String>,
        port: u16,
        path: String,
        headers: Vec<(String, String)>,
    },
    Tcp {
        host: Option<String>,
        port: u16,
    },
    Exec(Vec<String>),
    /// Not possible here; fails with this sentence.
    Unsupported(String),
}

/// A probe with its defaults filled in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) check: Check,
    pub(crate) initial_delay: Duration,
    pub(crate) period: Duration,
    pub(crate) timeout: Duration,
    pub(crate) success_threshold: u32,
    pub(crate) failure_threshold: u32,
    /// The grace of a container that fails its liveness or startup probe.
    pub(crate) grace: Option<Duration>,
}

/// The probe of that kind, if the container has one.
pub(crate) fn probe(container: &Container, kind: Kind) -> Option<Probe> {
    let spec = match kind {
        Kind::Startup => container.startup_probe.as_ref(),
        Kind::Liveness => container.liveness_probe.as_ref(),
        Kind::Readiness => container.readiness_probe.as_ref(),
    }?;
    let seconds = |value: Option<i32>, default: u64, least: u64| {
        Duration::from_secs(
            value
                .and_then(|v| u64::try_from(v).ok())
                .unwrap_or(default)
                .max(least),
        )
    };
    let threshold = |value: Option<i32>, default: u32| {
        value
            .and_then(|v| u32::try_from(v).ok())
            .unwrap_or(default)
            .max(1)
    };
    Some(Probe {
        check: probe_check(spec, container),
        initial_delay: seconds(spec.initial_delay_seconds, 0, 0),
        period: seconds(spec.period_seconds, 10, 1),
        timeout: seconds(spec.timeout_seconds, 1, 1),
        success_threshold: threshold(spec.success_threshold, 1),
        failure_threshold: threshold(spec.failure_threshold, 3),
        grace: spec
            .termination_grace_period_seconds
            .and_then(|value| u64::try_from(value).ok())
            .map(Duration::from_secs),
    })
}

fn probe_check(spec: &core::Probe, container: &Container) -> Check {
    if let Some(http) = &spec.http_get {
        http_check(http, container)
    } else if let Some(tcp) = &spec.tcp_socket {
        match port(&tcp.port, container) {
            Ok(port) => Check::Tcp {
                host: tcp.host.clone(),
                port,
            },
            Err(problem) => Check::Unsupported(problem),
        }
    } else if let Some(exec) = &spec.exec {
        Check::Exec(exec.command.clone().unwrap_or_default())
    } else {
        Check::Unsupported("this node supports httpGet, tcpSocket and exec probes".to_owned())
    }
}

/// An `httpGet` of a probe or a hook.
pub(crate) fn http_check(http: &core::HTTPGetAction, container: &Container) -> Check {
    if http
        .scheme
        .as_deref()
        .is_some_and(|scheme| !scheme.eq_ignore_ascii_case("http"))
    {
        return Check::Unsupported("this node supports httpGet with scheme HTTP only".to_owned());
    }
    match port(&http.port, container) {
        Ok(port) => Check::Http {
            host: http.host.clone(),
            port,
            path: match http.path.as_deref().unwrap_or("/") {
                path if path.starts_with('/') => path.to_owned(),
                path => format!("/{path}"),
            },
            headers: http
                .http_headers
                .iter()
                .flatten()
                .map(|header| (header.name.clone(), header.value.clone()))
                .collect(),
        },
        Err(problem) => Check::Unsupported(problem),
    }
}

/// A port by number, or by the name that the container gives it.
fn port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(number) => Some(*number),
        IntOrString::String(name) => match name.parse() {
            Ok(number) => Some(number),
            Err(_) => container
                .ports
                .iter()
                .flatten()
                .find(|port| port.name.as_ref() == Some(name))
                .map(|port| port.container_port),
        },
    };
    number
        .and_then(|number| u16::try_from(number).ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| format!("the container has no port {port:?}"))
}

/// Counts equal results in a row.
#[derive(Debug, Clone)]
pub(crate) struct Tally {
    success_threshold: u32,
    failure_threshold: u32,
    last: Option<bool>,
    run: u32,
}

impl Tally {
    pub(crate) fn new(probe: &Probe) -> Self {
        Self {
            success_threshold: probe.success_threshold,
            failure_threshold: probe.failure_threshold,
            last: None,
            run: 0,
        }
    }

    /// Takes one result; a verdict once its threshold is reached, and at every
    /// further equal result.
    pub(crate) fn observe(&mut self, ok: bool) -> Option<bool> {
        self.run = if self.last == Some(ok) {
            self.run.saturating_add(1)
        } else {
            1
        };
        self.last = Some(ok);
        let threshold = if ok {
            self.success_threshold
        } else {
            self.failure_threshold
        };
        (self.run >= threshold).then_some(ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn container(kind: &str, probe: &Value) -> Container {
        serde_json::from_value(json!({"name": "c", kind: probe,
            "ports": [{"name": "web", "containerPort": 3000}]}))
        .unwrap()
    }

    #[test]
    fn defaults_are_those_of_kubernetes() {
        let container = container(
            "readinessProbe",
            &json!({"httpGet": {"port": "web", "path": "ok"}}),
        );
        assert_eq!(
            probe(&container, Kind::Readiness).unwrap(),
            Probe {
                check: Check::Http {
                    host: None,
                    port: 3000,
                    path: "/ok".into(),
                    headers: vec![]
                },
                initial_delay: Duration::ZERO,
                period: Duration::from_secs(10),
                timeout: Duration::from_secs(1),
                success_threshold: 1,
                failure_threshold: 3,
                grace: None,
            }
        );
        assert_eq!(probe(&container, Kind::Liveness), None);
    }

    #[test]
    fn ports_by_number_and_name() {
        for (port, wanted) in [
            (json!(80), Some(80)),
            (json!("81"), Some(81)),
            (json!("web"), Some(3000)),
            (json!("x"), None),
            (json!(0), None),
            (json!(70_000), None),
        ] {
            let container = container("livenessProbe", &json!({"tcpSocket": {"port": port}}));
            let check = probe(&container, Kind::Liveness).unwrap().check;
            match wanted {
                Some(port) => assert_eq!(check, Check::Tcp { host: None, port }),
                None => assert!(matches!(check, Check::Unsupported(_)), "{check:?}"),
            }
        }
    }

    #[test]
    fn thresholds_count_runs_of_equal_results() {
        // Thresholds (success, failure), results, verdicts (`-` none).
        for (success, failure, results, verdicts) in [
            (1, 3, "+", "+"),
            (1, 3, "---", "  -"),
            (1, 3, "--+---", "  +  -"),
            (2, 1, "+-++", " - +"),
            (1, 1, "+-+-", "+-+-"),
            (1, 2, "----", " ---"),
        ] {
            let spec = json!({"exec": {"command": ["x"]}, "successThreshold": success, "failureThreshold": failure});
            let probe = probe(&container("readinessProbe", &spec), Kind::Readiness).unwrap();
            let mut tally = Tally::new(&probe);
            let seen: String = results
                .chars()
                .map(|result| match tally.observe(result == '+') {
                    Some(true) => '+',
                    Some(false) => '-',
                    None => ' ',
                })
                .collect();
            assert_eq!(seen, verdicts, "{success}/{failure} {results}");
        }
    }
}
