//! Starts that cannot succeed: each says which flag or object is wrong and what to do, ends with the
//! right code, and leaves nothing half-started.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests")]

use nogoo9_tests::{Census, Observation, Options, Process, Site, binary, until};
use std::path::Path;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::process::Command;

/// Longest time for a program that should end by itself.
const SOON: Duration = Duration::from_secs(30);

/// Runs a program to its end, in an environment without settings of ours.
async fn run(dir: &Path, program: &str, args: &[&str]) -> (i32, String) {
    let child = Command::new(binary(program).unwrap())
        .args(args)
        .current_dir(dir)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        .env("HOME", dir)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let Output {
        status,
        stdout,
        stderr,
    } = tokio::time::timeout(SOON, child.wait_with_output())
        .await
        .unwrap_or_else(|_| panic!("{program} {args:?} runs on"))
        .unwrap();
    let text = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (status.code().unwrap_or(-1), text)
}

/// No process of this folder runs, as soon as the last of them has had time to go.
async fn nothing_left(dir: &Path) {
    until("every process of the folder to end", SOON, || async {
        let census = Census::take(None, dir)?;
        let running = census.running();
        Ok(Observation::when(running.is_empty(), (), running))
    })
    .await
    .unwrap();
}

/// A kubeconfig whose cluster answers nobody.
fn kubeconfig_to_nowhere(dir: &Path) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let path = dir.join("nowhere.kubeconfig");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         clusters: [{{name: c, cluster: {{server: \"https://127.0.0.1:{port}\"}}}}]\n\
         users: [{{name: u, user: {{token: secret-of-the-kubeconfig}}}}]\n\
         contexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n"
    );
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

const PROXY: [&str; 12] = [
    "--listen",
    "127.0.0.1:0",
    "--admin-listen",
    "127.0.0.1:0",
    "--public-url",
    "http://localhost:9009",
    "--issuer",
    "http://127.0.0.1:9",
    "--control-url",
    "http://127.0.0.1:9",
    "--workspace-domain",
    "localhost",
];
const CONTROL: [&str; 14] = [
    "--listen",
    "127.0.0.1:0",
    "--admin-listen",
    "127.0.0.1:0",
    "--public-url",
    "http://localhost:9009",
    "--issuer",
    "http://127.0.0.1:9",
    "--client-id",
    "nogoo9",
    "--workspace-domain",
    "localhost",
    "--proxy-admin",
    "http://127.0.0.1:9",
];

#[tokio::test]
async fn all_mistakes_at_once_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let common = [
        ("--listen", "nonsense"),
        ("--admin-listen", "1"),
        ("--public-url", "ftp://x"),
        ("--issuer", "no url"),
        ("--admin-token-file", "/nonexistent/token"),
        ("--kubeconfig", "/nonexistent/kubeconfig"),
        ("--workspaces-namespace", "Bad_NS"),
        ("--log-format", "xml"),
    ];
    let proxy = [
        ("--control-url", "::"),
        ("--hold-timeout", "soon"),
        ("--hold-max", "many"),
        ("--hold-max-per-workspace", "most"),
    ];
    let control = [
        ("--namespace", "Bad_NS"),
        ("--proxy-admin", "nope"),
        ("--client-secret-file", "/nonexistent/secret"),
        ("--templates-dir", "/nonexistent"),
    ];
    for (program, own) in [("nogoo9-proxy", proxy), ("nogoo9-control", control)] {
        let wrong: Vec<_> = common
            .iter()
            .chain(&own)
            .filter(|(flag, _)| *flag != "--log-format")
            .collect();
        let args: Vec<&str> = wrong
            .iter()
            .flat_map(|(flag, value)| [*flag, *value])
            .collect();
        for more in [&["--check-config"][..], &[]] {
            let (code, text) = run(dir.path(), program, &[&args[..], more].concat()).await;
            assert_eq!(code, 2, "{program}: {text}");
            for (flag, _) in &wrong {
                let mistakes = text
                    .lines()
                    .filter(|line| line.trim_start().starts_with(&format!("{flag}:")))
                    .count();
                assert_eq!(
                    mistakes, 1,
                    "{program} says {mistakes} times that {flag} is wrong:\n{text}"
                );
            }
        }
        let (code, text) = run(dir.path(), program, &[]).await;
        assert_eq!(code, 2, "{program}: {text}");
        for flag in ["--public-url", "--issuer"] {
            assert!(
                text.contains(&format!("{flag}: is missing; set it, as in")),
                "{program}: {text}"
            );
        }
    }
    // What the command line parser itself refuses.
    for args in [&["--log-format", "xml"][..], &["--no-such-flag"]] {
        let (code, text) = run(dir.path(), "nogoo9-proxy", args).await;
        assert!(code == 2 && text.contains(args[0]), "{text}");
    }
}

#[tokio::test]
async fn a_good_configuration_is_good_from_flags_file_and_environment() {
    let dir = tempfile::tempdir().unwrap();
    for (program, flags) in [
        ("nogoo9-proxy", &PROXY[..]),
        ("nogoo9-control", &CONTROL[..]),
    ] {
        let (code, text) = run(dir.path(), program, &[flags, &["--check-config"]].concat()).await;
        assert_eq!(code, 0, "{program}: {text}");
        let pairs = flags.chunks(2).map(|pair| {
            let quoted = format!("\"{}\"", pair[1]);
            let value = if pair[0] == "--proxy-admin" {
                format!("[{quoted}]")
            } else {
                quoted
            };
            format!("{} = {value}\n", pair[0].trim_start_matches("--"))
        });
        std::fs::write(dir.path().join("good.toml"), pairs.collect::<String>()).unwrap();
        let (code, text) = run(
            dir.path(),
            program,
            &["--config", "good.toml", "--check-config"],
        )
        .await;
        assert_eq!(code, 0, "{program}: {text}");
        let misspelt = std::fs::read_to_string(dir.path().join("good.toml"))
            .unwrap()
            .replace("issuer", "isuer");
        std::fs::write(dir.path().join("bad.toml"), misspelt).unwrap();
        let (code, text) = run(
            dir.path(),
            program,
            &["--config", "bad.toml", "--check-config"],
        )
        .await;
        assert!(
            code == 2 && text.contains("isuer") && text.contains("--issuer: is missing"),
            "{program}: {text}"
        );
    }
}

#[tokio::test]
async fn tokens_that_cannot_be_used() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("empty"), "\n").unwrap();
    std::fs::write(dir.path().join("short"), "hunter2\n").unwrap();
    for (program, flags) in [
        ("nogoo9-proxy", &PROXY[..]),
        ("nogoo9-control", &CONTROL[..]),
    ] {
        for file in ["missing", "empty", "short", "."] {
            let (code, text) = run(
                dir.path(),
                program,
                &[flags, &["--admin-token-file", file]].concat(),
            )
            .await;
            assert_eq!(code, 2, "{program} {file}: {text}");
            assert!(
                text.contains("--admin-token-file: ") && text.contains(file),
                "{text}"
            );
            assert!(!text.contains("hunter2"), "{text}");
        }
    }
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &["token", "alice", "--data-dir", "elsewhere"],
    )
    .await;
    assert!(
        code != 0
            && text.contains("--data-dir elsewhere: ")
            && text.contains("nogoo9 up --data-dir"),
        "{text}"
    );
}

