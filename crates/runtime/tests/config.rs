//! Flags, environment and file: precedence, and all mistakes at once.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests"
)]

use std::{ffi::OsString, path::Path, process::Command};

use nogoo9_runtime::{
    args::{Common, CommonArgs, ConfigArgs, Defaults},
    config::{ConfigError, Configure, Loaded, Problems, load},
};

#[derive(clap::Parser, Debug)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
    /// Longest hold.
    #[arg(long, env = "NOGOO9_HOLD_TIMEOUT", value_name = "SECONDS")]
    hold_timeout: Option<String>,
}

#[derive(Debug)]
struct Settings {
    common: Common,
    hold: u64,
}

impl Configure for Args {
    type Settings = Settings;

    fn config(&self) -> &ConfigArgs {
        &self.common.config
    }

    fn settings(&self, problems: &mut Problems) -> Option<Settings> {
        let common = self.common.resolve(&Defaults::PROXY, problems);
        let hold = problems.seconds("hold-timeout", self.hold_timeout.as_deref(), 30, (1, 600));
        Some(Settings {
            common: common?,
            hold: hold?.as_secs(),
        })
    }
}

const GOOD: [&str; 2] = [
    "--public-url=http://localhost:9009",
    "--issuer=http://127.0.0.1:9011",
];

fn with(args: &[&str]) -> Result<Loaded<Settings>, ConfigError> {
    let line = ["nogoo9-test"].iter().chain(args);
    load::<Args>(line.map(OsString::from))
}

fn run(args: &[&str]) -> Settings {
    match with(&[&GOOD, args].concat()) {
        Ok(Loaded::Run(settings)) => settings,
        other => panic!("{other:?}"),
    }
}

/// The flags at fault, in order, with their messages.
fn mistakes(args: &[&str]) -> Vec<(String, String)> {
    match with(args) {
        Err(ConfigError::Problems(list)) => list.into_iter().map(|p| (p.flag, p.message)).collect(),
        other => panic!("{other:?}"),
    }
}

fn flags(args: &[&str]) -> Vec<String> {
    mistakes(args).into_iter().map(|(flag, _)| flag).collect()
}

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn defaults_follow_from_the_public_url() {
    let settings = run(&[]);
    assert_eq!(settings.hold, 30);
    let common = settings.common;
    assert_eq!(common.public.listen, "127.0.0.1:9009".parse().unwrap());
    assert_eq!(common.admin.listen, "127.0.0.1:9019".parse().unwrap());
    assert_eq!(common.public.workspace_domain.to_string(), "localhost:9009");
    assert!(!common.public.path_mode);
    assert_eq!(common.identity.audiences, ["http://localhost:9009/mcp"]);
    assert_eq!(common.identity.roles_claim, ["roles"]);
    assert_eq!(common.auth_failures.map(std::num::NonZero::get), Some(30));
    assert_eq!(
        common.identity.default_role,
        nogoo9_model::access::Role::User
    );
    // Byte by byte as given: `Url` would have added a slash.
    assert_eq!(common.identity.issuer, "http://127.0.0.1:9011");
    assert_eq!(common.kube.workspaces_namespace, "nogoo9-workspaces");
}

