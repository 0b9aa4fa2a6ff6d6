//! Signing in, what one may see then, and signing out.

use super::provider::Make;
use super::stand::Stand;
use super::workspaces;
use anyhow::Context as _;
use http::Method;
use nogoo9_tests::Edge;
use serde_json::{Value, json};
use std::sync::Arc;

pub(super) async fn in_and_out(stand: Arc<Stand>) -> anyhow::Result<()> {
    workspaces(&stand, &["inside", "beside"]).await?;
    let env = [("ID", "inside"), ("OTHER", "beside")];
    let report = stand.browse("login.mjs", &env).await?;
    request(&stand, &report)?;
    assert_eq!(report["who"], "Account alice");
    seen(&report);
    sessions(&report);
    assert_eq!(
        report["handOver"],
        json!([
            "workspace /",
            "console /auth/open",
            "workspace /.nogoo9/login",
            "workspace /"
        ])
    );
    assert_eq!(report["landed"], true);
    assert_eq!(report["typed"], json!({"n": "42"}));
    assert_eq!(report["info"], json!([200, "1.0"]));
    out(&stand, &report);
    stand.token_is_back().await?;
    refused(&report)?;
    unsigned_socket(&stand).await
}

/// Code with PKCE, state and nonce; nothing else comes back by the address.
fn request(stand: &Stand, report: &Value) -> anyhow::Result<()> {
    assert_eq!(report["asked"], true, "by the provider itself");
    let request = &report["request"];
    let text = |name: &str| request[name].as_str().unwrap_or_default().to_owned();
    assert_eq!(
        [
            text("response_type"),
            text("client_id"),
            text("code_challenge_method")
        ],
        ["code", "nogoo9", "S256"]
    );
    let back = stand.site.ready().url.join("/auth/callback")?;
    assert_eq!(text("redirect_uri"), back.as_str());
    assert!(
        text("scope").split(' ').any(|scope| scope == "openid"),
        "{request}"
    );
    assert_eq!(request["code_challenge"], 43, "base64url of a SHA-256");
    for random in ["state", "nonce"] {
        let length = request[random].as_u64().context(random)?;
        assert!(length >= 43, "{random}: {length} characters");
    }
    let returned = match stand.make {
        Make::Dev | Make::OidcProvider => json!(["code", "iss", "state"]),
        Make::Zitadel => json!(["code", "state"]),
    };
    assert_eq!(report["returned"], returned);
    Ok(())
}

/// Admins have a list more, and no look into others' pages.
fn seen(report: &Value) {
    assert_eq!(report["aliceSeesEveryones"], 0);
    assert_eq!(report["adminSeesEveryones"], 1);
    assert_eq!(report["adminOpens"], 404);
}

/// One cookie a host, kept from scripts and other sites, for the twelve hours of a session whose
/// provider can be asked again.
fn sessions(report: &Value) {
    let of = |domain: &str| {
        json!({
            "domain": domain, "path": "/", "httpOnly": true, "sameSite": "Lax", "hours": 11,
        })
    };
    assert_eq!(report["console"], json!([of("localhost")]));
    let both = report["both"].as_array().cloned().unwrap_or_default();
    assert_eq!(both.len(), 2, "{both:?}");
    for host in ["localhost", "inside.localhost"] {
        assert!(both.contains(&of(host)), "{host}: {both:?}");
    }
}

/// Signing out ends at the console, which asks for the name again, as do workspaces.
fn out(stand: &Stand, report: &Value) {
    assert_eq!(report["signedOutAt"], stand.site.ready().url.as_str());
    // The cookie of a workspace's host is not the console's to delete; what it is good for ends with
    // the session.
    assert_eq!(report["afterwards"], json!(["inside.localhost"]));
    assert_eq!(report["asksAgain"], true);
    assert_eq!(report["asksForHost"], true);
}

/// What a page's own requests get without a session.
fn refused(report: &Value) -> anyhow::Result<()> {
    let refused = &report["refused"];
    assert_eq!(refused["status"], 401);
    assert_eq!(refused["type"], "application/json");
    assert_eq!(refused["body"]["code"], "unauthenticated");
    assert!(refused["body"]["message"].is_string(), "{refused}");
    let sign_in = refused["body"]["signIn"].as_str().context("signIn")?;
    assert!(sign_in.contains("inside.localhost"), "{sign_in}");
    assert_eq!(report["closed"], 1006);
    let failures = report["failures"].as_array().context("failures")?;
    // So the browser calls a 401.
    let unsigned = |text: &str| text.contains("HTTP Authentication failed");
    let said = |one: &Value| one.as_str().is_some_and(unsigned);
    assert!(
        failures.len() == 1 && failures.iter().all(said),
        "{failures:?}"
    );
    // Nobody complained but of that, and of the page that the admin may not open.
    let complaints = report["complaints"].as_array().context("complaints")?;
    let expected = |one: &Value| {
        let text = one["text"].as_str().unwrap_or_default();
        let refused = ["a status of 404", "a status of 401"];
        unsigned(text) || refused.iter().any(|status| text.contains(status))
    };
    assert!(complaints.iter().all(expected), "{complaints:?}");
    Ok(())
}

/// The body that browsers hide.
async fn unsigned_socket(stand: &Stand) -> anyhow::Result<()> {
    let edge = stand.site.anonymous()?;
    let request = edge
        .request(Method::GET, &edge.host("inside"), "/shell")?
        .header("connection", "upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
    let answer = Edge::send(request).await?;
    let body: Value = serde_json::from_slice(&answer.body).with_context(|| answer.text())?;
    assert_eq!(
        (answer.status.as_u16(), &body["code"]),
        (401, &json!("unauthenticated"))
    );
    Ok(())
}

pub(super) async fn tabs(stand: Arc<Stand>) -> anyhow::Result<()> {
    workspaces(&stand, &["tabs", "more-tabs"]).await?;
    let env = [("ID", "tabs"), ("OTHER", "more-tabs")];
    let report = stand.browse("login-tabs.mjs", &env).await?;
    assert_eq!(report["asked"], json!([true, true, true]));
    assert_eq!(report["landed"], json!([true, true, true]));
    assert_eq!(
        report["hosts"],
        json!(["localhost", "more-tabs.localhost", "tabs.localhost"])
    );
    assert_eq!(
        (&report["status"], &report["fourth"]),
        (&json!(200), &json!(true))
    );
    Ok(())
}
