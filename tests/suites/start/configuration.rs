//! Flags, file, environment and the files that they name.

use super::{CONTROL, PROXY, run};

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
