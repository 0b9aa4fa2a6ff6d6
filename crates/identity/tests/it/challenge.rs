//! What a client is told that has no token, or one that does not count.

use nogoo9_identity::TokenError;
use nogoo9_identity::challenge::{
    ProtectedResource, challenge, has_token, insufficient_scope, metadata_url, token_in_url,
};
use serde_json::json;
use std::collections::BTreeSet;
use url::Url;

#[test]
fn metadata_is_found_between_host_and_path() {
    let table = [
        (
            "https://ws.example.org/mcp",
            "https://ws.example.org/.well-known/oauth-protected-resource/mcp",
        ),
        (
            "https://ws.example.org/",
            "https://ws.example.org/.well-known/oauth-protected-resource",
        ),
        (
            "http://localhost:9009/mcp/?x#y",
            "http://localhost:9009/.well-known/oauth-protected-resource/mcp",
        ),
    ];
    for (resource, wanted) in table {
        assert_eq!(metadata_url(&Url::parse(resource).expect("a URL")), wanted);
    }
}

#[test]
fn a_challenge_names_an_error_only_if_a_token_came() {
    assert_eq!(
        challenge("https://x/meta", None, None),
        r#"Bearer resource_metadata="https://x/meta""#
    );
    assert_eq!(
        challenge("https://x/meta", Some(TokenError::Expired), Some("openid")),
        r#"Bearer resource_metadata="https://x/meta", scope="openid", error="invalid_token", error_description="the token has expired""#
    );
}

#[test]
fn a_lack_of_scope_names_what_is_needed_and_what_is_there() {
    let granted = |scopes: &[&str]| -> BTreeSet<String> {
        scopes.iter().map(|scope| (*scope).to_owned()).collect()
    };
    for (has, needed, scope) in [
        (
            &["nogoo9:read"][..],
            "nogoo9:write",
            "nogoo9:read nogoo9:write",
        ),
        (&[], "nogoo9:write", "nogoo9:read nogoo9:write"),
        (
            &["nogoo9:write", "other"],
            "nogoo9:admin",
            "nogoo9:read nogoo9:write nogoo9:admin",
        ),
        (&[], "nogoo9:read", "nogoo9:read"),
    ] {
        assert_eq!(
            insufficient_scope("https://x/meta", Some(&granted(has)), needed),
            format!(
                r#"Bearer resource_metadata="https://x/meta", scope="{scope}", error="insufficient_scope""#
            )
        );
    }
}

#[test]
fn a_token_in_a_url_is_seen_however_it_is_written() {
    for query in ["access_token=x", "a=b&ACCESS_TOKEN=", "access%5Ftoken=x"] {
        assert!(has_token(Some(query)), "{query}");
    }
    for query in ["", "token=x", "a=access_token", "access_token_hint=x"] {
        assert!(!has_token(Some(query)), "{query}");
    }
    assert!(!has_token(None));
    let text = token_in_url("https://x/meta");
    assert!(text.contains("error=\"invalid_request\""), "{text}");
    assert!(http::HeaderValue::from_str(&text).is_ok());
}

#[test]
fn a_challenge_is_always_one_header_line() {
    let text = challenge("https://x/\"\r\nSet-Cookie: a=\u{e9}\\", None, Some("\"\n"));
    assert!(http::HeaderValue::from_str(&text).is_ok());
    assert_eq!(
        text,
        r#"Bearer resource_metadata="https://x/Set-Cookie: a=", scope="""#
    );
}

#[test]
fn metadata_names_the_audience_and_the_issuer() {
    let metadata = ProtectedResource::new("https://ws/mcp", "https://login");
    assert_eq!(
        serde_json::to_value(metadata).expect("JSON"),
        json!({
            "resource": "https://ws/mcp",
            "authorization_servers": ["https://login"],
            "bearer_methods_supported": ["header"],
            "resource_name": "nogoo9 workspaces",
        })
    );
    let metadata = ProtectedResource::new("https://ws/mcp", "https://login")
        .and_issuers(["https://other".to_owned()])
        .with_scopes();
    let metadata = serde_json::to_value(metadata).expect("JSON");
    assert_eq!(
        (
            &metadata["authorization_servers"],
            &metadata["scopes_supported"]
        ),
        (
            &json!(["https://login", "https://other"]),
            &json!(["nogoo9:read", "nogoo9:write", "nogoo9:admin"])
        )
    );
}