#[tokio::test]
async fn a_cluster_that_does_not_answer() {
    let dir = tempfile::tempdir().unwrap();
    let nowhere = kubeconfig_to_nowhere(dir.path());
    let (code, text) = run(
        dir.path(),
        "nogoo9-control",
        &[&CONTROL[..], &["--kubeconfig", &nowhere]].concat(),
    )
    .await;
    assert!(
        code == 1
            && text.contains(&format!("error: --kubeconfig {nowhere}: "))
            && text.contains("check the address"),
        "{text}"
    );
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &[
            "up",
            "--data-dir",
            "site",
            "--listen",
            "127.0.0.1:0",
            "--kubeconfig",
            &nowhere,
        ],
    )
    .await;
    assert!(
        code == 1 && text.contains(&format!("--kubeconfig {nowhere}: ")),
        "{text}"
    );
    assert!(!text.contains("secret-of-the-kubeconfig"), "{text}");
    std::fs::write(dir.path().join("broken"), "clusters: 7").unwrap();
    for (program, flags) in [
        ("nogoo9-proxy", &PROXY[..]),
        ("nogoo9-control", &CONTROL[..]),
    ] {
        let (code, text) = run(
            dir.path(),
            program,
            &[flags, &["--kubeconfig", "broken"]].concat(),
        )
        .await;
        assert!(
            code != 0 && text.contains("--kubeconfig"),
            "{program}: {text}"
        );
    }
    nothing_left(dir.path()).await;
}

