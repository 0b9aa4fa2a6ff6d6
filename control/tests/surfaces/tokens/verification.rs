//! Whether a token counts, and for whom: as everybody is told, as proxies are, and as often as it is asked.

use super::{DAY, create, tamper, text, with};
use crate::world::World;
use http::{HeaderMap, Method};
use nogoo9_model::personal_token::{self, ENTROPY, PATH};
use serde_json::json;
use tokio::task::JoinHandle;

#[tokio::test]
async fn all_that_do_not_count_are_refused_alike() {
    let world = World::start().await;
    let fresh = async |name: &str| {
        let made = create(&world, "alice", json!({"name": name, "expiresInDays": 1})).await;
        (
            text(&made["token"]).to_owned(),
            text(&made["id"]).to_owned(),
        )
    };
    let (revoked, id) = fresh("revoked").await;
    let path = format!("/tokens/{id}");
    assert_eq!(
        world.api("alice", Method::DELETE, &path, None).await.status,
        200
    );
    let (expired, id) = fresh("expired").await;
    tamper(&world, &id, |kept| {
        kept["expires"] = json!(kept["created"].as_i64().unwrap() - 1);
    })
    .await;
    let list = world.get("alice", "/tokens").await;
    assert_eq!(
        (&list["tokens"][0]["name"], &list["tokens"][0]["expired"]),
        (&json!("expired"), &json!(true))
    );
    // A Secret that says it is another token's.
    let (moved, id) = fresh("moved").await;
    tamper(&world, &id, |kept| {
        let hash = text(&kept["hash"]).to_owned();
        kept["hash"] = json!(format!("{}{}", &hash[..26], "a".repeat(26)));
    })
    .await;
    let (unreadable, id) = fresh("unreadable").await;
    tamper(&world, &id, |kept| *kept = json!({"owner": "admin"})).await;

    let unknown = personal_token::token(&[9; ENTROPY]);
    let mut seen: Vec<(u16, HeaderMap, String)> = Vec::new();
    for token in [
        revoked.as_str(),
        &expired,
        &moved,
        &unreadable,
        &unknown,
        "ng9_",
        "ng9_../../nogoo9-session-keys",
        &unknown.to_uppercase().replace("NG9_", "ng9_"),
        &format!("ng9_{}", "a".repeat(5000)),
    ] {
        let refused = with(&world, token, Method::GET, "/capabilities", None)
            .await
            .without_date();
        seen.push((refused.status.as_u16(), refused.headers, refused.body));
    }
    seen.dedup();
    let [(401, headers, body)] = &seen[..] else {
        panic!("{seen:?}");
    };
    let challenge = headers["www-authenticate"].to_str().unwrap();
    assert!(
        challenge.contains("resource_metadata=") && challenge.contains("error=\"invalid_token\""),
        "{challenge}"
    );
    assert!(!body.contains("ng9_"), "{body}");
    // Two credentials that both are ours prove nothing.
    let (good, _) = fresh("good").await;
    let url = format!("{}/api/v1/capabilities", world.url);
    let both = world.http.get(&url).bearer_auth(&good);
    let both = both.header("authorization", format!("Bearer {}", world.token("admin")));
    assert_eq!(world.send(both).await.status, 401);
    // Under whatever scheme it comes, it is recognised.
    for value in [
        good.clone(),
        format!("token {good}"),
        format!("bearer {good}"),
    ] {
        let request = world.http.get(&url).header("authorization", value);
        assert_eq!(world.send(request).await.status, 200);
    }
}

#[tokio::test]
async fn a_proxy_learns_whom_it_speaks_for_and_no_more() {
    let world = World::start().await;
    let made = create(
        &world,
        "alice",
        json!({"name": "n", "scopes": ["nogoo9:read"]}),
    )
    .await;
    let (token, id) = (text(&made["token"]), text(&made["id"]));
    let url = format!("{}{PATH}", world.url);
    let asked = async |token: &str| world.send(world.http.get(&url).bearer_auth(token)).await;
    let proven = asked(token).await;
    let now = world.cluster().now();
    let told = proven.json();
    assert_eq!(
        (&told["version"], &told["caller"]),
        (
            &json!(1),
            &json!({"sub": "alice", "roles": ["user"], "role": "user", "scopes": ["nogoo9:read"]})
        )
    );
    let left = told["expires"].as_i64().unwrap() - now;
    assert!((29 * DAY..=31 * DAY).contains(&left), "{left}");
    assert_eq!(proven.headers["cache-control"], "no-store");
    for other in [&world.token("alice"), "ng9_x", "x"] {
        let refused = asked(other).await;
        assert_eq!(refused.status, 401, "{}", refused.body);
    }
    let path = format!("/tokens/{id}");
    world.api("alice", Method::DELETE, &path, None).await;
    assert_eq!(asked(token).await.status, 401);
}

#[tokio::test]
async fn a_flood_of_made_up_tokens_does_not_go_through_to_the_api_server() {
    const ONE: &[&str] = &["--auth-failures-per-minute=1"];
    let world = World::start().await;
    let (url, calls) = world.overheard(ONE).await;
    let send = |from: &str, nth: u8| -> JoinHandle<u16> {
        let token = personal_token::token(&[nth; ENTROPY]);
        let request = world.http.get(format!("{url}/api/v1/capabilities"));
        let request = request.bearer_auth(token).header("x-forwarded-for", from);
        tokio::spawn(async move { request.send().await.unwrap().status().as_u16() })
    };
    let (bad, good) = ("203.0.113.9", "203.0.113.10");
    assert_eq!(send(bad, 0).await.unwrap(), 401);
    calls.take();
    calls.hold_tokens(true);
    let flood: Vec<_> = (1..5).map(|nth| send(bad, nth)).collect();
    let asked = async |times| {
        world
            .until("questions", async || calls.tokens() >= times)
            .await;
    };
    asked(2).await;
    // Nobody else waits for them, and they do wait.
    let others: Vec<_> = (5..8).map(|nth| send(good, nth)).collect();
    asked(5).await;
    assert_eq!(calls.tokens(), 5);
    calls.hold_tokens(false);
    for answer in flood.into_iter().chain(others) {
        let status = answer.await.unwrap();
        assert!(matches!(status, 401 | 429), "{status}");
    }
    assert_eq!(calls.tokens(), 7);
}
