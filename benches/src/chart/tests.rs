#![allow(clippy::unwrap_used, reason = "tests")]

use serde_json::{Value, json};

use super::*;

fn latency() -> Value {
    json!({"count": 9, "minUs": 1, "meanUs": 2, "p50Us": 640, "p90Us": 3, "p99Us": 4_125, "p999Us": 5, "maxUs": 60_000})
}

fn slice(at_us: u64, failures: u64, max_us: u64) -> Value {
    json!({"atUs": at_us, "requests": 50, "failures": failures, "p50Us": 500, "p99Us": 900, "maxUs": max_us})
}

fn transitions(slices: &[Value]) -> Transitions {
    let upgrade = json!({"workspace": "<dev> & \"co\"", "startedUs": 100_000, "committedUs": 250_000,
                         "doneUs": 400_000, "switchUs": 0});
    serde_json::from_value(json!({"problems": [], "acts": [{
        "mode": "side-by-side", "workspaces": 1, "held": 0, "upgrades": [upgrade], "sockets": [],
        "http": {
            "startedUs": 0, "endedUs": 9, "requests": 9, "failures": 0, "failuresByKind": {},
            "staleRetries": 0, "staleUnsent": 0, "connectionsOpened": 1, "bodyBytes": 0, "maxLagUs": 0,
            "latency": latency(), "labels": [], "unlabelled": 0, "samples": [], "samplesOmitted": 0,
            "phases": [], "marks": [], "marksOmitted": 0, "sliceUs": 100_000, "slices": slices,
        },
    }]}))
    .unwrap()
}

fn count(text: &str, what: &str) -> usize {
    text.matches(what).count()
}

#[test]
fn a_panel_shows_every_slice_and_every_upgrade() {
    let slices = [
        slice(0, 0, 1000),
        slice(100_000, 2, 70_000),
        slice(300_000, 0, 900),
    ];
    let svg = draw(&transitions(&slices));
    // One each is the legend's.
    assert_eq!(count(&svg, r#"<circle class="max""#), 1 + 3);
    assert_eq!(count(&svg, r#"<rect class="bad""#), 1 + 1);
    assert_eq!(count(&svg, r#"<rect class="band""#), 1 + 1);
    assert_eq!(count(&svg, r#"<path class="mark""#), 1 + 1);
    assert!(svg.contains("2 of 50 failed"), "{svg}");
    assert!(svg.contains("Side by side: 1 upgrades of one workspace"));
    // The hole between the second and the third slice is no line.
    let path = svg.split(r#"<path class="p50" d=""#).nth(2).unwrap();
    let path = path.split('"').next().unwrap();
    assert_eq!((count(path, "M"), count(path, "L")), (2, 1), "{path}");
}

#[test]
fn it_is_whole_whatever_is_in_it() {
    for slices in [&[][..], &[slice(0, 50, 0)], &[slice(7, 0, u64::MAX)]] {
        let svg = draw(&transitions(slices));
        assert!(svg.contains("&lt;dev&gt; &amp; &quot;co&quot;"), "{svg}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        for tag in ["svg", "g", "title", "style", "text"] {
            let opened = count(&svg, &format!("<{tag}>")) + count(&svg, &format!("<{tag} "));
            assert_eq!(opened, count(&svg, &format!("</{tag}>")), "{tag}: {svg}");
        }
    }
}
