//! Answers from the past: caches that lag behind, and a database that was put back to an older copy.

use crate::server::{Harness, Watches};
use nogoo9_watch::Config;

/// For whoever acts on what objects say of the world outside, as the routing table does.
fn distrustful() -> Config {
    Config {
        distrust_restored: true,
        ..Config::default()
    }
}

/// Two servers behind one address, and the cache of the one that answers lags behind.
#[tokio::test]
async fn a_list_older_than_what_was_seen_is_not_taken_in() {
    let mut h = Harness::start(&[("a", "1"), ("b", "1")], Watches::Work, Config::default()).await;
    h.until_synced().await;
    h.watched().await;
    let old = h.server().snapshot();
    h.server().delete("a");
    h.server().put("c", "1");
    assert_eq!((h.next().await, h.next().await), ("-a".into(), "+c".into()));
    h.server().cache = Some(old);
    h.server().forget();
    h.until("two old lists", |h| {
        h.watch.status().counts().went_back >= 2
    })
    .await;
    assert_eq!(h.names(), ["b", "c"], "as it was known");
    h.server().delete("b");
    h.server().cache = None;
    assert_eq!(h.until_synced().await, ["-b"]);
    let counts = h.watch.status().counts();
    assert_eq!((counts.lists, counts.restores), (2, 0));
}

#[tokio::test]
async fn an_event_older_than_what_was_seen_is_not_taken_in() {
    let mut h = Harness::start(&[("a", "1"), ("b", "1")], Watches::Work, Config::default()).await;
    h.until_synced().await;
    h.watched().await;
    h.server().delete("b");
    assert_eq!(h.next().await, "-b");
    // As a server would that begins at an earlier version than it was asked for.
    h.server().send_raw("ADDED", "b", "1", 12);
    assert_eq!(h.until_synced().await, [""; 0], "a list finds nothing new");
    assert_eq!(h.names(), ["a"]);
    assert_eq!(h.watch.status().counts().went_back, 1);
    h.watched().await;
    h.server().put("c", "1");
    assert_eq!(h.next().await, "+c");
}

/// `gone` was deleted after the copy was made, `new` made after it, `changed` changed after it.
async fn restored(config: Config) -> Harness {
    let names = [("gone", "1"), ("changed", "1"), ("same", "1")];
    let mut h = Harness::start(&names, Watches::Work, config).await;
    h.until_synced().await;
    h.watched().await;
    let copy = h.server().snapshot();
    h.server().delete("gone");
    h.server().put("changed", "1");
    h.server().put("new", "2");
    for wanted in ["-gone", "+changed", "+new"] {
        assert_eq!(h.next().await, wanted);
    }
    h.server().restore(copy);
    h
}

#[tokio::test]
async fn a_restored_server_is_found_out_and_converged_to() {
    let config = Config {
        watch_seconds: 1,
        ..Config::default()
    };
    let mut h = restored(config).await;
    // A server that has never sent a bookmark may be silent; it is the refusal that gives it away.
    h.watched().await;
    h.server().forget();
    assert_eq!(
        h.differences().await,
        ["+changed", "+gone", "+same", "-new"]
    );
    let counts = h.watch.status().counts();
    assert_eq!(counts.restores, 1);
    assert_eq!(counts.went_back, 4, "lists that were not believed");
    h.watched().await;
    h.server().put("later", "1");
    assert_eq!(h.next().await, "+later");
}

/// The watch goes on from a version that is beyond the restored server's present: it is silent, and
/// says nothing for as long. That it does not even send bookmarks tells.
#[tokio::test]
async fn a_watch_beyond_the_present_is_found_out_by_its_silence() {
    let config = Config {
        watch_seconds: 1,
        ..Config::default()
    };
    let names = [("a", "1")];
    let mut h = Harness::start(&names, Watches::Work, config).await;
    h.until_synced().await;
    h.watched().await;
    let copy = h.server().snapshot();
    for _ in 0..5 {
        h.server().put("a", "1");
        assert_eq!(h.next().await, "+a");
    }
    h.server().bookmark();
    h.server().restore(copy);
    h.watched().await;
    h.server().put("b", "1");
    h.server().bookmark();
    assert_eq!(h.differences().await, ["+a", "+b"]);
    assert_eq!(h.watch.status().counts().restores, 1);
}

#[tokio::test]
async fn whoever_distrusts_it_hears_nothing_of_the_past() {
    let mut h = restored(distrustful()).await;
    h.watched().await;
    h.server().forget();
    assert_eq!(h.differences().await, ["-new"]);
    assert_eq!(h.names(), ["changed", "same"]);
    // What changes from then on is of the present, although its number is smaller.
    h.watched().await;
    assert!(h.server().version < 15);
    h.server().put("gone", "1");
    assert_eq!(h.next().await, "+gone");
    // The next list has the last word, on all that it was not heard of since.
    h.watched().await;
    h.server().forget();
    assert_eq!(h.differences().await, ["+changed", "+same"]);
    assert_eq!(h.watch.status().counts().restores, 1);
}
