//! The watch against a small HTTP server that can fail the ways an API server does.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "tests and their helpers"
)]

mod past;
mod server;

use nogoo9_watch::Config;
use server::{Harness, Watches};
use std::time::Duration;

/// Longest wait for anything in these tests.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn lists_then_follows() {
    let mut h = Harness::start(&[("a", "1"), ("b", "2")], Watches::Work, Config::default()).await;
    assert_eq!(h.until_synced().await, ["+a", "+b"]);
    h.watch.synced().await;
    h.watched().await;
    h.server().put("c", "3");
    assert_eq!(h.next().await, "+c");
    h.server().delete("a");
    assert_eq!(h.next().await, "-a");
    assert_eq!(h.names(), ["b", "c"]);
    let b = h.watch.store().get("ns", "b").unwrap();
    assert_eq!(b.metadata.managed_fields, None);
    let counts = h.watch.status().counts();
    assert_eq!((counts.events, counts.lists, counts.failures), (2, 1, 0));
}

#[tokio::test]
async fn a_watch_refused_with_410_ends_in_a_relist() {
    let config = Config {
        max_failures: 2,
        ..Config::default()
    };
    let mut h = Harness::start(&[("a", "1"), ("b", "2")], Watches::Gone, config).await;
    assert_eq!(h.until_synced().await, ["+a", "+b"]);
    h.server().delete("a");
    h.server().put("c", "3");
    assert_eq!(h.until_synced().await, ["+c", "-a"]);
    assert!(h.watch.status().counts().restarts >= 1);
    h.server().watches = Watches::Work;
    h.watched().await;
    h.server().put("d", "4");
    // A relist that was under way may deliver it before the watch does.
    while h.next().await != "+d" {}
    assert_eq!(h.names(), ["b", "c", "d"]);
}

#[tokio::test]
async fn a_silent_watch_is_overtaken_by_the_periodic_relist() {
    let config = Config {
        relist_every: Duration::from_millis(300),
        ..Config::default()
    };
    let mut h = Harness::start(&[("a", "1"), ("b", "1")], Watches::Silent, config).await;
    assert_eq!(h.until_synced().await, ["+a", "+b"]);
    h.watched().await;
    h.server().delete("a");
    // A relist that read before the delete delivers nothing.
    let mut changes = h.until_synced().await;
    while changes.is_empty() {
        changes = h.until_synced().await;
    }
    assert_eq!(changes, ["-a"]);
}

#[tokio::test]
async fn what_is_known_outlives_the_server() {
    let mut h = Harness::start(&[("a", "1"), ("b", "2")], Watches::Work, Config::default()).await;
    h.until_synced().await;
    h.watched().await;
    h.server().go(Watches::Down);
    h.until("a failure", |h| h.watch.status().is_failing())
        .await;
    assert_eq!(h.names(), ["a", "b"]);
    h.server().delete("b");
    h.server().put("c", "3");
    h.server().go(Watches::Work);
    // The server's log of events is gone with it, so only a full list can tell.
    let mut seen = Vec::new();
    while seen.len() < 2 {
        let change = h.next().await;
        if change != "=" {
            seen.push(change);
        }
    }
    seen.sort();
    assert_eq!(seen, ["+c", "-b"]);
    assert_eq!(h.names(), ["a", "c"]);
}

#[tokio::test]
async fn a_watch_told_410_half_way_ends_in_a_relist() {
    let mut h = Harness::start(&[("a", "1")], Watches::Work, Config::default()).await;
    h.until_synced().await;
    h.watched().await;
    {
        let mut server = h.server();
        server.forget();
        // Nobody hears of these but by a list.
        server.delete("a");
        server.put("b", "2");
    }
    assert_eq!(h.until_synced().await, ["+b", "-a"]);
}

#[tokio::test]
async fn a_watch_that_ends_after_each_event_misses_none() {
    let mut h = Harness::start(&[], Watches::One, Config::default()).await;
    h.until_synced().await;
    for n in 0..30 {
        h.watched().await;
        let name = format!("o{n}");
        h.server().put(&name, "1");
        assert_eq!(h.next().await, format!("+{name}"));
    }
    let counts = h.watch.status().counts();
    assert_eq!((counts.events, counts.lists, counts.failures), (30, 1, 0));
    assert_eq!(h.server().lists, 1);
}

/// A server that sends bookmarks and is then silent for a whole watch has lost track of it: the
/// periodic list is not waited for.
#[tokio::test]
async fn a_silent_watch_of_a_server_that_speaks_is_overtaken_at_its_end() {
    let config = Config {
        watch_seconds: 1,
        ..Config::default()
    };
    let mut h = Harness::start(&[("a", "1"), ("b", "1")], Watches::Work, config).await;
    h.until_synced().await;
    h.watched().await;
    h.server().bookmark();
    h.server().watches = Watches::Silent;
    h.server().delete("a");
    assert_eq!(h.differences().await, ["-a"]);
    assert!(h.watch.status().counts().failures == 0, "silence is none");
}

