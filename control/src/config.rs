//! Control's flags, and the settings they become.

use crate::login::keys::ring::Rotation;
use crate::session::Limits;
use clap::Parser;
use nogoo9_identity::policy::SessionRoles;
use nogoo9_model::UnixSeconds;
use nogoo9_model::access::Authors;
use nogoo9_model::limit::PerUser;
use nogoo9_runtime::args::{Common, CommonArgs, ConfigArgs, Defaults};
use nogoo9_runtime::config::{Configure, Problems};
use nogoo9_runtime::secret::Secret;
use std::path::PathBuf;
use url::Url;

const HOUR: u64 = 3600;
const DAY: u64 = 24 * HOUR;
/// Least time between two changes of keys, in seconds: several times what publishing one takes.
const SHORTEST_ROTATION: UnixSeconds = 3600;

/// The co-process of the nogoo9 edge: MCP tools, JSON API, sign-in, and background upgrades of
/// cloud workspaces.
#[derive(Parser, Debug)]
#[command(
    name = "nogoo9-control",
    version,
    after_help = "All flags can also be set by their environment variables, \
    or in the file named by --config. --check-config tells whether all is well."
)]
pub struct Args {
    #[command(flatten)]
    common: CommonArgs,
    #[command(flatten)]
    control: ControlArgs,
}

/// Flags that only control has.
#[derive(clap::Args, Debug, Default)]
#[command(next_help_heading = "Control")]
struct ControlArgs {
    /// Namespace of control's own objects: records, operations, keys and templates.
    /// [default: nogoo9-system]
    #[arg(long, env = "NOGOO9_NAMESPACE", value_name = "NAMESPACE")]
    namespace: Option<String>,
    /// Our client id at the identity provider.
    #[arg(long, env = "NOGOO9_CLIENT_ID", value_name = "ID")]
    client_id: Option<String>,
    /// File with our client secret. Without it: a public client, protected by PKCE alone.
    #[arg(long, env = "NOGOO9_CLIENT_SECRET_FILE", value_name = "FILE")]
    client_secret_file: Option<String>,
    /// Admin URL of a proxy, asked which pods are still in use; may be repeated.
    #[arg(
        long,
        env = "NOGOO9_PROXY_ADMIN",
        value_name = "URL",
        value_delimiter = ','
    )]
    proxy_admin: Vec<String>,
    /// Service in our namespace whose endpoints are the proxies; they are asked at its port `admin`.
    #[arg(long, env = "NOGOO9_PROXY_SERVICE", value_name = "NAME")]
    proxy_service: Option<String>,
    /// Folder with templates, one YAML or JSON file each, beside those in ConfigMaps.
    #[arg(long, env = "NOGOO9_TEMPLATES_DIR", value_name = "DIR")]
    templates_dir: Option<PathBuf>,
    /// Most workspaces that one user may have, stopped ones counted. What is there already stays, and
    /// upgrades never count. [default: as many as they like]
    #[arg(long, env = "NOGOO9_MAX_WORKSPACES_PER_USER", value_name = "N")]
    max_workspaces_per_user: Option<String>,
    /// Who may make, change and delete templates beside admins: a subject, or `role:ROLE` for whoever
    /// has that role. What they write decides what everybody's pods are made of. May be repeated.
    #[arg(
        long,
        env = "NOGOO9_TEMPLATE_AUTHOR",
        value_name = "SUB|role:ROLE",
        value_delimiter = ','
    )]
    template_author: Vec<String>,
    /// Scopes asked for at sign-in beside `openid`. Many providers give refresh tokens, by which a
    /// session can last, only for `offline_access`. [default: profile,email]
    #[arg(
        long,
        env = "NOGOO9_LOGIN_SCOPES",
        value_name = "SCOPE",
        value_delimiter = ','
    )]
    login_scopes: Vec<String>,
    /// How long a browser session lasts. [default: 43200]
    #[arg(long, env = "NOGOO9_SESSION_LENGTH", value_name = "SECONDS")]
    session_length: Option<String>,
    /// How long one lasts whose provider gives no refresh token, and so cannot be asked whether it
    /// still vouches for it. [default: 3600]
    #[arg(long, env = "NOGOO9_SESSION_UNREFRESHABLE", value_name = "SECONDS")]
    session_unrefreshable: Option<String>,
    /// How long beyond its quarter of an hour a session is accepted while the API server is away.
    /// [default: 3600]
    #[arg(long, env = "NOGOO9_SESSION_GRACE", value_name = "SECONDS")]
    session_grace: Option<String>,
    /// Roles that a session carries beside nogoo9's own, for `visibility` and pods: names, or
    /// beginnings that end in `*`. 32 at most are kept. [default: *]
    #[arg(
        long,
        env = "NOGOO9_SESSION_ROLES",
        value_name = "ROLE",
        value_delimiter = ','
    )]
    session_roles: Vec<String>,
    /// How long sessions are signed with one key; 0: for ever. [default: 2592000]
    #[arg(long, env = "NOGOO9_SESSION_KEY_ROTATION", value_name = "SECONDS")]
    session_key_rotation: Option<String>,
    /// Name by which this one of several stands for election; no other may have it. One that starts
    /// again under the same name goes on at once.
    /// [default: the host's name and something by chance]
    #[arg(long, env = "NOGOO9_INSTANCE", value_name = "NAME")]
    instance: Option<String>,
}

