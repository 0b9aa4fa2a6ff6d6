//! The folder of files.

use crate::support::{Sample, page};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::process::Command;

#[tokio::test]
async fn files_are_kept_whole_within_their_folder_and_bounds() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let sample = Sample::start(&[("NOGOO9_SAMPLE_DATA", folder)]);
    let client = reqwest::Client::new();
    let put = async |name: &str, body: Vec<u8>| {
        let answer = client.put(sample.url(&format!("/files/{name}"))).body(body);
        let answer = answer.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(1_000_003).collect();
    let (status, kept) = put("all.bin", bytes.clone()).await;
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(&bytes));
    assert_eq!(status, 200);
    assert_eq!(
        kept,
        json!({"name": "all.bin", "bytes": 1_000_003, "sha256": sha256})
    );
    let back = reqwest::get(sample.url("/files/all.bin")).await.unwrap();
    assert_eq!(back.headers()["content-type"], "application/octet-stream");
    assert_eq!(
        back.headers()["content-disposition"],
        "attachment; filename=\"all.bin\""
    );
    assert!(back.bytes().await.unwrap() == bytes);
    assert_eq!(put("all.bin", b"again".to_vec()).await.0, 200);
    assert_eq!(put("notes.txt", Vec::new()).await.0, 200);
    let listed =
        json!({"files": [{"name": "all.bin", "bytes": 5}, {"name": "notes.txt", "bytes": 0}]});
    assert_eq!(sample.json("/files").await, listed);

    // What is in the folder and was not put there.
    std::fs::write(data.path().join(".hidden"), "x").unwrap();
    std::fs::create_dir(data.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", data.path().join("link")).unwrap();
    for (name, expected) in [
        ("..%2f..%2fetc%2fpasswd", 400),
        (".hidden", 400),
        ("a%20b", 400),
        ("folder", 404),
        ("link", 404),
        ("nothing", 404),
    ] {
        assert_eq!(
            sample.status(&format!("/files/{name}")).await,
            expected,
            "{name}"
        );
    }
    assert_eq!(put("..%2fout", b"x".to_vec()).await.0, 400);
    assert!(!data.path().parent().unwrap().join("out").exists());
    assert_eq!(sample.json("/files").await, listed);

    let (status, said) = put("large", vec![0; 16 * 1024 * 1024 + 1]).await;
    assert_eq!(status, 413, "{said}");
    let left: Vec<_> = std::fs::read_dir(data.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with(".upload"))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let deleted = client.delete(sample.url("/files/all.bin")).send().await;
    assert_eq!(deleted.unwrap().status(), 204);
    assert_eq!(sample.status("/files/all.bin").await, 404);
    for n in 0..200 {
        std::fs::write(data.path().join(format!("f{n}")), "").unwrap();
    }
    assert_eq!(put("one-more", Vec::new()).await.0, 507);
    assert_eq!(
        put("notes.txt", b"still".to_vec()).await.0,
        200,
        "no new one"
    );
    assert!(page(&sample).await.contains("id=\"notes\""));

    let without = Sample::start(&[]);
    assert_eq!(without.status("/files").await, 404);
    assert!(!page(&without).await.contains("id=\"notes\""));
}

#[tokio::test]
async fn a_folder_of_files_has_one_writer_if_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let env = [("NOGOO9_SAMPLE_DATA", folder), ("LOCK_DATA", "1")];
    let mut first = Sample::start(&env);
    let second = Command::new(env!("CARGO_BIN_EXE_nogoo9-sample"))
        .env_clear()
        .envs(env)
        .envs([("POD_NAME", "ws-second"), ("PORT", "0")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stdout).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains("two pods have the volume at once"), "{said}");
    // Whoever has it can tell of it, and the lock itself is no file of the user.
    assert_eq!(
        first.json("/files").await,
        json!({"files": [{"name": "two-writers-ws-second", "bytes": 0}]})
    );
    // However it ends, it lets go.
    first.child.kill().unwrap();
    first.wait().await;
    let third = Sample::start(&env);
    assert_eq!(third.status("/healthz").await, 200);
}
