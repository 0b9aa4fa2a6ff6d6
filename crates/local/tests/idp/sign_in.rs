//! Signing in, as control does it.

use crate::provider::{AUDIENCE, VERIFIER, location, pairs, start, text};
use nogoo9_local::idp::{Idp, IdpConfig, IdpError, mint};
use serde_json::Value;
use std::time::Duration;

#[tokio::test]
async fn signing_in_gives_tokens_that_verify() {
    let p = start().await;
    let code = p.code("alice").await;
    let (status, body) = p.redeem(&code, VERIFIER).await;
    assert_eq!(status, 200, "{body}");
    assert_eq!(body["token_type"], "Bearer");
    assert_eq!(body["expires_in"], 3600);

    let id = p.claims(text(&body, "id_token"), "nogoo9").await;
    assert_eq!(id["sub"], "alice");
    assert_eq!(id["nonce"], "n1");
    assert_eq!(id["roles"], serde_json::json!(["user"]));
    let access = p.claims(text(&body, "access_token"), AUDIENCE).await;
    assert_eq!(access["sub"], "alice");
    assert_eq!(access["email"], "alice@nogoo9.test");
    let life = access["exp"].as_i64().unwrap() - access["iat"].as_i64().unwrap();
    assert_eq!(life, 3600);

    let info = p
        .http
        .get(format!("{}/userinfo", p.url))
        .bearer_auth(text(&body, "access_token"));
    let info: Value = info.send().await.unwrap().json().await.unwrap();
    assert_eq!(info["sub"], "alice");
    // An ID token is no access token, though the same key signed it.
    let wrong = p
        .http
        .get(format!("{}/userinfo", p.url))
        .bearer_auth(text(&body, "id_token"));
    assert_eq!(wrong.send().await.unwrap().status(), 401);
}

#[tokio::test]
async fn a_code_used_twice_revokes_what_came_of_it() {
    let p = start().await;
    let code = p.code("bob").await;
    let (_, body) = p.redeem(&code, VERIFIER).await;
    let (status, refused) = p.redeem(&code, VERIFIER).await;
    assert_eq!(
        (status.as_u16(), text(&refused, "error")),
        (400, "invalid_grant")
    );
    let (status, _) = p.refresh(text(&body, "refresh_token")).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn the_verifier_must_fit_and_spoils_the_code() {
    let p = start().await;
    let code = p.code("bob").await;
    let (status, body) = p.redeem(&code, "wrong").await;
    assert_eq!(
        (status.as_u16(), text(&body, "error")),
        (400, "invalid_grant")
    );
    let (status, _) = p.redeem(&code, VERIFIER).await;
    assert_eq!(status, 400);
}

#[tokio::test]
async fn refresh_tokens_rotate() {
    let p = start().await;
    let code = p.code("admin").await;
    let (_, first) = p.redeem(&code, VERIFIER).await;
    let (status, second) = p.refresh(text(&first, "refresh_token")).await;
    assert_eq!(status, 200, "{second}");
    assert_ne!(first["refresh_token"], second["refresh_token"]);
    let claims = p.claims(text(&second, "access_token"), AUDIENCE).await;
    assert_eq!(claims["roles"], serde_json::json!(["admin"]));
    let id = p.claims(text(&second, "id_token"), "nogoo9").await;
    assert!(id.get("nonce").is_none(), "{id}");
    let (status, body) = p.refresh("no.such").await;
    assert_eq!(
        (status.as_u16(), text(&body, "error")),
        (400, "invalid_grant")
    );
}

#[tokio::test]
async fn requests_from_strangers_go_nowhere() {
    let p = start().await;
    for (field, value) in [
        ("client_id", "stranger"),
        ("redirect_uri", "http://localhost:9009/auth/callback/"),
        ("redirect_uri", "http://localhost:9009/auth/callback?x=1"),
        ("redirect_uri", "http://evil.test/auth/callback"),
    ] {
        let mut query = p.good_request();
        query.iter_mut().find(|(name, _)| *name == field).unwrap().1 = value.to_owned();
        let reply = p.authorize(&query).await;
        assert_eq!(reply.status(), 400, "{field}={value}");
        assert!(reply.headers().get("location").is_none());
    }
    let mut twice = p.good_request();
    twice.push(("redirect_uri", "http://evil.test/".to_owned()));
    assert_eq!(p.authorize(&twice).await.status(), 400);
}

#[tokio::test]
async fn bad_requests_are_told_to_the_client() {
    let p = start().await;
    for (field, value, error) in [
        ("response_type", "token", "unsupported_response_type"),
        ("code_challenge_method", "plain", "invalid_request"),
        ("code_challenge", "short", "invalid_request"),
        ("resource", "http://other.test/mcp", "invalid_target"),
        ("prompt", "none", "login_required"),
        ("request", "x", "request_not_supported"),
        ("response_mode", "fragment", "invalid_request"),
    ] {
        let mut query = p.good_request();
        query.retain(|(name, _)| *name != field);
        query.push((field, value.to_owned()));
        let back = location(&p.authorize(&query).await);
        let query = pairs(&back);
        assert_eq!(query["error"], error, "{field}={value}");
        assert_eq!(query["state"], "st ate&");
    }
}

#[tokio::test]
async fn the_form_cannot_be_forged_or_sent_by_another_site() {
    let p = start().await;
    let form = p.form().await;
    let good = [("request", form.as_str()), ("user", "alice")];
    for headers in [
        [("origin", "http://alice.localhost:9009")],
        [("origin", "null")],
        [("sec-fetch-site", "same-site")],
        [("sec-fetch-site", "cross-site")],
    ] {
        let reply = p.post(&good, &headers).await;
        assert_eq!(reply.status(), 403, "{headers:?}");
    }
    let access = mint(
        p.dir.path(),
        &p.url,
        "alice",
        AUDIENCE,
        Duration::from_secs(60),
    )
    .unwrap();
    let cut = form.get(..form.len() - 4).unwrap();
    for forged in ["", "x", cut, access.as_str()] {
        let reply = p.post(&[("request", forged), ("user", "alice")], &[]).await;
        assert_eq!(reply.status(), 400, "{forged}");
    }
    let reply = p
        .post(&[("request", &form), ("user", "mallory")], &[])
        .await;
    assert_eq!(reply.status(), 400);
}

#[tokio::test]
async fn another_host_is_misdirected() {
    let p = start().await;
    for (host, status) in [("rebound.test", 421), ("127.0.0.1:1", 421)] {
        let reply = p
            .http
            .get(format!("{}/jwks", p.url))
            .header("host", host)
            .send();
        assert_eq!(reply.await.unwrap().status().as_u16(), status, "{host}");
    }
}

#[tokio::test]
async fn scripts_may_read_metadata_and_tokens_but_no_pages() {
    let p = start().await;
    let url = format!("{}/.well-known/oauth-authorization-server", p.url);
    let reply = p.http.get(url).send().await.unwrap();
    assert_eq!(reply.headers()["access-control-allow-origin"], "*");
    let url = format!("{}/token", p.url);
    let reply = p
        .http
        .request(reqwest::Method::OPTIONS, url)
        .send()
        .await
        .unwrap();
    assert_eq!(reply.status(), 204);
    assert_eq!(reply.headers()["access-control-allow-origin"], "*");
    let page = p.authorize(&p.good_request()).await;
    assert!(page.headers().get("access-control-allow-origin").is_none());
    let policy = page.headers()["content-security-policy"].to_str().unwrap();
    assert!(policy.contains("frame-ancestors 'none'"), "{policy}");
    assert!(policy.contains("form-action 'self' http:;"), "{policy}");
}

#[tokio::test]
async fn signing_out_goes_back_to_known_places_only() {
    let p = start().await;
    let out = |back: &'static str| {
        let url = format!("{}/end-session", p.url);
        p.http
            .get(url)
            .query(&[("post_logout_redirect_uri", back), ("state", "s")])
            .send()
    };
    let reply = out("http://localhost:9009/").await.unwrap();
    assert_eq!(location(&reply).as_str(), "http://localhost:9009/?state=s");
    for bad in [
        "http://evil.test/",
        "javascript:alert(1)",
        "http://localhost:9010/",
    ] {
        assert_eq!(out(bad).await.unwrap().status(), 400, "{bad}");
    }
}

