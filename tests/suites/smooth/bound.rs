//! Side by side, at the drain bound, with a program that knows nothing of being replaced: it is gone
//! the moment that it is told to end, so what clients see is the edge's word, not the program's.

use super::crowd::{Crowd, Ended};
use super::pipeline::Pipeline;
use super::transfer::{Arrived, Transfer};
use super::{LONG, RESTART, Scale, begin, succeeded, template};
use kube::ResourceExt as _;
use nogoo9_local::sample::noise::BLOCK;
use nogoo9_model::keys;
use nogoo9_tests::Site;
use serde_json::json;
use std::sync::Arc;

/// Blocks of a download that are read; what the system keeps of the rest is less than all of it.
const MOST: u64 = 256;

pub(super) async fn each_ends_as_its_protocol_says(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let Scale {
        crowd: count,
        blocks,
    } = Scale::asked();
    let template = template("bound")
        .env("ABRUPT", "1")
        .annotation(keys::SETTLE, "0")
        .annotation(keys::DRAIN_TIMEOUT, "5");
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let crowd = Crowd::open(&edge, &id, count).await?;
    let upload = Transfer::upload(&edge, &id, 1, blocks).await?;
    let download = Transfer::download(&edge, &id, 2, (MOST, MOST * 64), false).await?;
    let chunked = Transfer::download(&edge, &id, 3, (MOST, MOST * 64), true).await?;
    let pipeline = Pipeline::start(&edge, &id).await?;

    cluster.apply(&template.version("2.0")).await?;
    let (new, operation) = begin(&alice, &id).await?;
    site.routed(&id, Some(&new)).await?;
    crowd.first_end().await?;
    // Not before the bound, at which the old pod is deleted.
    for pod in cluster.pods(&id).await? {
        let kept = pod.name_any() == old && pod.metadata.deletion_timestamp.is_none();
        assert!(!kept, "something ended while {old} was kept");
    }
    succeeded(&alice, &operation).await?;
    cluster.only_pod(&id, &new, LONG).await?;

    let (listeners, talkers) = crowd.all_end().await?;
    assert_eq!((listeners.len(), talkers.len()), (count, count));
    // No stream looks complete that is not, and none misses an event up to there.
    for story in &listeners {
        assert!(matches!(story.ended, Ended::Broken(_)), "{story:?}");
        assert!(story.pod == old && story.seen > 0, "{story:?}");
    }
    // Whole frames up to the Close, which says to come back at once.
    for story in &talkers {
        assert_eq!(story.ended, Ended::Closed(RESTART), "{story:?}");
        assert!(story.seen > 0, "{story:?}");
    }
    match upload.ends().await? {
        Arrived::Answer(status, said) => {
            assert!(
                status.is_server_error(),
                "an upload to nobody: {status} {said}"
            );
        }
        Arrived::Broken(..) => {}
    }
    for transfer in [download, chunked] {
        match transfer.ends().await? {
            Arrived::Broken(bytes, why) => assert!(bytes < MOST * 64 * BLOCK as u64, "{why}"),
            whole @ Arrived::Answer(..) => {
                unreachable!("a download that looks complete: {whole:?}")
            }
        }
    }
    // Nothing of it is seen by requests, and whoever comes back is with the new pod.
    pipeline.goes_on().await?;
    pipeline.end().await?;
    let again = Crowd::open(&edge, &id, 1).await?;
    let (listeners, talkers) = again.leave().await?;
    assert_eq!(
        (listeners[0].pod.as_str(), talkers.len()),
        (new.as_str(), 1)
    );
    Ok(())
}