/// Checked settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// What both binaries have.
    pub common: Common,
    /// Namespace of control's own objects.
    pub namespace: String,
    /// Client id at the identity provider.
    pub client_id: String,
    /// Client secret, unless we are a public client.
    pub client_secret: Option<Secret>,
    /// Admin URLs of the proxies.
    pub proxies: Vec<Url>,
    /// Service whose endpoints are the proxies.
    pub proxy_service: Option<String>,
    /// Folder with templates.
    pub templates_dir: Option<PathBuf>,
    /// Most workspaces of one user.
    pub max_workspaces: Option<PerUser>,
    /// Who may write templates beside admins.
    pub template_authors: Authors,
    /// Scopes asked for beside `openid`.
    pub login_scopes: Vec<String>,
    /// How long sessions last.
    pub sessions: Limits,
    /// Roles that sessions carry.
    pub session_roles: SessionRoles,
    /// When the keys of sessions change.
    pub rotation: Rotation,
    /// Name among several.
    pub instance: String,
}

impl Configure for Args {
    type Settings = Settings;

    fn config(&self) -> &ConfigArgs {
        &self.common.config
    }

    fn settings(&self, problems: &mut Problems) -> Option<Settings> {
        // Everything is looked at before anything is unwrapped, so that all mistakes are seen.
        let ControlArgs {
            namespace,
            client_id,
            client_secret_file,
            proxy_admin,
            proxy_service,
            templates_dir,
            max_workspaces_per_user,
            template_author,
            login_scopes,
            session_length,
            session_unrefreshable,
            session_grace,
            session_roles,
            session_key_rotation,
            instance,
        } = &self.control;
        let common = self.common.resolve(&Defaults::CONTROL, problems);
        let namespace = problems.namespace("namespace", namespace.as_deref(), "nogoo9-system");
        let client_id = problems
            .required("client-id", client_id.as_deref(), "nogoo9")
            .map(ToOwned::to_owned);
        let client_secret =
            problems.secret_file("client-secret-file", client_secret_file.as_deref());
        let proxies = problems.urls("proxy-admin", proxy_admin);
        let service = proxy_service.as_deref().map(str::trim);
        let proxy_service = service.filter(|name| is_service_name(name));
        if let (Some(text), None) = (service, proxy_service) {
            problems.add(
                "proxy-service",
                format!("`{text}` is no name of a Service: lower-case letters, digits and hyphens, as in nogoo9-proxy-admin"),
            );
        }
        let template_authors = Authors::parse(template_author)
            .map_err(|wrong| {
                problems.add(
                    "template-author",
                    format!("`{wrong}` names nobody: use a subject, or role:ROLE, as in role:template-authors"),
                );
            })
            .ok();
        let max_workspaces = max_workspaces(max_workspaces_per_user.as_deref(), problems);
        let mut lasts = |flag, value: &Option<String>, default, bounds| {
            let seconds = problems.seconds(flag, value.as_deref(), default, bounds);
            seconds.and_then(|seconds| UnixSeconds::try_from(seconds.as_secs()).ok())
        };
        let length = lasts(
            "session-length",
            session_length,
            12 * HOUR,
            (HOUR / 4, 30 * DAY),
        );
        let unrefreshable = lasts(
            "session-unrefreshable",
            session_unrefreshable,
            HOUR,
            (60, 30 * DAY),
        );
        let grace = lasts("session-grace", session_grace, HOUR, (0, DAY));
        let every = lasts(
            "session-key-rotation",
            session_key_rotation,
            30 * DAY,
            (0, 3650 * DAY),
        );
        if every.is_some_and(|every| every > 0 && every < SHORTEST_ROTATION) {
            problems.add(
                "session-key-rotation",
                format!("must be 0, for never, or at least {SHORTEST_ROTATION}: a key is published a quarter of an hour before its first use"),
            );
        }
        let login_scopes = listed(login_scopes, &["profile", "email"]);
        if let Some(wrong) = login_scopes.iter().find(|scope| !is_scope(scope)) {
            problems.add(
                "login-scopes",
                format!("`{wrong}` is no scope: visible ASCII without quotes and backslashes, as in profile,email,offline_access"),
            );
        }
        let instance = instance.clone().unwrap_or_else(by_chance);
        if !is_instance_name(&instance) {
            problems.add(
                "instance",
                format!("`{instance}` is no name: letters, digits, hyphens and dots, 128 at most, as in nogoo9-control-0"),
            );
        }
        if let Some(folder) = templates_dir
            && let Err(error) = std::fs::read_dir(folder)
        {
            problems.add(
                "templates-dir",
                format!(
                    "{} cannot be read: {error}; name an existing folder",
                    folder.display()
                ),
            );
        }
        if let (Some(common), Some(own)) = (&common, &namespace)
            && common.kube.workspaces_namespace == *own
        {
            problems.add(
                "namespace",
                format!("is '{own}', as --workspaces-namespace is; keep control's keys and records in one of their own"),
            );
        }
        Some(Settings {
            common: common?,
            namespace: namespace?,
            client_id: client_id?,
            client_secret: client_secret?,
            proxies: proxies?,
            proxy_service: proxy_service.map(ToOwned::to_owned),
            templates_dir: templates_dir.clone(),
            max_workspaces: max_workspaces?,
            template_authors: template_authors?,
            login_scopes,
            sessions: Limits {
                length: length?,
                unrefreshable: unrefreshable?,
                grace: grace?,
            },
            session_roles: SessionRoles::new(listed(session_roles, &["*"])),
            rotation: Rotation {
                every: every.filter(|every| *every > 0),
                // What an earlier setting has made may live longer than what this one makes.
                life: length?.max(30 * 24 * 3600),
            },
            instance,
        })
    }
}

