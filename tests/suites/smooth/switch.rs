//! Side by side, before the drain bound.

use super::crowd::{Crowd, Ended};
use super::pipeline::Pipeline;
use super::transfer::{Transfer, whole};
use super::{LONG, Scale, begin, succeeded, template};
use nogoo9_model::keys;
use nogoo9_tests::Site;
use serde_json::json;
use std::sync::Arc;

pub(super) async fn nothing_breaks(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let Scale {
        crowd: count,
        blocks,
    } = Scale::asked();
    let template = template("smooth")
        .annotation(keys::SETTLE, "0")
        // A bound that the scenario does not live to see.
        .annotation(keys::DRAIN_TIMEOUT, "3600");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let crowd = Crowd::open(&edge, &id, count).await?;
    let upload = Transfer::upload(&edge, &id, 1, blocks).await?;
    let download = Transfer::download(&edge, &id, 2, (blocks / 2, blocks), false).await?;
    let chunked = Transfer::download(&edge, &id, 3, (blocks / 2, blocks), true).await?;
    let pipeline = Pipeline::start(&edge, &id).await?;

    cluster.apply(&template.version("2.0")).await?;
    let (new, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&new)).await?;
    pipeline.goes_on().await?;
    assert_eq!(edge.get(&id, "/info").await?.json()?["pod"], new.as_str());

    // What is open goes on, on the old pod, which is kept for it.
    crowd.goes_on(3).await?;
    for transfer in [&upload, &download, &chunked] {
        assert!(!transfer.has_ended());
    }
    upload.arrives(&whole(1, blocks)).await?;
    download.arrives(&whole(2, blocks)).await?;
    chunked.arrives(&whole(3, blocks)).await?;
    crowd.goes_on(1).await?;
    assert_eq!(alice.operation(&operation).await?["state"], "running");
    assert_eq!(cluster.pod_names(&id).await?, [old.clone(), new.clone()]);

    // It goes with the last who uses it.
    let (listeners, talkers) = crowd.leave().await?;
    assert_eq!((listeners.len(), talkers.len()), (count, count));
    for story in &listeners {
        assert_eq!(
            (&story.ended, &story.pod),
            (&Ended::Left, &old),
            "{story:?}"
        );
    }
    for story in &talkers {
        assert_eq!(story.ended, Ended::Left, "{story:?}");
    }
    succeeded(&alice, &operation).await?;
    cluster.only_pod(&id, &new, LONG).await?;
    pipeline.goes_on().await?;
    pipeline.end().await?;
    Ok(())
}
