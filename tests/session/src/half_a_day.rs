//! A session that goes on.

use crate::world::{HALF_A_DAY, MINUTE, WORKSPACE, World};

/// How often a page asks.
const EVERY: i64 = 4 * MINUTE;

#[tokio::test(flavor = "multi_thread")]
async fn a_page_with_only_xhr_and_a_socket_lives_for_half_a_day() {
    let world = World::start().await;
    let ends = world.now() + HALF_A_DAY;
    let mut page = world.page(0).await;
    let mut socket = page.socket().await;
    while world.now() + EVERY < ends {
        world.pass(EVERY);
        let minutes = (world.now() - ends + HALF_A_DAY) / MINUTE;
        assert_eq!(page.poll().await, 200, "after {minutes} min");
        socket.echo(&format!("{minutes} min")).await;
    }
    world.pass(ends - world.now() - 1);
    assert_eq!(page.poll().await, 200);
    socket.echo("the last moment").await;
    world.pass(1);
    assert_eq!(page.poll().await, 401);
    assert_eq!(socket.closed().await, 1008);
    assert_eq!(page.refused_socket().await, 401);
    // A person is led to sign in.
    let to = page.navigate(WORKSPACE, "/").await.unwrap();
    assert!(to.contains("/auth/open?"), "{to}");
    // The provider was asked every ten minutes at most, and each of its tokens was used once.
    let used = world.provider.refreshed.lock().unwrap().clone();
    let wanted: Vec<String> = (0..used.len()).map(|n| format!("refresh-{n}")).collect();
    assert_eq!(used, wanted);
    assert!(used.len() < 72, "{}", used.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_socket_alone_lives_for_half_a_day() {
    let world = World::start().await;
    let ends = world.now() + HALF_A_DAY;
    let page = world.page(0).await;
    let mut socket = page.socket().await;
    while world.now() + 20 * MINUTE < ends {
        let before = world.answered();
        for _ in 0..20 {
            world.pass(MINUTE);
            socket.echo("still here").await;
        }
        // Nobody else asks about it. Time waits for what is asked, as it does not elsewhere.
        world.answered_more(before).await;
    }
    world.pass(ends - world.now() - 1);
    socket.echo("the last moment").await;
    world.pass(1);
    assert_eq!(socket.closed().await, 1008);
}