/// `None`: not understood; within it `None`: no limit.
fn max_workspaces(text: Option<&str>, problems: &mut Problems) -> Option<Option<PerUser>> {
    let Some(text) = text else {
        return Some(None);
    };
    let most = problems.number("max-workspaces-per-user", Some(text), 1, (1, 100_000))?;
    PerUser::new(usize::try_from(most).ok()?).map(Some)
}

/// What was listed, or the default.
fn listed(values: &[String], default: &[&str]) -> Vec<String> {
    let given: Vec<String> = values
        .iter()
        .map(|value| value.trim().to_owned())
        .filter(|value| !value.is_empty())
        .collect();
    if values.is_empty() {
        default.iter().map(|&one| one.to_owned()).collect()
    } else {
        given
    }
}

/// RFC 6749, appendix A.4.
fn is_scope(scope: &str) -> bool {
    let allowed = |b: u8| b.is_ascii_graphic() && b != b'"' && b != b'\\';
    scope.bytes().all(allowed)
}

/// A name that nobody else has.
fn by_chance() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_default();
    let host: String = host
        .chars()
        .filter(|c| is_instance_char(*c))
        .take(100)
        .collect();
    let host = if host.is_empty() {
        "nogoo9-control"
    } else {
        &host
    };
    // Without chance the name is the host's, which is as good where one runs on each.
    format!("{host}-{:08x}", getrandom::u32().unwrap_or_default())
}