#[test]
fn path_mode_needs_a_host_of_its_own_in_the_open() {
    const OPEN: [&str; 3] = [
        "--public-url=https://console.example.org",
        "--workspace-domain=ws.example.net",
        "--issuer=https://login.example.org",
    ];
    let Ok(Loaded::Run(settings)) = with(&[&OPEN[..], &["--path-host=paths.example.net"]].concat())
    else {
        panic!("a host of its own is refused")
    };
    let public = settings.common.public;
    assert!(public.path_mode);
    let url = public.path_url().unwrap();
    assert_eq!(url.as_str(), "https://paths.example.net/");
    for wrong in [
        "--path-mode",
        "--path-host=console.example.org",
        "--path-host=console.example.org:8443",
        "--path-host=dev.ws.example.net",
        "--path-host=paths.example.net/route",
        "--path-host=https://paths.example.net",
        "--path-host=user@paths.example.net",
    ] {
        assert_eq!(
            flags(&[&OPEN[..], &[wrong]].concat()),
            ["path-host"],
            "{wrong}"
        );
    }
    // On loopback, with plain http, it may be the console's.
    let url = |args: &[&str]| run(args).common.public.path_url();
    assert_eq!(url(&[]), None);
    assert_eq!(
        url(&["--path-mode"]).unwrap().as_str(),
        "http://localhost:9009/"
    );
    let apart = url(&["--path-host=127.0.0.1:9009"]).unwrap();
    assert_eq!(apart.as_str(), "http://127.0.0.1:9009/");
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let short = write(dir.path(), "token", "hunter2\n");
    let found = mistakes(&[
        "--listen=localhost:9009",
        "--public-url=http://user:hunter2@example.org/",
        "--workspace-domain=10.0.0.1",
        "--path-mode=perhaps",
        "--admin-token-file",
        &short,
        "--workspaces-namespace=Nope",
        "--kubeconfig=/no/such/file",
        "--default-role=admin",
        "--roles-claim=a..b",
        "--audience=a,,b",
        "--issuer-ca-file",
        &short,
        "--log=a=b=c",
        "--log-format=xml",
        "--hold-timeout=0",
    ]);
    let mut flags: Vec<_> = found.iter().map(|(flag, _)| flag.as_str()).collect();
    flags.sort_unstable();
    assert_eq!(
        flags,
        [
            "admin-token-file",
            "audience",
            "default-role",
            "hold-timeout",
            "issuer",
            "issuer-ca-file",
            "kubeconfig",
            "listen",
            "log",
            "log-format",
            "path-mode",
            "public-url",
            "roles-claim",
            "workspace-domain",
            "workspaces-namespace",
        ]
    );
    let all = format!("{found:?}");
    assert!(!all.contains("hunter2"), "secret in a message: {all}");
    let text = with(&["--listen=x", "--issuer=y"]).unwrap_err().to_string();
    assert!(text.starts_with("3 mistakes in the configuration\n  --listen: "));
    assert!(text.contains("\n  --public-url: is missing; "));
    assert!(text.contains("(or NOGOO9_PUBLIC_URL)"));
}

#[test]
fn the_issuers_authorities_are_read_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let made = |name: &str| {
        rcgen::generate_simple_self_signed([name.to_owned()])
            .unwrap()
            .cert
            .pem()
    };
    let two = format!("# ours\n{}\n{}", made("one"), made("two"));
    let path = write(dir.path(), "ca.crt", &two);
    let settings = run(&["--issuer-ca-file", &path]);
    assert_eq!(
        settings.common.identity.issuer_ca.as_deref(),
        Some(two.as_bytes())
    );
    assert_eq!(run(&[]).common.identity.issuer_ca, None);

    let cut = format!(
        "{}-----BEGIN CERTIFICATE-----\nMAAA\n-----END CERTIFICATE-----\n",
        made("one")
    );
    let bad = [
        ("nothing", "holds no certificate"),
        (cut.as_str(), "certificate 2 of "),
    ];
    for (text, said) in bad {
        let path = write(dir.path(), "bad.crt", text);
        let found = mistakes(&[GOOD[0], GOOD[1], "--issuer-ca-file", &path]);
        assert_eq!(found[0].0, "issuer-ca-file");
        assert!(found[0].1.contains(said), "{found:?}");
    }
    let found = mistakes(&[GOOD[0], GOOD[1], "--issuer-ca-file=/no/such/file"]);
    assert!(found[0].1.contains("cannot be read"), "{found:?}");
}

#[test]
fn further_issuers_are_named_once() {
    let identity = run(&[]).common.identity;
    assert!(identity.extra_issuers.is_empty());
    let extra = run(&["--extra-issuer=https://a.example,https://b.example/realm"]);
    assert_eq!(
        extra.common.identity.extra_issuers,
        ["https://a.example", "https://b.example/realm"]
    );
    for bad in [
        "--extra-issuer=http://127.0.0.1:9011",
        "--extra-issuer=https://a.example,https://a.example",
        "--extra-issuer=https://a.example,",
        "--extra-issuer=a.example",
    ] {
        assert_eq!(flags(&[GOOD[0], GOOD[1], bad]), ["extra-issuer"], "{bad}");
    }
}