#[tokio::test]
async fn a_bookmark_proves_what_is_known() {
    let mut h = Harness::start(&[("a", "1")], Watches::Work, Config::default()).await;
    h.until_synced().await;
    h.watched().await;
    let status = h.watch.status();
    let old = Duration::from_millis(50);
    h.until("some age", |_| status.age() > old).await;
    h.server().bookmark();
    h.until("the proof", |_| status.age() < old).await;
    // An answer that tells nothing proves nothing.
    h.server().go(Watches::Silent);
    h.watched().await;
    h.until("some age", |_| status.age() > old).await;
    h.until("the answer", |_| !status.is_failing()).await;
}

#[tokio::test]
async fn a_list_comes_in_pages_and_whole_where_those_expire() {
    let names: Vec<String> = (0..25).map(|n| format!("o{n:02}")).collect();
    let objects: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "1")).collect();
    let config = Config {
        page_size: 10,
        ..Config::default()
    };
    let mut h = Harness::start(&objects, Watches::Work, config).await;
    assert_eq!(h.until_synced().await.len(), 25);
    assert_eq!(h.server().asked(), (1, 3));
    h.watched().await;
    h.server().expires = true;
    h.server().put("o99", "1");
    assert_eq!(h.next().await, "+o99");
    {
        let mut server = h.server();
        server.forget();
        server.delete("o00");
    }
    assert_eq!(h.differences().await, ["-o00"]);
    // The first page of one that broke off, and one in one piece.
    assert_eq!(h.server().asked(), (3, 5));
    assert_eq!(h.names().len(), 25);
}

/// One in one piece may be more than a server has; then pages are asked for again.
#[tokio::test]
async fn pages_are_tried_again_where_a_whole_list_does_not_come() {
    let config = Config {
        page_size: 1,
        ..Config::default()
    };
    let mut h = Harness::start(&[("a", "1"), ("b", "1")], Watches::Work, config).await;
    h.until_synced().await;
    h.watched().await;
    {
        let mut server = h.server();
        (server.expires, server.no_whole) = (true, true);
        server.forget();
        server.delete("a");
        server.put("c", "1");
    }
    h.until("a list in one piece, refused", |h| h.server().refused > 0)
        .await;
    h.server().expires = false;
    assert_eq!(h.differences().await, ["+c", "-a"]);
}

/// A watch that begins and fails, or says what is known and ends, again and again, is not begun ever anew
/// at the same pace.
#[tokio::test]
async fn watches_that_begin_and_fail_are_counted_until_one_is_heard() {
    for watches in [Watches::Break, Watches::Repeat] {
        counted_until_one_is_heard(watches).await;
    }
}

async fn counted_until_one_is_heard(watches: Watches) {
    let config = Config {
        max_failures: 2,
        ..Config::default()
    };
    let mut h = Harness::start(&[("a", "1")], watches, config).await;
    h.until_synced().await;
    // So often in a row is it given up, for a list; and that proves nothing.
    for _ in 0..2 {
        assert_eq!(h.until_synced().await, [""; 0]);
    }
    let counts = h.watch.status().counts();
    assert_eq!((counts.lists, counts.failures), (3, 4));
    h.server().watches = Watches::Work;
    h.server().put("b", "1");
    while h.next().await != "+b" {}
}

/// As many objects as there may be workspaces; by default a tenth part of a tenth.
#[tokio::test]
async fn a_long_list_is_taken_in_page_by_page_and_again_without_a_change() {
    let many = match std::env::var("NOGOO9_TEST_EDGE").as_deref() {
        Ok("all") => 100_000,
        _ => 3_000,
    };
    let names: Vec<String> = (0..many).map(|n| format!("o{n:06}")).collect();
    let objects: Vec<(&str, &str)> = names.iter().map(|name| (&**name, "1")).collect();
    let began = std::time::Instant::now();
    let mut h = Harness::start(&objects, Watches::Work, Config::default()).await;
    assert_eq!(h.until_synced().await.len(), many);
    let first = began.elapsed();
    assert_eq!(h.server().asked(), (1, many / 500));
    h.watched().await;
    {
        let mut server = h.server();
        server.forget();
        server.delete("o000007");
    }
    let began = std::time::Instant::now();
    assert_eq!(h.differences().await, ["-o000007"]);
    println!(
        "{many} objects: first list {first:?}, list again {:?}",
        began.elapsed()
    );
    assert_eq!(h.watch.store().len(), many - 1);
}
