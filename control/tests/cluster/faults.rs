//! Fails every call of an upgrade, reads too; takes the API server away for minutes at each of them;
//! and lets two executors work by clocks that are minutes apart.

use crate::support::struck::{Case, asked, assert_alone, assert_ended, proxies, to_the_end};
use crate::support::{Fault, Faults, Site};
use futures::StreamExt as _;
use futures::stream;
use nogoo9_control::cluster::ClusterError;
use nogoo9_control::upgrade::pass;

/// Upgrades at once: they wait for the server more than they compute.
const AT_ONCE: usize = 6;
/// How long the API server is away, in seconds.
const AWAY: i64 = 120;
/// Calls that it is asked in vain meanwhile.
const IN_VAIN: usize = 7;
/// Far more passes than any schedule takes.
const PASSES: usize = 60;

/// Calls of such an upgrade.
async fn calls(site: &Site, case: Case) -> usize {
    let id = format!("{}-clean", case.name());
    asked(site, case, &id).await;
    let faults = Faults::at_call(usize::MAX, Fault::Lost, 1);
    let failures = to_the_end(site, &[site.cluster(&faults)], &id).await;
    let others = failures
        .iter()
        .filter(|failure| !matches!(failure, ClusterError::Conflict { .. }));
    assert_eq!(others.count(), 0, "{failures:?}");
    assert_ended(site, case, &id).await;
    faults.seen()
}

async fn fail_every_call(case: Case) {
    let site = Site::start().await;
    let calls = calls(&site, case).await;
    let least = 4 * case.writes();
    assert!(calls > least, "a write rests on several reads: {calls}");
    let kinds = [
        Fault::Lost,
        Fault::ReplyLost,
        Fault::Status(409),
        Fault::Status(429),
        Fault::Status(500),
        Fault::Status(503),
        Fault::Status(504),
    ];
    let strikes = (1..=calls).map(|n| {
        let (site, fault) = (&site, kinds[n % kinds.len()]);
        async move {
            let id = format!("{}-{n}", case.name());
            asked(site, case, &id).await;
            let faults = Faults::at_call(n, fault, 1);
            let failures = to_the_end(site, &[site.cluster(&faults)], &id).await;
            assert_ended(site, case, &id).await;
            let others = failures
                .iter()
                .filter(|failure| !matches!(failure, ClusterError::Conflict { .. }));
            assert!(others.count() <= 1, "{id} {fault:?}: {failures:?}");
            usize::from(faults.struck())
        }
    });
    let struck: Vec<usize> = stream::iter(strikes)
        .buffer_unordered(AT_ONCE)
        .collect()
        .await;
    let struck: usize = struck.into_iter().sum();
    assert!(struck > least, "{struck} of {calls} faults struck");
    assert_eq!(site.pods().await.len(), calls + 1, "one pod a workspace");
}

#[tokio::test]
async fn any_call_side_by_side_may_fail() {
    fail_every_call(Case::SideBySide).await;
}

#[tokio::test]
async fn any_call_of_a_recreate_may_fail() {
    fail_every_call(Case::Recreate).await;
}

#[tokio::test]
async fn any_call_of_a_restore_may_fail() {
    fail_every_call(Case::Restore).await;
}

/// Away for minutes from each third call on, which is each phase several times.
#[tokio::test]
async fn the_api_server_is_away_for_minutes_at_each_phase() {
    let site = Site::start().await;
    for case in Case::ALL {
        let calls = calls(&site, case).await;
        let outages = (1..=calls).step_by(3).map(|n| {
            let site = &site;
            async move {
                let id = format!("{}-away-{n}", case.name());
                asked(site, case, &id).await;
                let faults = Faults::at_call(n, Fault::Lost, IN_VAIN);
                let (before, after) = (site.cluster(&faults), site.cluster_ahead(&faults, AWAY));
                let proxies = proxies().await;
                let mut ended = false;
                for _ in 0..PASSES {
                    let cluster = if faults.struck() { &after } else { &before };
                    let passed = pass(cluster, &proxies, &id).await;
                    site.kubelet().await;
                    assert_alone(site, &id).await;
                    let clean = site.cluster(&Faults::default());
                    let record = clean.record(&id).await.unwrap().unwrap().value;
                    ended = record.upgrade.is_none() && record.last.is_some_and(|last| last.shown);
                    if ended && passed.is_ok() {
                        break;
                    }
                }
                assert!(ended, "{id} did not end");
                assert_ended(site, case, &id).await;
            }
        });
        let outages = stream::iter(outages).buffer_unordered(AT_ONCE);
        outages.collect::<Vec<()>>().await;
    }
}

#[tokio::test]
async fn two_executors_whose_clocks_are_minutes_apart_do_it_once() {
    let site = Site::start().await;
    for round in 0..9 {
        let id = format!("apart-{round}");
        let case = Case::ALL[round % 3];
        asked(&site, case, &id).await;
        let clusters = [-AWAY, AWAY].map(|ahead| site.cluster_ahead(&Faults::default(), ahead));
        let failures = to_the_end(&site, &clusters, &id).await;
        for failure in &failures {
            assert!(
                matches!(
                    failure,
                    ClusterError::Conflict { .. } | ClusterError::Exists { .. }
                ),
                "only lost races: {failure:?}"
            );
        }
        assert_ended(&site, case, &id).await;
    }
    assert_eq!(site.pods().await.len(), 9);
}
