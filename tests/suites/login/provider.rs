//! The identity providers that people sign in at.

use super::part::Part;
use anyhow::{Context as _, bail};
use nogoo9_tests::{Observation, binary, ensure_modules, patiently};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use url::Url;

/// Which one, or several by commas.
pub(super) const SETTING: &str = "NOGOO9_TEST_PROVIDER";
/// Longest start of a provider.
const START: Duration = Duration::from_secs(60);
/// Its port: below those that the system gives out, on an address that nobody else uses.
const PORT: u16 = 19_029;

/// Who made a provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Make {
    /// We did: the one of local mode.
    Dev,
    /// `oidc-provider` of npm.
    OidcProvider,
    /// `zitadel/oidc`: its example server.
    Zitadel,
}

impl Make {
    const ALL: [Self; 3] = [Self::Dev, Self::OidcProvider, Self::Zitadel];

    /// Those that the setting names; without it, those that need nothing but Node.js.
    pub(super) fn chosen() -> anyhow::Result<Vec<Self>> {
        let Ok(setting) = std::env::var(SETTING) else {
            return Ok(vec![Self::Dev, Self::OidcProvider]);
        };
        let find = |word: &str| Self::ALL.into_iter().find(|make| make.name() == word);
        let words = setting.split(',').map(str::trim);
        words
            .map(|word| {
                find(word).with_context(|| {
                    let known = Self::ALL.map(Self::name).join(", ");
                    format!("{SETTING}: `{word}` is none of {known}")
                })
            })
            .collect()
    }

    /// As the setting and the scripts call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Dev => "dev",
            Self::OidcProvider => "oidc-provider",
            Self::Zitadel => "zitadel",
        }
    }

    /// What control and proxy must be told about it beside its issuer.
    pub(super) fn flags(self) -> &'static [&'static str] {
        match self {
            Self::Dev | Self::OidcProvider => &[],
            // Nobody has roles there.
            Self::Zitadel => &["--admin-sub", "admin"],
        }
    }
}

/// A provider as a process of its own.
#[derive(Debug)]
pub(super) struct Foreign {
    part: Part,
    /// As its tokens have it, to the last slash.
    pub(super) issuer: String,
    /// What control alone must be told.
    pub(super) control: Vec<String>,
    /// What it logs.
    log: PathBuf,
    /// What it logs of a token that it took back.
    took_back: &'static str,
}

impl Foreign {
    /// Starts it with the console at `console` as its client, and waits until it answers; `None` for
    /// the one of local mode, which is there already. Its files go to `folder`.
    pub(super) async fn start(
        make: Make,
        console: &Url,
        folder: &Path,
    ) -> anyhow::Result<Option<Self>> {
        let [.., high, low] = std::process::id().to_be_bytes();
        let ip = Ipv4Addr::new(127, 210, high, low);
        let (at, back) = (format!("{ip}:{PORT}"), console.join("/auth/callback")?);
        let (command, issuer, control, took_back) = match make {
            Make::Dev => return Ok(None),
            Make::OidcProvider => {
                let script = ensure_modules("providers")?.join("oidc-provider.mjs");
                let command = vec![
                    "node".to_owned(),
                    text(&script)?,
                    ip.to_string(),
                    PORT.to_string(),
                    back.to_string(),
                    console.to_string(),
                ];
                (
                    command,
                    format!("http://{at}"),
                    Vec::new(),
                    "a refresh token is destroyed",
                )
            }
            Make::Zitadel => {
                let secret = folder.join("client-secret");
                std::fs::write(&secret, "client+secret/of=zitadel%20").context("secret")?;
                let secret = text(&secret)?;
                let command = vec![
                    text(&built()?)?,
                    format!("--listen={at}"),
                    format!("--redirect-url={back}"),
                    format!("--signed-out-url={console}"),
                    format!("--client-secret-file={secret}"),
                ];
                let control = vec![
                    format!("--client-secret-file={secret}"),
                    // It gives refresh tokens for nothing less.
                    "--login-scopes=profile,email,offline_access".to_owned(),
                ];
                (command, format!("http://{at}/"), control, "path=/revoke ")
            }
        };
        let log = folder.join(format!("logs/{}.log", make.name()));
        let foreign = Self {
            part: Part::start(command, &log)?,
            issuer,
            control,
            log,
            took_back,
        };
        foreign.answers().await?;
        Ok(Some(foreign))
    }

    /// Ends it.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        self.part.end(nix::sys::signal::Signal::SIGKILL).await
    }

    /// Starts it again, and waits until it answers.
    pub(super) async fn again(&mut self) -> anyhow::Result<()> {
        self.part.again()?;
        self.answers().await
    }

    /// Waits until it has taken back a refresh token.
    pub(super) async fn took_back(&self) -> anyhow::Result<()> {
        patiently("the provider to take a token back", START, || async {
            let log = std::fs::read_to_string(&self.log).context("log of the provider")?;
            Ok(Observation::when(log.contains(self.took_back), (), log))
        })
        .await
    }

    async fn answers(&self) -> anyhow::Result<()> {
        let document = Url::parse(&self.issuer)?.join("/.well-known/openid-configuration")?;
        patiently("the provider to answer", START, || async {
            let answer = reqwest::get(document.clone()).await?;
            Ok(Observation::when(
                answer.status() == 200,
                (),
                answer.status(),
            ))
        })
        .await
    }
}

/// The provider that `make login` builds.
fn built() -> anyhow::Result<PathBuf> {
    let profile = binary("nogoo9")?;
    let target = profile.parent().and_then(Path::parent);
    let built = target.context("target folder")?.join("providers/zitadel");
    if !built.is_file() {
        bail!(
            "{} is missing: run `make login`, or tests/providers/zitadel/build.sh",
            built.display()
        );
    }
    Ok(built)
}

fn text(path: &Path) -> anyhow::Result<String> {
    Ok(path.to_str().context("a path that is no text")?.to_owned())
}
