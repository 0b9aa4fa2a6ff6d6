//! A site whose control is the suite's own.

use super::LONG;
use super::strikes::Strikes;
use nogoo9_tests::{Control, Ground, Observation, Options, Site, patiently};
use std::sync::Arc;

pub(super) struct Stage {
    pub(super) site: Site,
    pub(super) strikes: Arc<Strikes>,
    control: Control,
}

impl Stage {
    pub(super) async fn up() -> anyhow::Result<Self> {
        let args = ["--without", "control"].map(str::to_owned).to_vec();
        let site = Site::up(Options { args }).await?;
        let strikes = Arc::<Strikes>::default();
        let control = Control::start(&site, 0, strikes.judge()).await?;
        let stage = Self {
            site,
            strikes,
            control,
        };
        match stage.answers().await {
            Ok(()) => Ok(stage),
            Err(error) => Err(error.context(stage.dump().await)),
        }
    }

    async fn answers(&self) -> anyhow::Result<()> {
        let admin = self.site.api("admin").await?;
        // The site is up without control, and so maybe before its proxy listens, which waits for control.
        patiently("control to answer", LONG, || async {
            let reply = admin.get("/api/v1/workspaces").await?;
            Ok(Observation::when(reply.status == 200, (), reply))
        })
        .await
    }
}

impl Ground for Stage {
    async fn dump(&self) -> String {
        format!("{:#?}\n{}", self.strikes, self.site.dump().await)
    }

    async fn stop(self) -> anyhow::Result<()> {
        self.control.stop().await?;
        self.site.stop().await
    }
}