#[tokio::test]
async fn minted_tokens_are_like_those_of_a_sign_in() {
    let p = start().await;
    let ttl = Duration::from_secs(120);
    let token = mint(p.dir.path(), &p.url, "vera", AUDIENCE, ttl).unwrap();
    let claims = p.claims(&token, AUDIENCE).await;
    assert_eq!(claims["sub"], "vera");
    assert_eq!(claims["roles"], serde_json::json!(["viewer"]));
    let life = claims["exp"].as_i64().unwrap() - claims["iat"].as_i64().unwrap();
    assert_eq!(life, 120);

    let error = mint(p.dir.path(), &p.url, "mallory", AUDIENCE, ttl).unwrap_err();
    assert!(
        error.to_string().contains("alice, bob, admin, vera"),
        "{error}"
    );
    let empty = tempfile::tempdir().unwrap();
    let error = mint(empty.path(), &p.url, "vera", AUDIENCE, ttl).unwrap_err();
    assert!(matches!(error, IdpError::File { .. }), "{error}");
}

#[tokio::test]
async fn the_key_outlives_a_restart_and_is_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let p = start().await;
    let token = mint(
        p.dir.path(),
        &p.url,
        "bob",
        AUDIENCE,
        Duration::from_secs(60),
    )
    .unwrap();
    let config = IdpConfig {
        data_dir: p.dir.path().to_owned(),
        issuer: p.url.clone(),
        clients: Vec::new(),
        audience: AUDIENCE.to_owned(),
    };
    Idp::open(config).unwrap();
    assert_eq!(p.claims(&token, AUDIENCE).await["sub"], "bob");
    let key = p.dir.path().join("idp/signing-key.pem");
    assert_eq!(
        std::fs::metadata(key).unwrap().permissions().mode() & 0o777,
        0o600
    );
    let dir = std::fs::metadata(p.dir.path().join("idp")).unwrap();
    assert_eq!(dir.permissions().mode() & 0o777, 0o700);
}
