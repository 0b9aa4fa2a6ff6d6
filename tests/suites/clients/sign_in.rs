//! Official clients without a token: 401, discovery, becoming known to the provider, signing in, a call;
//! and 403, signing in for more, the same call.

use super::documents::Documents;
use anyhow::Context as _;
use nogoo9_local::supervisor::MCP_CLIENT_ID;
use nogoo9_tests::{Options, Site, Template, ensure_modules, node, python};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A client for which nothing is set up registers itself.
const REGISTERED: &str = "registered";
/// All that a client can be known by.
const WAYS: &str = "document,registered,beforehand";

/// An official client.
#[derive(Clone, Copy, PartialEq)]
enum Client {
    TypeScript {
        generation: &'static str,
        /// Whether it asks for refresh tokens. The first generation must not where it is to step up: it
        /// would refresh, and get what it had.
        refreshes: bool,
    },
    Python,
}

const CLIENTS: [Client; 3] = [
    Client::TypeScript {
        generation: "v1",
        refreshes: false,
    },
    Client::TypeScript {
        generation: "v2",
        refreshes: true,
    },
    Client::Python,
];

impl Client {
    fn name(self) -> &'static str {
        match self {
            Self::TypeScript { generation, .. } => generation,
            Self::Python => "python",
        }
    }

    fn refreshes(self) -> bool {
        match self {
            Self::TypeScript { refreshes, .. } => refreshes,
            Self::Python => true,
        }
    }

    async fn sign_in(
        self,
        site: &Site,
        ways: &str,
        document: &str,
        workspace: &str,
    ) -> anyhow::Result<Value> {
        let refreshes = if self.refreshes() { "yes" } else { "no" };
        let env = [
            ("MCP_URL", site.ready().mcp_url.as_str()),
            ("GENERATION", self.name()),
            ("WAYS", ways),
            ("DOCUMENT", document),
            ("CLIENT_ID", MCP_CLIENT_ID),
            ("WORKSPACE", workspace),
            ("REFRESHES", refreshes),
        ];
        match self {
            Self::TypeScript { .. } => node(&ensure_modules("clients")?, "sign_in.mjs", &env).await,
            Self::Python => python("sign_in.py", &env).await,
        }
    }
}

fn words(text: &Value) -> BTreeSet<&str> {
    text.as_str().unwrap_or_default().split(' ').collect()
}

/// What the calls came to, however many times it was asked to sign in.
fn called(told: &Value, workspace: &str) {
    assert_eq!(told["read"]["structuredContent"]["id"], workspace, "{told}");
    let stopped = &told["stopped"]["structuredContent"];
    assert_eq!(
        (&stopped["id"], &stopped["status"]),
        (&json!(workspace), &json!("stopped")),
        "{told}"
    );
}

/// A workspace of alice's that is stopped already, so that each client can stop it.
async fn stopped(site: &Site) -> anyhow::Result<String> {
    let alice = site.api("alice").await?;
    let template = Template::new("signed-in", "1.0");
    let id = site.spawn(&alice, &template, json!({})).await?;
    alice.act(&id, "stop").await?.expect(200)?;
    nogoo9_tests::until(
        "it to be stopped",
        std::time::Duration::from_secs(60),
        || async {
            let seen = alice.workspace(&id).await?;
            Ok(nogoo9_tests::Observation::when(
                seen["status"] == "stopped",
                (),
                seen,
            ))
        },
    )
    .await?;
    Ok(id)
}

/// The challenge names what the provider grants anyway, and the token does everything.
pub(super) async fn where_scopes_mean_nothing(site: Arc<Site>) -> anyhow::Result<()> {
    let id = stopped(&site).await?;
    for client in CLIENTS {
        let report = client.sign_in(&site, REGISTERED, "", &id).await?;
        let told = &report[REGISTERED];
        called(told, &id);
        let asked = told["asked"].as_array().context("asked")?;
        assert_eq!(asked.len(), 1, "{}: {asked:?}", client.name());
        let mut scopes = words(&asked[0]["scope"]);
        // What clients add by themselves, to get refresh tokens.
        scopes.remove("offline_access");
        assert_eq!(scopes, BTreeSet::from(["openid", "profile", "email"]));
    }
    Ok(())
}

