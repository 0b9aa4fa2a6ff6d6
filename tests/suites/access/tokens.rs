//! Bearer tokens: which count, what those may do that do, and where to get one.

use http::Method;
use nogoo9_local::idp::mint;
use nogoo9_tests::{Api, Site, Template};
use serde_json::{Value, json};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The token with one claim set, signature kept.
fn tampered(token: &str, claim: &str, value: Value) -> anyhow::Result<String> {
    let parts: Vec<&str> = token.split('.').collect();
    let mut claims: Value =
        serde_json::from_slice(&data_encoding::BASE64URL_NOPAD.decode(parts[1].as_bytes())?)?;
    claims[claim] = value;
    let claims = data_encoding::BASE64URL_NOPAD.encode(claims.to_string().as_bytes());
    Ok(format!("{}.{claims}.{}", parts[0], parts[2]))
}

/// The token's claims under a header that wants no signature.
fn unsigned(token: &str) -> String {
    let header = data_encoding::BASE64URL_NOPAD.encode(br#"{"alg":"none","typ":"at+jwt"}"#);
    let claims = token.split('.').nth(1).unwrap_or_default();
    format!("{header}.{claims}.")
}

pub(super) async fn that_do_not_count(site: Arc<Site>) -> anyhow::Result<()> {
    let alice = site.api("alice").await?;
    let id = site
        .spawn(&alice, &Template::new("guarded", "1.0"), json!({}))
        .await?;
    let good = site.token("alice").await?;
    let (issuer, audience) = (issuer(&good)?, site.ready().mcp_url.to_string());
    let dir = site.data_dir();
    let minted = |dir: &Path, issuer: &str, audience: &str, seconds: u64| {
        mint(dir, issuer, "alice", audience, Duration::from_secs(seconds))
    };
    // The same names, signed by another provider's key.
    let other = tempfile::tempdir()?;
    let provider = nogoo9_local::idp::IdpConfig {
        data_dir: other.path().to_owned(),
        issuer: issuer.clone(),
        audience: audience.clone(),
        clients: Vec::new(),
    };
    let _key = nogoo9_local::idp::Idp::open(provider)?;
    let forged = [
        ("another's subject", tampered(&good, "sub", json!("admin"))?),
        ("more roles", tampered(&good, "roles", json!(["admin"]))?),
        (
            "longer life",
            tampered(&good, "exp", json!(4_102_444_800_u64))?,
        ),
        ("no signature", unsigned(&good)),
        (
            "another key",
            minted(other.path(), &issuer, &audience, 600)?,
        ),
        (
            "another audience",
            minted(&dir, &issuer, "http://elsewhere.example/mcp", 600)?,
        ),
        ("cut", good[..good.len() - 4].to_owned()),
    ];
    let (api, edge, mcp) = (alice.clone(), site.anonymous()?, site.mcp("alice").await?);
    assert_eq!(
        api.with_token(Some(minted(&dir, &issuer, &audience, 600)?))
            .get("/api/v1/workspaces")
            .await?
            .status,
        200
    );
    for (case, token) in forged {
        let refused = api
            .with_token(Some(token.clone()))
            .get("/api/v1/workspaces")
            .await?;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (401, &json!("unauthenticated")),
            "{case}"
        );
        assert!(
            !refused.body.to_string().contains(&token),
            "{case}: the token is not repeated"
        );
        let (status, headers, body) = mcp
            .with_token(Some(token.clone()))
            .post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
            .await?;
        assert_eq!(status, 401, "{case}: {body}");
        assert!(headers.contains_key("www-authenticate"), "{case}");
        let page = edge.with_token(Some(token)).get(&id, "/info").await?;
        assert_eq!(page.status, 401, "{case} at the edge: {}", page.text());
    }
    Ok(())
}

fn issuer(token: &str) -> anyhow::Result<String> {
    let claims = token.split('.').nth(1).unwrap_or_default();
    let claims: Value =
        serde_json::from_slice(&data_encoding::BASE64URL_NOPAD.decode(claims.as_bytes())?)?;
    Ok(claims["iss"].as_str().unwrap_or_default().to_owned())
}