#[test]
fn a_shared_secret_belongs_to_an_issuer_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let text = "hunter2-hunter2-hunter2-hunter2-hunter2";
    let long = write(dir.path(), "long", &format!("{text}\n"));
    let short = write(dir.path(), "short", "hunter2-hunter2-hunter2-hunter2");
    assert!(run(&[]).common.identity.shared_secret.is_none());
    let issuer = "--shared-secret-issuer=legacy";
    let settings = run(&[issuer, "--shared-secret-file", &long]);
    assert!(!format!("{settings:?}").contains("hunter2"));
    let shared = settings.common.identity.shared_secret.unwrap();
    assert_eq!(
        (shared.issuer.as_str(), shared.secret.expose()),
        ("legacy", text)
    );
    let table: [(&[&str], &str); 7] = [
        (&[issuer], "shared-secret-file"),
        (&["--shared-secret-file", &long], "shared-secret-issuer"),
        (
            &[issuer, "--shared-secret-file", &short],
            "shared-secret-file",
        ),
        (
            &[issuer, "--shared-secret-file=/no/such/file"],
            "shared-secret-file",
        ),
        (
            &["--shared-secret-issuer=", "--shared-secret-file", &long],
            "shared-secret-issuer",
        ),
        (
            &[
                "--shared-secret-issuer=http://127.0.0.1:9011",
                "--shared-secret-file",
                &long,
            ],
            "shared-secret-issuer",
        ),
        (
            &[
                "--extra-issuer=https://a.example",
                "--shared-secret-issuer=https://a.example",
                "--shared-secret-file",
                &long,
            ],
            "shared-secret-issuer",
        ),
    ];
    for (args, wanted) in table {
        let found = mistakes(&[&GOOD, args].concat());
        assert_eq!(found.len(), 1, "{args:?}: {found:?}");
        assert_eq!(found[0].0, wanted, "{args:?}");
        assert!(!found[0].1.contains("hunter2"), "{found:?}");
    }
}

#[test]
fn scopes_count_only_if_they_are_switched_on() {
    let claim = |args: &[&str]| run(args).common.identity.scopes_claim;
    assert_eq!(claim(&[]), None);
    assert_eq!(claim(&["--scopes=off"]), None);
    assert_eq!(claim(&["--scopes=on"]).as_deref(), Some("scope"));
    assert_eq!(
        claim(&["--scopes=on", "--scopes-claim=scp"]).as_deref(),
        Some("scp")
    );
    for (args, wanted) in [
        (["--scopes=perhaps", "--log=info"], "scopes"),
        (["--scopes=off", "--scopes-claim=scp"], "scopes-claim"),
        (["--scopes=on", "--scopes-claim="], "scopes-claim"),
    ] {
        assert_eq!(flags(&[&GOOD[..], &args].concat()), [wanted], "{args:?}");
    }
}

#[test]
fn public_urls_that_would_leak_are_refused() {
    for bad in [
        "http://example.org",
        "http://192.0.2.1:9009",
        "https://example.org/path",
        "ftp://localhost",
        "https://example.org/?a=b",
        "localhost:9009",
    ] {
        let public = format!("--public-url={bad}");
        assert_eq!(flags(&[&public, GOOD[1]]), ["public-url"], "{bad}");
    }
    for good in [
        "http://127.0.0.2:1",
        "http://a.localhost",
        "http://[::1]:9009",
    ] {
        let public = format!("--public-url={good}");
        let domain = "--workspace-domain=ws.localhost";
        assert!(with(&[&public, GOOD[1], domain]).is_ok(), "{good}");
    }
}

#[test]
fn an_address_is_no_workspace_domain() {
    let found = flags(&["--public-url=http://127.0.0.1:9009", GOOD[1]]);
    assert_eq!(found, ["workspace-domain"]);
}