fn is_instance_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= 128 && name.chars().all(is_instance_char)
}

fn is_instance_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')
}

/// Whether a Service can have this name: a DNS-1035 label.
fn is_service_name(name: &str) -> bool {
    let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
    name.len() <= 63
        && name.bytes().all(inner)
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;
    use nogoo9_runtime::config::{ConfigError, Loaded, load};

    fn settings(flags: &[&str]) -> Result<Settings, Vec<String>> {
        let line = std::iter::once("nogoo9-control")
            .chain(flags.iter().copied())
            .map(Into::into);
        match load::<Args>(line) {
            Ok(Loaded::Run(settings)) => Ok(settings),
            Err(ConfigError::Problems(all)) => {
                Err(all.into_iter().map(|problem| problem.flag).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn all_mistakes_at_once_by_flag() {
        let mut flags = settings(&[
            "--listen=here",
            "--namespace=A",
            "--client-secret-file=/does/not/exist",
            "--proxy-admin=ftp://x",
            "--proxy-service=Proxy",
            "--templates-dir=/does/not/exist",
            "--max-workspaces-per-user=0",
            "--instance=a name",
            "--template-author=role:",
            "--login-scopes=profile,a\"b",
            "--session-length=1",
            "--session-unrefreshable=never",
            "--session-grace=-1",
            "--session-key-rotation=5",
        ])
        .unwrap_err();
        flags.sort();
        let expected = [
            "client-id",
            "client-secret-file",
            "instance",
            "issuer",
            "listen",
            "login-scopes",
            "max-workspaces-per-user",
            "namespace",
            "proxy-admin",
            "proxy-service",
            "public-url",
            "session-grace",
            "session-key-rotation",
            "session-length",
            "session-unrefreshable",
            "template-author",
            "templates-dir",
        ];
        assert_eq!(flags, expected);
    }

    #[test]
    fn defaults_and_one_namespace_for_both() {
        let good = [
            "--public-url=http://localhost:9009",
            "--issuer=http://localhost:9011",
            "--client-id=nogoo9",
        ];
        let settings_ = settings(&good).unwrap();
        assert_eq!(settings_.namespace, "nogoo9-system");
        assert_eq!(settings_.common.public.listen.port(), 9010);
        assert_eq!(settings_.sessions, Limits::default());
        assert_eq!(settings_.session_roles, SessionRoles::all());
        assert_eq!(settings_.login_scopes, ["profile", "email"]);
        assert_eq!(settings_.rotation.every, Some(30 * 24 * 3600));
        assert_ne!(settings_.instance, settings(&good).unwrap().instance);
        assert_eq!(settings_.max_workspaces, None);
        let limited = [&good[..], &["--max-workspaces-per-user=3"]].concat();
        let limited = settings(&limited).unwrap().max_workspaces;
        assert_eq!(limited, PerUser::new(3));
        assert_eq!(
            settings_.common.identity.audiences,
            ["http://localhost:9009/mcp"]
        );
        let flags = [
            &good[..],
            &["--namespace=one", "--workspaces-namespace=one"],
        ]
        .concat();
        assert_eq!(settings(&flags).unwrap_err(), ["namespace"]);
    }
}