pub(super) async fn where_scopes_count(_other: Arc<Site>) -> anyhow::Result<()> {
    let documents = Documents::publish().await?;
    let args = [
        "--control-flag=--scopes=on".to_owned(),
        "--proxy-flag=--scopes=on".to_owned(),
        format!("--client-ca-file={}", documents.authority().display()),
    ];
    let site = Site::up(Options {
        args: args.to_vec(),
    })
    .await?;
    let outcome = on_a_site_with_scopes(&site, &documents).await;
    if let Err(error) = outcome {
        return Err(error.context(site.dump().await));
    }
    site.stop().await
}

async fn on_a_site_with_scopes(site: &Site, documents: &Documents) -> anyhow::Result<()> {
    let id = stopped(site).await?;
    pages(site, &id).await?;
    for client in CLIENTS {
        let document = documents.client(client.name(), client.refreshes());
        let report = client.sign_in(site, WAYS, &document, &id).await?;
        for way in WAYS.split(',') {
            stepped_up(site, client, way, &report[way], &document, &id)
                .with_context(|| format!("{} {way}: {}", client.name(), report[way]))?;
        }
    }
    Ok(())
}

/// A workspace's pages are opened by clients too: the proxy's challenges lead to the same place.
async fn pages(site: &Site, id: &str) -> anyhow::Result<()> {
    let metadata = site
        .ready()
        .url
        .join("/.well-known/oauth-protected-resource/mcp")?;
    let writes = site.scoped_token("alice", "nogoo9:write").await?;
    for (token, status, named) in [
        (None, 401, r#"scope="nogoo9:read""#),
        (
            Some(writes),
            403,
            r#"scope="nogoo9:read nogoo9:write", error="insufficient_scope""#,
        ),
    ] {
        let refused = site.anonymous()?.with_token(token).get(id, "/").await?;
        assert_eq!(refused.status, status, "{}", refused.text());
        assert_eq!(
            refused.header("www-authenticate"),
            Some(format!(r#"Bearer resource_metadata="{metadata}", {named}"#).as_str())
        );
    }
    Ok(())
}

fn stepped_up(
    site: &Site,
    client: Client,
    way: &str,
    told: &Value,
    document: &str,
    id: &str,
) -> anyhow::Result<()> {
    called(told, id);
    let name = told["client"].as_str().context("no client_id")?;
    match way {
        "document" => assert_eq!(name, document),
        "beforehand" => assert_eq!(name, MCP_CLIENT_ID),
        _ => assert!(name.starts_with("dyn-"), "{name}"),
    }
    // Once for everyday work, and once more for what the person had not allowed.
    let [first, second] = told["asked"].as_array().context("asked")?.as_slice() else {
        anyhow::bail!("it did not ask twice");
    };
    for asked in [first, second] {
        assert_eq!(asked["client_id"], name);
        assert_eq!(asked["resource"], site.ready().mcp_url.as_str());
        let everyday = BTreeSet::from(["nogoo9:read", "nogoo9:write"]);
        assert!(words(&asked["scope"]).is_superset(&everyday), "{asked}");
        assert!(!words(&asked["scope"]).contains("nogoo9:admin"), "{asked}");
    }
    let granted = told["granted"].as_array().context("granted")?;
    let (last, before) = granted.split_last().context("nothing was granted")?;
    assert!(words(last).contains("nogoo9:write"), "{granted:?}");
    assert!(words(last).contains("nogoo9:read"), "{granted:?}");
    // Where it refreshes, it gets what it had.
    let renews = matches!(
        client,
        Client::TypeScript {
            refreshes: true,
            ..
        }
    );
    assert_eq!(before.len(), 1 + usize::from(renews), "{granted:?}");
    for granted in before {
        assert!(words(granted).contains("nogoo9:read"), "{granted}");
        assert!(!words(granted).contains("nogoo9:write"), "{granted}");
    }
    if renews {
        assert_eq!(told["renewed"]["structuredContent"]["id"], id);
    }
    if client != Client::Python {
        // Without somebody to sign in it goes no further: both times it says so.
        for failure in ["first", "beyond"] {
            assert_eq!(told[failure]["name"], "UnauthorizedError", "{failure}");
        }
    }
    Ok(())
}
