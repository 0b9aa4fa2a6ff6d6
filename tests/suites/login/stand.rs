//! A site whose people sign in at a provider that the suite chose. Control and proxy are the suite's
//! own processes, started as the site would, but for what is said of the provider.

use super::LONG;
use super::part::Part;
use super::provider::{Foreign, Make};
use anyhow::Context as _;
use http::Method;
use nix::sys::signal::Signal;
use nogoo9_tests::{Edge, Ground, Observation, Options, Site, patiently};
use serde_json::Value;
use tokio::sync::Mutex;
use url::Url;

/// The site, its provider, control and proxy.
#[derive(Debug)]
pub(super) struct Stand {
    pub(super) site: Site,
    pub(super) make: Make,
    /// None where the provider is the site's own.
    provider: Mutex<Option<Foreign>>,
    issuer: String,
    control: Mutex<Part>,
    proxy: Mutex<Part>,
}

impl Stand {
    pub(super) async fn up(make: Make) -> anyhow::Result<Self> {
        let args = ["--without", "control", "--without", "proxy"].map(str::to_owned);
        let site = Site::up(Options {
            args: args.to_vec(),
        })
        .await?;
        let (ready, folder) = (site.ready(), site.data_dir());
        let provider = Foreign::start(make, &ready.url, &folder).await?;
        let own = |part: &str| {
            let command = ready.commands.get(part).cloned();
            let mut command = command.with_context(|| format!("the site starts its own {part}"))?;
            if let Some(provider) = &provider {
                let at = command.iter().position(|word| word == "--issuer");
                let issuer = at.and_then(|at| command.get_mut(at + 1));
                let issuer = issuer.with_context(|| format!("{part} is told no issuer"))?;
                let dev = std::mem::replace(issuer, provider.issuer.clone());
                // Whoever holds a token of the site's own provider is the same person.
                command.extend(["--extra-issuer".to_owned(), dev]);
            }
            command.extend(make.flags().iter().map(|&flag| flag.to_owned()));
            anyhow::Ok(command)
        };
        let mut control = own("control")?;
        control.extend(provider.iter().flat_map(|one| one.control.clone()));
        let log = |part: &str| folder.join(format!("logs/{part}.log"));
        let control = Part::start(control, &log("control"))?;
        let proxy = Part::start(own("proxy")?, &log("proxy"))?;
        let issuer = provider.as_ref().map(|one| one.issuer.clone());
        let stand = Self {
            issuer: issuer.unwrap_or_else(|| ready.issuer.to_string()),
            make,
            provider: Mutex::new(provider),
            control: Mutex::new(control),
            proxy: Mutex::new(proxy),
            site,
        };
        match stand.answers().await {
            Ok(()) => Ok(stand),
            Err(error) => Err(error.context(stand.dump().await)),
        }
    }

    /// Runs a script of `tests/browser` with these variables; returns its report.
    pub(super) async fn browse(
        &self,
        script: &str,
        more: &[(&str, &str)],
    ) -> anyhow::Result<Value> {
        let ready = self.site.ready();
        let all = [
            ("SITE_URL", ready.url.as_str()),
            ("WORKSPACE_URL", &ready.workspace_url),
            ("PROVIDER", self.make.name()),
            ("ISSUER", &self.issuer),
        ];
        nogoo9_tests::browse(script, &[&all, more].concat()).await
    }

    /// Takes the provider away; control is killed and starts again, so that it knows nothing of the
    /// provider any more.
    pub(super) async fn provider_goes(&self) -> anyhow::Result<()> {
        match &mut *self.provider.lock().await {
            Some(provider) => provider.stop().await?,
            // It is part of the supervisor. Stopped, it takes connections and answers none.
            None => self.site.process("up")?.signal(Signal::SIGSTOP)?,
        }
        let mut control = self.control.lock().await;
        control.end(Signal::SIGKILL).await?;
        control.again()?;
        self.answers().await
    }

    /// Brings the provider back.
    pub(super) async fn provider_comes(&self) -> anyhow::Result<()> {
        match &mut *self.provider.lock().await {
            Some(provider) => provider.again().await,
            None => self.site.process("up")?.signal(Signal::SIGCONT),
        }
    }

    /// Where control listens, which proxies alone know.
    pub(super) fn control_url(&self) -> anyhow::Result<Url> {
        let command = self.site.ready().commands.get("control");
        let command = command.context("the site starts its own control")?;
        let at = command.iter().position(|word| word == "--listen");
        let at = at.and_then(|at| command.get(at + 1)).context("--listen")?;
        Ok(Url::parse(&format!("http://{at}/"))?)
    }

    /// Waits until the provider has taken back a refresh token, of somebody who signed out; the one of
    /// local mode has no place for that.
    pub(super) async fn token_is_back(&self) -> anyhow::Result<()> {
        match &*self.provider.lock().await {
            Some(provider) => provider.took_back().await,
            None => Ok(()),
        }
    }

    /// Waits until control answers at the edge, to whoever asks.
    async fn answers(&self) -> anyhow::Result<()> {
        let edge = self.site.anonymous()?;
        let path = "/.well-known/oauth-protected-resource";
        patiently("control to answer", LONG, || async {
            let answer = Edge::send(edge.request(Method::GET, &edge.console(), path)?).await?;
            Ok(Observation::when(answer.status == 200, (), answer.status))
        })
        .await
    }
}

impl Ground for Stand {
    async fn dump(&self) -> String {
        self.site.dump().await
    }

    async fn stop(self) -> anyhow::Result<()> {
        // A scenario that failed may have left it stopped.
        self.site.process("up")?.signal(Signal::SIGCONT)?;
        self.proxy.lock().await.end(Signal::SIGTERM).await?;
        self.control.lock().await.end(Signal::SIGTERM).await?;
        if let Some(provider) = &mut *self.provider.lock().await {
            provider.stop().await?;
        }
        self.site.stop().await
    }
}
