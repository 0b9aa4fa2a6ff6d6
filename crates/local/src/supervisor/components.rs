//! The command lines of the children.

use std::{
    ffi::{OsStr, OsString},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use super::{CLIENT_ID, SYSTEM_NAMESPACE, UpOptions, WORKSPACES_NAMESPACE, keeper::Launch};

/// Names, as in log files and messages.
pub(super) const API_SERVER: &str = "apiserver";
pub(super) const CONTROL: &str = "control";
pub(super) const PROXY: &str = "proxy";

/// Control's name among several; there is no other.
const INSTANCE: &str = "nogoo9-up";
/// Where control serves its public session keys.
const SESSION_KEYS_PATH: &str = "/.well-known/nogoo9-session-keys.json";

/// All addresses and files that the command lines name.
pub(super) struct Wiring<'a> {
    pub(super) options: &'a UpOptions,
    pub(super) data_dir: &'a Path,
    pub(super) listen: SocketAddr,
    pub(super) api_server: SocketAddr,
    pub(super) control: SocketAddr,
    pub(super) control_admin: SocketAddr,
    pub(super) proxy_admin: SocketAddr,
    pub(super) issuer: String,
    pub(super) admin_token: PathBuf,
    pub(super) control_kubeconfig: PathBuf,
    pub(super) proxy_kubeconfig: PathBuf,
}

impl Wiring<'_> {
    /// URL of the console. `localhost` and not an address: workspaces live under it.
    pub(super) fn url(&self) -> String {
        format!("http://localhost:{}", self.listen.port())
    }

    pub(super) fn api_server(&self) -> Launch {
        let mut args = vec![OsString::from("local-apiserver")];
        flag(&mut args, "--data-dir", self.data_dir);
        flag(&mut args, "--listen", self.api_server.to_string());
        flag(
            &mut args,
            "--tokens-file",
            self.data_dir.join("tokens.json"),
        );
        let program = self.options.programs.nogoo9.clone();
        // Nothing is lost by a kill; this only lets replies finish.
        self.guarded(API_SERVER, program, args, Duration::from_secs(3))
    }

    pub(super) fn control(&self) -> Launch {
        let mut args = self.shared(self.control, self.control_admin, &self.control_kubeconfig);
        flag(&mut args, "--namespace", SYSTEM_NAMESPACE);
        flag(&mut args, "--client-id", CLIENT_ID);
        // Always the same, so that one that was killed goes on at once when it is started again.
        flag(&mut args, "--instance", INSTANCE);
        flag(
            &mut args,
            "--proxy-admin",
            format!("http://{}", self.proxy_admin),
        );
        unlimited(&mut args, &self.options.control_flags, FAILURES);
        args.extend(self.options.control_flags.iter().map(OsString::from));
        let program = self.options.programs.control.clone();
        self.guarded(CONTROL, program, args, Duration::from_secs(10))
    }

    pub(super) fn proxy(&self) -> Launch {
        let mut args = self.shared(self.listen, self.proxy_admin, &self.proxy_kubeconfig);
        let control = format!("http://{}", self.control);
        flag(
            &mut args,
            "--session-keys",
            format!("{control}{SESSION_KEYS_PATH}"),
        );
        flag(&mut args, "--control-url", control);
        // There is no load balancer that would have to look elsewhere first.
        flag(&mut args, "--drain", "0");
        flag(&mut args, "--stop-timeout", "5");
        unlimited(&mut args, &self.options.proxy_flags, FAILURES);
        unlimited(&mut args, &self.options.proxy_flags, CONNECTIONS);
        unlimited(&mut args, &self.options.proxy_flags, CONTROL_REQUESTS);
        args.extend(self.options.proxy_flags.iter().map(OsString::from));
        let program = self.options.programs.proxy.clone();
        self.guarded(PROXY, program, args, Duration::from_secs(10))
    }

    fn shared(&self, listen: SocketAddr, admin: SocketAddr, kubeconfig: &Path) -> Vec<OsString> {
        let mut args = Vec::new();
        flag(&mut args, "--listen", listen.to_string());
        flag(&mut args, "--admin-listen", admin.to_string());
        flag(&mut args, "--admin-token-file", &self.admin_token);
        flag(&mut args, "--public-url", self.url());
        let domain = format!("localhost:{}", self.listen.port());
        flag(&mut args, "--workspace-domain", domain);
        args.push("--path-mode".into());
        flag(&mut args, "--kubeconfig", kubeconfig);
        flag(&mut args, "--workspaces-namespace", WORKSPACES_NAMESPACE);
        flag(&mut args, "--issuer", &self.issuer);
        flag(&mut args, "--log", &self.options.log);
        // What the supervisor reads the level of.
        flag(&mut args, "--log-format", "text");
        args
    }

    /// Under the guard, so that the kernel ends it with us.
    fn guarded(
        &self,
        name: &'static str,
        program: PathBuf,
        args: Vec<OsString>,
        grace: Duration,
    ) -> Launch {
        let mut guarded = vec![OsString::from("guard")];
        flag(&mut guarded, "--parent", std::process::id().to_string());
        guarded.push("--".into());
        guarded.push(program.into_os_string());
        guarded.extend(args);
        Launch {
            name,
            program: self.options.programs.nogoo9.clone(),
            args: guarded,
            grace,
        }
    }
}

const FAILURES: &str = "--auth-failures-per-minute";
const CONNECTIONS: &str = "--max-connections-per-client";
const CONTROL_REQUESTS: &str = "--max-control-requests-per-client";

/// Nothing is limited by address, since everybody here has the same one; unless that is asked for.
fn unlimited(args: &mut Vec<OsString>, asked: &[String], name: &str) {
    if !asked.iter().any(|one| one.starts_with(name)) {
        flag(args, name, "0");
    }
}

fn flag(args: &mut Vec<OsString>, name: &str, value: impl AsRef<OsStr>) {
    args.push(name.into());
    args.push(value.as_ref().to_owned());
}
