//! MCP clients: registering, being asked about, scopes, resource.

use crate::provider::{AUDIENCE, Provider, VERIFIER, challenge, location, pairs, start, text};
use serde_json::{Value, json};
use std::collections::HashMap;

const WAITS_AT: &str = "http://127.0.0.1:33418/callback";

pub(crate) async fn register(p: &Provider, wishes: &Value) -> (u16, Value) {
    let url = format!("{}/register", p.url);
    let reply = p.http.post(url).json(wishes).send().await.unwrap();
    (reply.status().as_u16(), reply.json().await.unwrap())
}

pub(crate) fn request(client: &str, back: &str, scope: &str) -> Vec<(&'static str, String)> {
    [
        ("client_id", client),
        ("redirect_uri", back),
        ("response_type", "code"),
        ("scope", scope),
        ("state", "s"),
        ("code_challenge_method", "S256"),
        ("resource", AUDIENCE),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into_iter()
    .chain([("code_challenge", challenge())])
    .collect()
}

/// The sign-in page's text, and its signed request.
pub(crate) async fn page(p: &Provider, query: &[(&str, String)]) -> (String, String) {
    let reply = p.authorize(query).await;
    let status = reply.status();
    let html = reply.text().await.unwrap();
    assert_eq!(status, 200, "{html}");
    let (_, rest) = html.split_once(r#"name="request" value=""#).unwrap();
    let sealed = rest.split_once('"').unwrap().0.to_owned();
    (html, sealed)
}

/// What comes back to the client when the person sends the form with these fields.
pub(crate) async fn send(p: &Provider, sealed: &str, fields: &[&str]) -> HashMap<String, String> {
    let mut form = vec![("request", sealed)];
    form.extend(fields.iter().map(|field| (*field, "yes")));
    form.push(("user", "alice"));
    pairs(&location(&p.post(&form, &[]).await))
}

pub(crate) async fn redeem(p: &Provider, client: &str, back: &str, code: &str) -> (u16, Value) {
    let (status, body) = p
        .token(&[
            ("grant_type", "authorization_code"),
            ("client_id", client),
            ("redirect_uri", back),
            ("code", code),
            ("code_verifier", VERIFIER),
            ("resource", AUDIENCE),
        ])
        .await;
    (status.as_u16(), body)
}

#[tokio::test]
async fn metadata_says_how_clients_become_known() {
    let p = start().await;
    let mut seen = Vec::new();
    for name in ["openid-configuration", "oauth-authorization-server"] {
        let url = format!("{}/.well-known/{name}", p.url);
        let found: Value = p.http.get(url).send().await.unwrap().json().await.unwrap();
        assert_eq!(
            found["registration_endpoint"],
            format!("{}/register", p.url)
        );
        assert_eq!(found["client_id_metadata_document_supported"], true);
        assert_eq!(
            found["authorization_response_iss_parameter_supported"],
            true
        );
        let scopes = found["scopes_supported"].as_array().unwrap();
        assert!(scopes.contains(&json!("nogoo9:write")), "{scopes:?}");
        seen.push(found);
    }
    assert_eq!(seen[0], seen[1]);
}

#[tokio::test]
async fn one_that_registers_itself_gets_what_the_person_gives() {
    let p = start().await;
    let wishes = json!({
        "client_name": "An <b>agent</b>", "redirect_uris": ["http://127.0.0.1/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "token_endpoint_auth_method": "client_secret_post", "unknown": 1,
    });
    let (status, client) = register(&p, &wishes).await;
    assert_eq!(status, 201, "{client}");
    assert_eq!(client["token_endpoint_auth_method"], "none");
    assert!(client.get("client_secret").is_none(), "{client}");
    let id = text(&client, "client_id");

    let asked = request(id, WAITS_AT, "openid nogoo9:read nogoo9:write groups");
    let (html, sealed) = page(&p, &asked).await;
    for shown in [
        "An &lt;b&gt;agent&lt;/b&gt;",
        id,
        AUDIENCE,
        "http://127.0.0.1:33418",
        r#"name="allow:nogoo9:write""#,
    ] {
        assert!(html.contains(shown), "{shown} is not in {html}");
    }
    assert!(!html.contains("allow:nogoo9:admin"), "{html}");

    // One box is ticked, and one that was not asked for is added by hand.
    let fields = ["allow:nogoo9:read", "allow:nogoo9:admin"];
    let back = send(&p, &sealed, &fields).await;
    assert_eq!((&back["iss"], &back["state"]), (&p.url, &"s".to_owned()));
    let (status, tokens) = redeem(&p, id, WAITS_AT, &back["code"]).await;
    assert_eq!(status, 200, "{tokens}");
    assert_eq!(tokens["scope"], "openid nogoo9:read");
    let claims = p.claims(text(&tokens, "access_token"), AUDIENCE).await;
    assert_eq!(
        (&claims["scope"], &claims["client_id"], &claims["sub"]),
        (&json!("openid nogoo9:read"), &json!(id), &json!("alice"))
    );

    // Its refresh tokens rotate and grant no more than that.
    let refresh = |token: String, scope: &'static str| {
        let (p, id) = (&p, id);
        async move {
            let form = [
                ("grant_type", "refresh_token"),
                ("client_id", id),
                ("refresh_token", token.as_str()),
                ("resource", AUDIENCE),
                ("scope", scope),
            ];
            p.token(&form).await
        }
    };
    let first = text(&tokens, "refresh_token").to_owned();
    let (status, second) = refresh(first.clone(), "nogoo9:read nogoo9:write").await;
    assert_eq!(
        (status.as_u16(), &second["scope"]),
        (200, &json!("nogoo9:read"))
    );
    assert_ne!(second["refresh_token"], json!(first));
    let (status, third) = refresh(text(&second, "refresh_token").to_owned(), "").await;
    assert_eq!(
        (status.as_u16(), &third["scope"]),
        (200, &json!("openid nogoo9:read"))
    );
}

#[tokio::test]
async fn without_the_grant_there_is_no_refresh_token() {
    let p = start().await;
    let (_, client) = register(&p, &json!({"redirect_uris": [WAITS_AT]})).await;
    assert_eq!(client["grant_types"], json!(["authorization_code"]));
    let id = text(&client, "client_id");
    let (_, sealed) = page(&p, &request(id, WAITS_AT, "nogoo9:read")).await;
    let back = send(&p, &sealed, &["allow:nogoo9:read"]).await;
    let (status, tokens) = redeem(&p, id, WAITS_AT, &back["code"]).await;
    assert_eq!((status, &tokens["scope"]), (200, &json!("nogoo9:read")));
    assert!(tokens.get("refresh_token").is_none(), "{tokens}");
    assert!(tokens.get("id_token").is_none(), "{tokens}");
}

#[tokio::test]
async fn a_person_may_say_no() {
    let p = start().await;
    let (_, client) = register(&p, &json!({"redirect_uris": [WAITS_AT]})).await;
    let (_, sealed) = page(
        &p,
        &request(text(&client, "client_id"), WAITS_AT, "nogoo9:read"),
    )
    .await;
    let back = send(&p, &sealed, &["deny", "allow:nogoo9:read"]).await;
    assert_eq!(back["error"], "access_denied");
    assert!(!back.contains_key("code"), "{back:?}");
    assert_eq!(back["iss"], p.url);
}

#[tokio::test]
async fn what_cannot_be_registered() {
    let p = start().await;
    let many = vec![WAITS_AT; 21];
    for (wishes, error) in [
        (json!({}), "invalid_redirect_uri"),
        (json!({"redirect_uris": []}), "invalid_redirect_uri"),
        (json!({"redirect_uris": many}), "invalid_redirect_uri"),
        (
            json!({"redirect_uris": ["http://app.test/cb"]}),
            "invalid_redirect_uri",
        ),
        (
            json!({"redirect_uris": [WAITS_AT, "javascript:alert(1)"]}),
            "invalid_redirect_uri",
        ),
        (
            json!({"redirect_uris": ["app://callback"]}),
            "invalid_redirect_uri",
        ),
        (json!({"redirect_uris": 1}), "invalid_client_metadata"),
        (json!([]), "invalid_client_metadata"),
        (
            json!({"redirect_uris": [WAITS_AT], "client_name": "n".repeat(101)}),
            "invalid_client_metadata",
        ),
        (
            json!({"redirect_uris": [WAITS_AT], "grant_types": ["implicit"]}),
            "invalid_client_metadata",
        ),
    ] {
        let (status, refused) = register(&p, &wishes).await;
        assert_eq!(
            (status, &refused["error"]),
            (400, &json!(error)),
            "{wishes}"
        );
    }
}

#[tokio::test]
async fn one_client_cannot_use_anothers_redirect_or_code() {
    let p = start().await;
    let other = "https://app.test/callback";
    let (_, mine) = register(&p, &json!({"redirect_uris": [WAITS_AT]})).await;
    let (_, theirs) = register(&p, &json!({"redirect_uris": [other]})).await;
    let (mine, theirs) = (text(&mine, "client_id"), text(&theirs, "client_id"));
    for (client, back) in [
        (mine, other),
        (theirs, WAITS_AT),
        (mine, "http://127.0.0.1:33418/callback/"),
        ("dyn-unknown", WAITS_AT),
    ] {
        let reply = p.authorize(&request(client, back, "openid")).await;
        assert_eq!(reply.status(), 400, "{client} {back}");
        assert!(reply.headers().get("location").is_none());
    }
    let (_, sealed) = page(&p, &request(mine, WAITS_AT, "openid")).await;
    let back = send(&p, &sealed, &[]).await;
    let (status, refused) = redeem(&p, theirs, WAITS_AT, &back["code"]).await;
    assert_eq!((status, &refused["error"]), (400, &json!("invalid_grant")));
}

#[tokio::test]
async fn a_token_is_for_one_resource() {
    let p = start().await;
    let (_, client) = register(&p, &json!({"redirect_uris": [WAITS_AT]})).await;
    let id = text(&client, "client_id");
    let other = "http://localhost:9009/other";
    for more in [&[other][..], &[AUDIENCE, other], &[AUDIENCE, AUDIENCE]] {
        let mut asked = request(id, WAITS_AT, "openid");
        asked.retain(|(name, _)| *name != "resource");
        asked.extend(more.iter().map(|one| ("resource", (*one).to_owned())));
        let back = pairs(&location(&p.authorize(&asked).await));
        assert_eq!(back["error"], "invalid_target", "{more:?}");
        let mut form = vec![("grant_type", "authorization_code"), ("client_id", id)];
        form.extend(more.iter().map(|one| ("resource", *one)));
        let (status, refused) = p.token(&form).await;
        assert_eq!(
            (status.as_u16(), &refused["error"]),
            (400, &json!("invalid_target")),
            "{more:?}"
        );
    }
    // Whoever names none gets a token for the one there is.
    let mut asked = request(id, WAITS_AT, "openid");
    asked.retain(|(name, _)| *name != "resource");
    let (_, sealed) = page(&p, &asked).await;
    let back = send(&p, &sealed, &[]).await;
    let (status, tokens) = redeem(&p, id, WAITS_AT, &back["code"]).await;
    assert_eq!(status, 200, "{tokens}");
    p.claims(text(&tokens, "access_token"), AUDIENCE).await;
}
