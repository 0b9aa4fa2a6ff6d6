//! Kills the executor at every write of an upgrade, in every way: the write lost, its reply lost,
//! an error answered. Whoever goes on afterwards has no memory of it, and it must end well.

use crate::support::struck::{Case, asked, assert_ended, to_the_end};
use crate::support::{Fault, Faults, Site, WORKSPACES};
use nogoo9_control::cluster::ClusterError;

#[tokio::test]
async fn every_write_side_by_side_may_be_the_last() {
    strike_every_write(Case::SideBySide).await;
}

#[tokio::test]
async fn every_write_of_a_recreate_may_be_the_last() {
    strike_every_write(Case::Recreate).await;
}

#[tokio::test]
async fn every_write_of_a_restore_may_be_the_last() {
    strike_every_write(Case::Restore).await;
}

async fn strike_every_write(case: Case) {
    let site = Site::start().await;
    let mut struck = 0;
    let writes = case.writes() + 6;
    for n in 1..=writes {
        for (kind, fault) in [
            ("lost", Fault::Lost),
            ("reply-lost", Fault::ReplyLost),
            ("s500", Fault::Status(500)),
            ("s429", Fault::Status(429)),
            ("s409", Fault::Status(409)),
        ] {
            let id = format!("{}-{n}-{kind}", case.name());
            asked(&site, case, &id).await;
            let faults = Faults::at(n, fault);
            let failures = to_the_end(&site, &[site.cluster(&faults)], &id).await;
            assert_ended(&site, case, &id).await;
            if case == Case::SideBySide {
                assert_order(&faults.made(), &id);
            }
            if faults.struck() {
                struck += 1;
                // Beside the fault only races with the scheduler, which marks pods too.
                let others = failures
                    .iter()
                    .filter(|failure| !matches!(failure, ClusterError::Conflict { .. }));
                assert!(
                    others.count() <= 1,
                    "{id}: one fault, one failed pass: {failures:?}"
                );
            }
        }
    }
    let (least, name) = (case.writes(), case.name());
    assert!(
        struck >= 5 * least,
        "{name} takes at least {least} writes; {struck} faults struck"
    );
    let pods = site.pods().await.len();
    assert_eq!(pods, 5 * writes, "one pod a workspace, nothing left over");
}

/// The record says what is meant before a pod is made, and the old pod goes last.
fn assert_order(made: &[String], id: &str) {
    let first = |what: &str| made.iter().position(|write| write.starts_with(what));
    let pods = format!("/api/v1/namespaces/{WORKSPACES}/pods");
    let created = first(&format!("POST {pods}")).unwrap_or_else(|| panic!("{id}: {made:#?}"));
    let operation = first("POST /api/v1/namespaces/nogoo9-system/configmaps").unwrap();
    let marked = first(&format!("PATCH {pods}")).unwrap();
    let deleted = first(&format!("DELETE {pods}")).unwrap();
    assert!(
        operation < created && created < marked && marked < deleted,
        "{id}: {made:#?}"
    );
}

#[tokio::test]
async fn two_executors_at_once_do_it_once() {
    let site = Site::start().await;
    for round in 0..15 {
        let id = format!("both-{round}");
        let case = Case::ALL[round % 3];
        asked(&site, case, &id).await;
        let faults = [Faults::default(), Faults::default()];
        let clusters = [site.cluster(&faults[0]), site.cluster(&faults[1])];
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
    assert_eq!(site.pods().await.len(), 15);
}
