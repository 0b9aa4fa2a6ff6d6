use super::*;
use std::collections::BTreeSet;
use std::io::Write;
use std::sync::{Arc, Mutex as Lock};
use tracing_subscriber::fmt::MakeWriter;

/// Lines, as a subscriber writes them.
#[derive(Clone, Default)]
struct Lines(Arc<Lock<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

fn logged(record: &Record<'_>) -> (String, serde_json::Value) {
    let (text, json) = (Lines::default(), Lines::default());
    let subscriber = tracing_subscriber::fmt()
        .with_writer(text.clone())
        .with_ansi(false)
        .finish();
    tracing::subscriber::with_default(subscriber, || write(record));
    let subscriber = tracing_subscriber::fmt()
        .with_writer(json.clone())
        .json()
        .flatten_event(true)
        .finish();
    tracing::subscriber::with_default(subscriber, || write(record));
    let taken = |lines: &Lines| String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    (taken(&text), serde_json::from_str(&taken(&json)).unwrap())
}

fn record() -> Record<'static> {
    Record {
        what: What::WorkspaceStop,
        who: Some("alice"),
        from: Some("203.0.113.9".parse().unwrap()),
        how: How::Bearer,
        object: Some("dev"),
        outcome: Outcome::Ok,
        request: None,
    }
}

#[test]
fn a_record_is_one_line_with_all_of_its_fields() {
    let (text, json) = logged(&record());
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    assert!(
        text.ends_with(
            " INFO audit: audit what=\"workspace.stop\" who=\"alice\" from=\"203.0.113.9\" \
             how=\"bearer\" object=\"dev\" result=\"ok\"\n"
        ),
        "{text}"
    );
    for (field, value) in [
        ("target", "audit"),
        ("message", "audit"),
        ("what", "workspace.stop"),
        ("who", "alice"),
        ("from", "203.0.113.9"),
        ("how", "bearer"),
        ("object", "dev"),
        ("result", "ok"),
    ] {
        assert_eq!(json[field], value, "{field} of {json}");
    }
    assert!(json.get("reason").is_none() && json.get("request").is_none());
}

#[test]
fn what_clients_wrote_cannot_forge_a_field_or_leak_a_token() {
    let (text, json) = logged(&Record {
        who: Some("eve\" result=\"ok\nINFO audit: audit"),
        object: Some("ng9_secretsecret"),
        outcome: Outcome::Refused("access_denied"),
        request: Some("a\u{1b}[31m"),
        ..record()
    });
    assert_eq!(text.matches('\n').count(), 1, "{text}");
    assert_eq!(text.matches("result=\"").count(), 1, "{text}");
    assert!(
        !text.contains("secret") && !text.contains('\u{1b}'),
        "{text}"
    );
    assert_eq!(json["object"], "(withheld)");
    assert_eq!(json["result"], "refused");
    assert_eq!(json["reason"], "access_denied");
    assert_eq!(json["request"], "a%1B[31m");
    assert_eq!(json["who"], "eve%22%20result=%22ok%0AINFO%20audit:%20audit");
}

#[test]
fn every_word_is_there_once() {
    let words: BTreeSet<_> = What::ALL.iter().map(|what| what.as_str()).collect();
    assert_eq!(words.len(), What::ALL.len());
}

/// `docs/audit.md`, as the code has it.
fn document() -> String {
    let rows = |all: Vec<(&str, &str)>| {
        all.into_iter()
            .map(|(word, means)| format!("| `{word}` | {means} |\n"))
            .collect::<String>()
    };
    let what = What::ALL.iter().map(|what| (what.as_str(), what.means()));
    let how = How::ALL.iter().map(|how| (how.as_str(), how.means()));
    include_str!("document.md")
        .replace("{what}\n", &rows(what.collect()))
        .replace("{how}\n", &rows(how.collect()))
}

#[test]
fn the_documentation_says_what_the_code_does() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/audit.md");
    let document = document();
    if std::env::var_os("NOGOO9_BLESS").is_some() {
        std::fs::write(path, &document).unwrap();
    }
    let there = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        there == document,
        "docs/audit.md is not what the code says; print it anew by: \
         NOGOO9_BLESS=1 cargo test -p nogoo9-runtime audit"
    );
}