#[test]
fn a_console_under_the_workspace_domain_is_refused() {
    let found = flags(&[
        "--public-url=https://console.ws.example.org",
        "--workspace-domain=ws.example.org",
        GOOD[1],
    ]);
    assert_eq!(found, ["workspace-domain"]);
    let beside = with(&[
        "--public-url=https://console.example.org",
        "--workspace-domain=WS.example.org.",
        GOOD[1],
    ]);
    match beside {
        Ok(Loaded::Run(s)) => {
            assert_eq!(
                s.common.public.workspace_domain.to_string(),
                "ws.example.org"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_file_fills_what_the_line_leaves_open() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(
        dir.path(),
        "a.toml",
        "public-url = 'http://localhost:1'\nissuer = 'http://127.0.0.1:2'\n\
         hold-timeout = 7\npath-mode = true\naudience = ['a', 'b']\nadmin-role = 'file'\n",
    );
    let loaded = with(&["--config", &file, "--admin-role", "line"]).unwrap();
    let Loaded::Run(settings) = loaded else {
        panic!("{loaded:?}")
    };
    assert_eq!(settings.hold, 7);
    assert!(settings.common.public.path_mode);
    assert_eq!(settings.common.identity.audiences, ["a", "b"]);
    assert_eq!(settings.common.identity.admin_role, "line");
    let only_line = ["--config", &file, "--path-mode=false", "--audience", "c"];
    let loaded = with(&only_line).unwrap();
    let Loaded::Run(settings) = loaded else {
        panic!("{loaded:?}")
    };
    assert!(!settings.common.public.path_mode);
    assert_eq!(settings.common.identity.audiences, ["c"]);
}

#[test]
fn mistakes_in_the_file_name_the_key_and_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(
        dir.path(),
        "b.toml",
        "public_url = 'x'\nhold-timeout = [1]\nissuer = { a = 1 }\ncheck-config = true\n",
    );
    let found = mistakes(&["--config", &file, GOOD[0]]);
    let text = format!("{found:?}");
    assert!(text.contains("unknown key `public_url`; did you mean public-url?"));
    assert!(text.contains("unknown key `check-config`"));
    assert!(text.contains("takes one value, not a list (in "));
    assert!(text.contains("must be a string, a number or true/false (in "));
    assert!(text.contains("b.toml"));

    let broken = write(dir.path(), "c.toml", "issuer = 'a'\nadmin-role = hunter2\n");
    let found = mistakes(&[&["--config", broken.as_str()], &GOOD[..]].concat());
    assert_eq!(found[0].0, "config");
    assert!(found[0].1.contains("c.toml line 2: "), "{found:?}");
    assert!(!found[0].1.contains("hunter2"), "{found:?}");

    let found = mistakes(&[&["--config", "/no/such.toml"], &GOOD[..]].concat());
    assert_eq!(found[0].0, "config");
}

#[test]
fn check_config_runs_nothing() {
    let loaded = with(&[&GOOD[..], &["--check-config"]].concat());
    assert!(matches!(loaded, Ok(Loaded::Checked)));
    assert_eq!(flags(&["--check-config", GOOD[0]]), ["issuer"]);
}

#[test]
fn unknown_flags_are_usage_errors() {
    let Err(ConfigError::Usage(error)) = with(&["--no-such-flag"]) else {
        panic!("accepted")
    };
    assert_eq!(error.exit_code(), 2);
}

/// Not a test of its own: run by the next one in a process with another environment.
#[test]
#[ignore = "child of environment_wins_over_the_file_and_loses_to_flags"]
fn child_with_environment() {
    let file = std::env::var("TEST_FILE").unwrap();
    let settings = run(&["--config", &file, "--admin-role=line"]);
    let identity = settings.common.identity;
    println!(
        "seen {} {} {} {:?}",
        settings.hold, identity.admin_role, settings.common.public.path_mode, identity.audiences
    );
}

#[test]
fn environment_wins_over_the_file_and_loses_to_flags() {
    let dir = tempfile::tempdir().unwrap();
    let file = write(
        dir.path(),
        "d.toml",
        "hold-timeout = 1\nadmin-role = 'file'\npath-mode = false\naudience = ['file']\n",
    );
    let output = Command::new(std::env::current_exe().unwrap())
        .args([
            "--ignored",
            "--nocapture",
            "--exact",
            "child_with_environment",
        ])
        .env("TEST_FILE", &file)
        .env("NOGOO9_HOLD_TIMEOUT", "2")
        .env("NOGOO9_ADMIN_ROLE", "env")
        .env("NOGOO9_PATH_MODE", "true")
        .env("NOGOO9_AUDIENCE", "x,y")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.contains(r#"seen 2 line true ["x", "y"]"#),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
