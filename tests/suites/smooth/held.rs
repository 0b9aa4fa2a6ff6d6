//! A recreate: for a while there is no pod. What was open is ended as its protocol says, what could be
//! finished was given the time, and what is new waits, whatever it is.

use super::crowd::{Crowd, Ended};
use super::pipeline::Pipeline;
use super::transfer::{Arrived, Transfer, whole};
use super::{LONG, RESTART, Scale, begin, succeeded, template};
use futures::future::try_join_all;
use nogoo9_tests::{Observation, Site, until};
use serde_json::json;
use std::sync::Arc;

/// Held requests of each kind; all of them together are fewer than one workspace may have.
const HELD: usize = 30;
/// Blocks of transfers that can be done in the 10 s that a recreate gives.
const SMALL: u64 = 64;

pub(super) async fn what_is_new_is_held(site: Arc<Site>) -> anyhow::Result<()> {
    let (alice, edge, cluster) = (
        site.api("alice").await?,
        site.edge("alice").await?,
        site.cluster().await?,
    );
    let Scale {
        crowd: count,
        blocks,
    } = Scale::asked();
    let template = template("held").env("ABRUPT", "1").files(None);
    let id = site.spawn(&alice, &template, json!({})).await?;
    let old = cluster.pod_names(&id).await?.remove(0);
    let crowd = Crowd::open(&edge, &id, count).await?;
    let upload = Transfer::upload(&edge, &id, 1, SMALL).await?;
    let download = Transfer::download(&edge, &id, 2, (SMALL / 2, SMALL), true).await?;
    let never = Transfer::upload(&edge, &id, 3, blocks).await?;
    let pipeline = Pipeline::start(&edge, &id).await?;

    cluster.apply(&template.version("2.0")).await?;
    let (new, operation) = begin(&alice, &id).await?;
    until("the old pod to be quiesced", LONG, || async {
        let routes = site.proxy_admin("/routes").await?;
        let pod = routes["routes"][&id]["pod"].clone();
        Ok(Observation::when(pod != old.as_str(), (), pod))
    })
    .await?;
    // What is under way ends well, if it ends soon.
    let expected = whole(1, SMALL);
    upload.arrives(&expected).await?;
    download.arrives(&whole(2, SMALL)).await?;
    // All that is new waits for the new pod.
    let pages = try_join_all((0..HELD).map(|_| async {
        let info = edge.get(&id, "/info").await?.json()?;
        assert_eq!(info["pod"], new.as_str());
        Ok::<_, anyhow::Error>(())
    }));
    let uploads = try_join_all((0..HELD as u64).map(|_| async {
        let upload = Transfer::upload(&edge, &id, 1, SMALL).await?;
        upload.arrives(&expected).await
    }));
    let crowds = Crowd::open(&edge, &id, HELD);
    let (_, _, again) = tokio::try_join!(pages, uploads, crowds)?;
    pipeline.goes_on().await?;
    succeeded(&alice, &operation).await?;
    cluster.only_pod(&id, &new, LONG).await?;
    again.goes_on(1).await?;
    let (listeners, talkers) = again.leave().await?;
    assert_eq!(talkers.len(), HELD);
    for story in &listeners {
        assert_eq!(
            (&story.ended, &story.pod),
            (&Ended::Left, &new),
            "{story:?}"
        );
    }

    let (listeners, talkers) = crowd.all_end().await?;
    assert_eq!((listeners.len(), talkers.len()), (count, count));
    for story in &listeners {
        assert!(matches!(story.ended, Ended::Broken(_)), "{story:?}");
        assert_eq!(story.pod, old, "{story:?}");
    }
    for story in &talkers {
        assert_eq!(story.ended, Ended::Closed(RESTART), "{story:?}");
    }
    match never.ends().await? {
        Arrived::Answer(status, said) => {
            assert!(
                status.is_server_error(),
                "an upload to nobody: {status} {said}"
            );
        }
        Arrived::Broken(..) => {}
    }
    pipeline.goes_on().await?;
    pipeline.end().await?;
    Ok(())
}
