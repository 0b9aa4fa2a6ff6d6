use serde_json::{Value, json};

use super::*;

fn latency() -> Value {
    json!({"count": 9, "minUs": 1, "meanUs": 2, "p50Us": 640, "p90Us": 3, "p99Us": 4_125, "p999Us": 5, "maxUs": 60_000})
}

fn label(pod: &str, last_sent_us: u64) -> Value {
    json!({"label": pod, "answers": 9, "firstSequence": 1, "lastSequence": 9, "firstSentUs": 1,
           "lastSentUs": last_sent_us, "firstSeenUs": 70, "lastSeenUs": last_sent_us + 1})
}

fn http(failures: u64, labels: &[Value]) -> HttpReport {
    let sample = json!({"sequence": 4, "phase": "during", "kind": "resetInBody", "sentUs": 1_500_000,
        "endedUs": 1_600_000, "connection": 3, "reused": true, "detail": "in the body of a 200 OK"});
    let samples = if failures == 0 { vec![] } else { vec![sample] };
    serde_json::from_value(json!({
        "startedUs": 0, "endedUs": 9, "requests": 1234, "failures": failures, "failuresByKind": {},
        "staleRetries": 0, "staleUnsent": 0, "connectionsOpened": 1, "bodyBytes": 0, "maxLagUs": 0,
        "latency": latency(), "labels": labels, "unlabelled": 0, "samples": samples, "samplesOmitted": 0,
        "phases": [{"phase": "before", "requests": 1234, "failures": failures, "latency": latency()}],
        "marks": [], "marksOmitted": 0,
    }))
    .unwrap()
}

fn socket(lost: u64) -> EchoReport {
    serde_json::from_value(json!({
        "kind": "echo", "pod": null, "openedUs": 0, "closedUs": 9, "sent": 50, "echoed": 50 - lost, "lost": lost,
        "reordered": 0, "duplicated": 0, "foreign": 0, "foreignSample": null, "roundTrip": latency(),
        "longestGapUs": 0, "longestGapAtUs": 0, "error": null,
        "close": {"by": "client", "code": 1000, "reason": "done"},
    }))
    .unwrap()
}

fn upgrade(pod: &str, previous: &str) -> UpgradeReport {
    UpgradeReport {
        workspace: "dev".into(),
        operation_id: "op-1".into(),
        pod_name: pod.into(),
        previous_pod_name: previous.into(),
        started_us: 10,
        answered_us: 20,
        first_answer_us: None,
        switch_us: None,
        committed_us: 100,
        moved_us: 150,
        done_us: 200,
    }
}

fn act(mode: Mode, failures: u64, labels: &[Value]) -> ActReport {
    let closed = |fate, lost| Closed {
        opened_in: BEFORE,
        fate,
        report: socket(lost),
    };
    let sockets = vec![closed(Fate::Kept, 0), closed(Fate::SentBack, 2)];
    let facts = Facts {
        upgrades: vec![upgrade("new", "old")],
        bulk: None,
        held: 7,
    };
    ActReport::new(mode, 1, facts, http(failures, labels), sockets, Vec::new())
}

#[test]
fn nothing_to_notice() {
    let act = act(Mode::SideBySide, 0, &[label("old", 100), label("new", 900)]);
    assert_eq!(act.problems, [""; 0]);
    assert_eq!(act.upgrades[0].first_answer_us, Some(70));
    assert_eq!(
        act.upgrades[0].switch_us,
        Some(0),
        "the old pod still answered when the new one already did"
    );
    let json = serde_json::to_value(&act).unwrap();
    assert_eq!(json["mode"], "side-by-side");
    assert_eq!(json["sockets"][1]["openedIn"], "before");
    assert_eq!(json["sockets"][1]["fate"], "sentBack");
    assert_eq!(json["socketTotals"]["lost"], 2);
}

#[test]
fn a_switch_lasts_from_the_last_old_answer_to_the_first_new_one() {
    let mut old = label("old", 20);
    old["lastSeenUs"] = json!(30);
    let act = act(Mode::Recreate, 0, &[old, label("new", 900)]);
    assert_eq!(act.upgrades[0].switch_us, Some(40));
}

#[test]
fn what_users_would_notice_is_a_problem_each() {
    let problems = |failures, labels: &[Value]| act(Mode::SideBySide, failures, labels).problems;
    assert_eq!(
        problems(0, &[label("old", 101), label("new", 900)]),
        ["requests reached old although new had taken over"]
    );
    assert_eq!(
        problems(0, &[label("old", 100)]),
        ["no request reached new"]
    );
    let failed = problems(1, &[label("old", 100), label("new", 900)]);
    assert_eq!(failed.len(), 2);
    assert_eq!(failed[0], "1 of 1234 requests failed");
    assert_eq!(
        failed[1],
        "request 4 (during, 1.500 s after the start, connection 3): reset in the body: in the body of a 200 OK"
    );
}

#[test]
fn a_problem_names_its_act() {
    let mut report = DemoReport::default();
    let act = act(Mode::Recreate, 0, &[label("old", 100)]);
    report.add(Played::Upgrades(Box::new(act)));
    assert_eq!(report.problems, ["recreate: no request reached new"]);
    assert_eq!(report.requests(), 1234);
}

#[test]
fn a_sentence_and_a_table_an_act() {
    let mut report = DemoReport::default();
    for mode in [Mode::SideBySide, Mode::Recreate] {
        let act = act(mode, 0, &[label("old", 100), label("new", 900)]);
        report.add(Played::Upgrades(Box::new(act)));
    }
    let text = report.to_string();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("Side by side: 1 upgrades"), "{text}");
    let cells: Vec<Vec<&str>> = lines[3..]
        .iter()
        .map(|line| {
            let cells = line.split("  ").map(str::trim);
            cells.filter(|cell| !cell.is_empty()).collect()
        })
        .collect();
    let row = [
        "1234", "0", "0.64 ms", "4.12 ms", "60.00 ms", "1 of 2", "1", "100", "2",
    ];
    assert_eq!(cells[0].len(), row.len());
    assert_eq!(cells[2], [&["before"][..], &row].concat());
    assert_eq!(cells[3], [&["total"][..], &row].concat());
    assert!(text.contains("7 requests were held"), "{text}");
}
