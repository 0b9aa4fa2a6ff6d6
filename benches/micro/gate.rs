//! The whole decision about one request: routing, session, access. This is the hot path's pure half.

#![allow(
    clippy::expect_used,
    reason = "a bench whose input cannot be made must not go on"
)]

use crate::fixture::{OWNER, router, view};
use criterion::Criterion;
use nogoo9_identity::Authenticator;
use nogoo9_identity::bearer::{BearerConfig, Bearers};
use nogoo9_identity::cookie::CookieNames;
use nogoo9_identity::jwks::Keys;
use nogoo9_identity::keys::{SigningKey, public_jwks};
use nogoo9_identity::keyset::KeySet;
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_identity::session::{Session, SessionSigner, Sessions};
use nogoo9_model::access::{Caller, Role};
use nogoo9_proxy::gate::{Decision, Gate};
use nogoo9_proxy::table::{Table, Writer};
use pingora::http::RequestHeader;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The host that the request is for.
pub(crate) const HOST: &str = "ws-00000.ws.example.org";
/// The moment at which it comes.
const NOW: i64 = 1_796_000_000;
const CONSOLE: &str = "https://console.example.org/";

/// An edge with workspaces, and a signed-in browser.
pub(crate) struct Edge {
    gate: Gate,
    token: String,
}

impl Edge {
    /// One that knows `workspaces` workspaces, all of the same owner.
    pub(crate) fn new(workspaces: usize) -> Self {
        let key = SigningKey::generate().expect("a key");
        let set = KeySet::parse(public_jwks([&key]).as_bytes()).expect("a key set");
        let policy = Arc::new(ClaimPolicy::default());
        let config = BearerConfig {
            issuer: "https://issuer.example.org".to_owned(),
            audiences: vec!["https://console.example.org/mcp".to_owned()],
        };
        let sessions = Sessions::new(CONSOLE, policy.clone(), Keys::fixed(set));
        let auth = Authenticator::new(
            Bearers::new(config, policy, Keys::fixed(KeySet::default())),
            sessions,
            CookieNames::new(true),
        );
        let session = Session {
            sub: OWNER.to_owned(),
            roles: vec!["user".to_owned(), "team-blue".to_owned()],
            sid: "s-1".to_owned(),
            expires: NOW + 3600,
            fresh_until: Some(NOW + 900),
        };
        let token = SessionSigner::new(key, CONSOLE)
            .sign_session(&session, HOST, NOW)
            .expect("a session");
        let table = Table::new();
        let mut writer = Writer::new(table.clone(), Duration::from_secs(30));
        for number in 0..workspaces {
            let pod = view(&format!("ws-{number:05}"), &number.to_string(), 1, true);
            writer.applied(Arc::new(pod), Instant::now());
        }
        table.complete();
        let console = CONSOLE.parse().expect("a URL");
        Self {
            gate: Gate::new(router(), table, Arc::new(auth), console),
            token,
        }
    }

    /// What Chromium sends for a file of a page, with a cookie of the application's beside ours.
    pub(crate) fn request(&self) -> RequestHeader {
        let mut request =
            RequestHeader::build("GET", b"/assets/app.js?v=3", None).expect("a request");
        let session = self.gate.auth.names().session().to_owned();
        let cookies = format!("theme=dark; {session}={}; sid=8f3a", self.token);
        for (name, value) in [
            ("Host", HOST),
            (
                "User-Agent",
                "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
            ),
            ("Accept", "*/*"),
            ("Accept-Encoding", "gzip, deflate, br, zstd"),
            ("Accept-Language", "en-GB,en;q=0.9"),
            ("Referer", "https://ws-00000.ws.example.org/"),
            ("Sec-Fetch-Dest", "script"),
            ("Sec-Fetch-Mode", "no-cors"),
            ("Sec-Fetch-Site", "same-origin"),
            ("X-Forwarded-User", "somebody-else"),
            ("Cookie", &cookies),
        ] {
            request.append_header(name, value).expect("a header");
        }
        request
    }

    /// The browser's user.
    pub(crate) fn caller(&self) -> Caller {
        Caller {
            sub: OWNER.to_owned(),
            roles: vec!["user".to_owned(), "team-blue".to_owned()],
            role: Role::User,
            scopes: None,
        }
    }

    /// Who recognises them.
    pub(crate) fn auth(&self) -> &Authenticator {
        &self.gate.auth
    }
}

pub(crate) fn bench(criterion: &mut Criterion) {
    let edge = Edge::new(10_000);
    let mut group = criterion.benchmark_group("gate");
    let signed_in = edge.request();
    let mut stranger = edge.request();
    stranger.remove_header("cookie");
    let opens: fn(&Decision) -> bool = |decision| matches!(decision, Decision::Open(_));
    let replies: fn(&Decision) -> bool = |decision| matches!(decision, Decision::Reply(_));
    for (name, request, expected) in [
        ("open", signed_in, opens),
        ("not-signed-in", stranger, replies),
    ] {
        let decision = edge.gate.decide(&request, NOW, false);
        assert!(
            expected(&decision),
            "{name} measures something else: {decision:?}"
        );
        group.bench_function(name, |bencher| {
            bencher.iter(|| black_box(edge.gate.decide(black_box(&request), NOW, false)));
        });
    }
    group.finish();
}
