//! A session that is ended.

use crate::page::Page;
use crate::world::{CONSOLE, MINUTE, World};
use serde_json::json;

/// Lets a quarter of an hour pass, by the minute, with pages that ask all along; returns in which
/// minute each of them was first refused.
async fn quarter_of_an_hour(world: &World, pages: &mut [&mut Page]) -> Vec<Option<i64>> {
    let mut refused = vec![None; pages.len()];
    for minute in 1..=15 {
        world.pass(MINUTE);
        for (page, refused) in pages.iter_mut().zip(&mut refused) {
            match (page.poll().await, *refused) {
                (401, None) => *refused = Some(minute),
                (401, Some(_)) | (200, None) => {}
                (status, _) => panic!("{status} in minute {minute}"),
            }
        }
    }
    refused
}

/// A while in which all is well.
async fn some_time(world: &World, page: &mut Page) {
    for _ in 0..8 {
        world.pass(4 * MINUTE);
        assert_eq!(page.poll().await, 200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_disabled_at_the_provider_is_out_within_a_quarter_of_an_hour() {
    let world = World::start().await;
    let mut page = world.page(0).await;
    some_time(&world, &mut page).await;
    let mut there = page.by(world.proxies[1]);
    let (socket, stream) = (page.socket().await, page.stream().await);
    let (silent, quiet) = (there.socket().await, there.stream().await);
    world.provider.whims(|whims| {
        let no = json!({"error": "invalid_grant"}).to_string();
        whims.no_refresh = Some((400, no));
    });
    // By the other proxy nobody asks: its socket and its stream are silent.
    let refused = quarter_of_an_hour(&world, &mut [&mut page]).await;
    assert!(refused.iter().all(Option::is_some), "{refused:?}");
    assert_eq!(socket.closed().await, 1008);
    assert_eq!(silent.closed().await, 1008);
    stream.broken_off().await;
    quiet.broken_off().await;
    assert_eq!(there.poll().await, 401);
    // That the provider thinks better of it changes nothing: they sign in again.
    world.provider.whims(|whims| whims.no_refresh = None);
    assert_eq!(page.poll().await, 401);
    assert_eq!(page.refused_socket().await, 401);
    let mut again = world.page(1).await;
    assert_eq!(again.poll().await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn signing_out_ends_it_at_once_there_and_within_a_quarter_of_an_hour_everywhere() {
    let world = World::start().await;
    let mut page = world.page(0).await;
    let mut another_browser = world.page(0).await;
    some_time(&world, &mut page).await;
    let mut there = page.by(world.proxies[1]);
    let (here_socket, there_socket) = (page.socket().await, there.socket().await);
    let stream = there.stream().await;
    page.sign_out().await;
    assert!(!page.has_session(CONSOLE));
    let hash = "A".repeat(43);
    let open = format!("/auth/open?host=dev.localhost%3A9009&return=%2F&n={hash}");
    let to = page.navigate(CONSOLE, &open).await.unwrap();
    assert!(to.starts_with("/auth/login?"), "{to}");
    let refused = quarter_of_an_hour(&world, &mut [&mut page, &mut there]).await;
    assert!(refused.iter().all(Option::is_some), "{refused:?}");
    assert_eq!(here_socket.closed().await, 1008);
    assert_eq!(there_socket.closed().await, 1008);
    stream.broken_off().await;
    // Another browser of the same person is another session.
    assert_eq!(another_browser.poll().await, 200);
}