pub(super) async fn challenge(site: Arc<Site>) -> anyhow::Result<()> {
    let mcp = site.mcp("alice").await?.with_token(None);
    let (status, headers, _) = mcp
        .post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}))
        .await?;
    let challenge = headers
        .get("www-authenticate")
        .and_then(|value| value.to_str().ok())
        .unwrap_or_default();
    assert_eq!(status, 401);
    assert!(challenge.starts_with("Bearer "), "{challenge}");
    let metadata = challenge
        .split("resource_metadata=\"")
        .nth(1)
        .and_then(|rest| rest.split('"').next())
        .unwrap_or_default();
    let url = url::Url::parse(metadata)?;
    assert_eq!(url.path(), "/.well-known/oauth-protected-resource/mcp");
    let document = site.anonymous()?.get_console(url.path()).await?.json()?;
    assert_eq!(document["resource"], site.ready().mcp_url.as_str());
    let issuer = document["authorization_servers"][0]
        .as_str()
        .unwrap_or_default()
        .to_owned();
    assert_eq!(
        issuer.trim_end_matches('/'),
        site.ready().issuer.as_str().trim_end_matches('/')
    );
    // And there the usual documents are.
    let provider = Api::new(&url::Url::parse(&issuer)?, None)?;
    for path in [
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server",
    ] {
        let found = provider.get(path).await?.expect(200)?;
        assert_eq!(found["issuer"], issuer.as_str(), "{path}");
        assert!(
            found["code_challenge_methods_supported"]
                .to_string()
                .contains("S256"),
            "{path}"
        );
    }
    Ok(())
}

pub(super) async fn viewers(site: Arc<Site>) -> anyhow::Result<()> {
    let (admin, vera) = (site.api("admin").await?, site.api("vera").await?);
    let id = site
        .spawn(
            &admin,
            &Template::new("veras", "1.0"),
            json!({"userSub": "vera"}),
        )
        .await?;
    assert_eq!(vera.workspace(&id).await?["owner"], "vera");
    assert_eq!(
        site.edge("vera").await?.get(&id, "/info").await?.status,
        200
    );
    for action in ["stop", "start", "upgrade"] {
        let refused = vera.act(&id, action).await?;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (403, &json!("forbidden")),
            "{action}"
        );
    }
    assert_eq!(
        vera.ask(Method::DELETE, &format!("/api/v1/workspaces/{id}"), None)
            .await?
            .status,
        403
    );
    assert_eq!(
        vera.post("/api/v1/workspaces", &json!({"template": "veras"}))
            .await?
            .status,
        403
    );
    let may = vera.get("/api/v1/capabilities").await?.expect(200)?;
    assert_eq!(
        (&may["role"], &may["canSpawn"], &may["isAdmin"]),
        (&json!("viewer"), &json!(false), &json!(false))
    );
    assert_eq!(vera.workspace(&id).await?["status"], "running");
    Ok(())
}

pub(super) async fn admin_listeners(site: Arc<Site>) -> anyhow::Result<()> {
    let ready = site.ready();
    let proxy = Api::new(&ready.admin_proxy, None)?;
    let user = site.token("admin").await?;
    for path in ["/routes", "/sessions?workspace=any"] {
        assert_eq!(proxy.get(path).await?.status, 401, "{path} without a token");
        assert_eq!(
            proxy.with_token(Some(user.clone())).get(path).await?.status,
            401,
            "{path} with a user's"
        );
        assert!(site.proxy_admin(path).await?["version"].is_u64(), "{path}");
        let public = site.anonymous()?.get_console(path).await?;
        assert_eq!(public.status, 404, "{path} is not public");
    }
    for api in [proxy, Api::new(&ready.admin_control, None)?] {
        assert_eq!(
            (
                api.get("/livez").await?.status,
                api.get("/readyz").await?.status
            ),
            (200, 200)
        );
        let metrics = api.get("/metrics").await?.body;
        let metrics = metrics.as_str().unwrap_or_default();
        assert!(metrics.contains("# TYPE nogoo9_"), "{metrics}");
        assert!(!metrics.contains("alice"), "no names in metrics");
    }
    Ok(())
}