/// The proxy goes on without an API server, which may only be late: it says so, and is not ready.
#[tokio::test]
async fn a_proxy_without_a_cluster_is_not_ready() {
    let _already = rustls::crypto::ring::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let nowhere = kubeconfig_to_nowhere(dir.path());
    let port = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().port()
    };
    let admin = format!("127.0.0.1:{port}");
    let mut flags = PROXY.to_vec();
    flags[3] = &admin;
    let mut proxy = Command::new(binary("nogoo9-proxy").unwrap())
        .args(&flags)
        .args(["--kubeconfig", &nowhere])
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let ready = until("an answer of the admin listener", SOON, || async {
        let answer = reqwest::get(format!("http://{admin}/readyz")).await;
        Ok(match answer {
            Ok(answer) => Observation::Holds((answer.status().as_u16(), answer.text().await?)),
            Err(error) => Observation::NotYet(error.to_string()),
        })
    })
    .await
    .unwrap();
    assert!(ready.0 == 503 && ready.1.contains("pods"), "{ready:?}");
    Process::of(proxy.id().unwrap().try_into().unwrap())
        .unwrap()
        .signal(nix::sys::signal::Signal::SIGTERM)
        .unwrap();
    let status = tokio::time::timeout(SOON, proxy.wait())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn ports_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = taken.local_addr().unwrap().to_string();
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &[
            "up",
            "--data-dir",
            "site",
            "--listen",
            &addr,
            "--ready-file",
            "ready",
        ],
    )
    .await;
    assert!(
        code == 1 && text.contains(&format!("--listen {addr}: the port is in use; stop")),
        "{text}"
    );
    assert!(!dir.path().join("ready").exists());
    for flag in [1, 3] {
        let mut flags = PROXY.to_vec();
        flags[flag] = &addr;
        let nowhere = kubeconfig_to_nowhere(dir.path());
        let (code, text) = run(
            dir.path(),
            "nogoo9-proxy",
            &[&flags[..], &["--kubeconfig", &nowhere]].concat(),
        )
        .await;
        assert!(
            code == 1 && text.contains(&format!("{} {addr}: the port is in use", flags[flag - 1])),
            "{text}"
        );
    }
    nothing_left(dir.path()).await;
}

#[tokio::test]
async fn places_that_local_mode_refuses() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("photos")).unwrap();
    std::fs::write(dir.path().join("photos/cat.jpg"), "meow").unwrap();
    for (args, word) in [
        (
            ["--data-dir", "site", "--listen", "0.0.0.0:0"],
            "--listen 0.0.0.0:0: ",
        ),
        (
            ["--data-dir", "photos", "--listen", "127.0.0.1:0"],
            "--data-dir photos: ",
        ),
        (
            ["--data-dir", "photos/cat.jpg", "--listen", "127.0.0.1:0"],
            "--data-dir photos/cat.jpg: ",
        ),
    ] {
        let (code, text) = run(dir.path(), "nogoo9", &[&["up"], &args[..]].concat()).await;
        assert!(code == 1 && text.contains(word), "{text}");
    }
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &[
            "up",
            "--data-dir",
            "new",
            "--listen",
            "127.0.0.1:0",
            "--ready-file",
            "no/such/folder",
        ],
    )
    .await;
    assert!(
        code == 1 && text.contains("--ready-file ") && text.contains("no/such/folder: "),
        "{text}"
    );
    assert_eq!(
        std::fs::read_to_string(dir.path().join("photos/cat.jpg")).unwrap(),
        "meow"
    );
    nothing_left(dir.path()).await;
}

#[tokio::test]
async fn one_instance_a_folder() {
    let site = Site::up(Options::default()).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let data = site.data_dir().display().to_string();
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &["up", "--data-dir", &data, "--listen", "127.0.0.1:0"],
    )
    .await;
    let pid = site.pid("up").unwrap().unwrap().to_string();
    assert!(
        code == 1 && text.contains(&format!("--data-dir {data}")) && text.contains(&pid),
        "{text}"
    );
    // The one that runs has not noticed.
    let capabilities = site
        .api("alice")
        .await
        .unwrap()
        .get("/api/v1/capabilities")
        .await
        .unwrap();
    assert_eq!(
        (capabilities.status, &capabilities.body["sub"]),
        (200, &serde_json::json!("alice"))
    );
    let (code, text) = run(
        dir.path(),
        "nogoo9",
        &["token", "mallory", "--data-dir", &data],
    )
    .await;
    assert!(
        code == 1 && text.contains("mallory") && text.contains("alice"),
        "names who there is: {text}"
    );
    site.stop().await.unwrap();
}

/// Stopped at any moment of its start, it leaves nothing.
#[tokio::test]
async fn stopped_while_it_starts() {
    for wait_for in [
        "data/up.lock",
        "data/logs/apiserver.log",
        "data/logs/proxy.log",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let mut up = Command::new(binary("nogoo9").unwrap())
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(dir.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        until(wait_for, SOON, || async {
            Ok(Observation::when(
                dir.path().join(wait_for).exists(),
                (),
                "not there",
            ))
        })
        .await
        .unwrap();
        Process::of(up.id().unwrap().try_into().unwrap())
            .unwrap()
            .signal(nix::sys::signal::Signal::SIGTERM)
            .unwrap();
        tokio::time::timeout(SOON, up.wait())
            .await
            .unwrap()
            .unwrap();
        nothing_left(dir.path()).await;
    }
}
