use super::*;

const NOW: UnixSeconds = 1_000_000;
const MINUTE: UnixSeconds = 60;

fn record() -> SessionRecord {
    SessionRecord::begin(
        "sid".to_owned(),
        "alice".to_owned(),
        roles(&["user"]),
        Some("sealed".to_owned()),
        &Limits::default(),
        NOW,
    )
}

fn unrefreshable() -> SessionRecord {
    SessionRecord {
        refresh: None,
        ends: NOW + 3600,
        ..record()
    }
}

fn roles(roles: &[&str]) -> Roles {
    let roles: Vec<String> = roles.iter().map(|role| (*role).to_owned()).collect();
    roles.into()
}

/// A demotion may be expressed by a claim that is missing.
#[test]
fn what_renewals_make_of_roles() {
    let silent = || Some(Roles::default());
    let said = |all: &[&str]| Some(roles(all));
    for (begun, renewed, wanted) in [
        (roles(&["ops"]), vec![None], &["ops"][..]),
        (roles(&["ops"]), vec![said(&["dev"])], &["dev"]),
        (roles(&["ops"]), vec![silent()], &[]),
        (roles(&["ops"]), vec![silent(), None], &[]),
        (roles(&["ops"]), vec![silent(), said(&["ops"])], &["ops"]),
        (roles(&["ops"]), vec![said(&[])], &[]),
        // Where roles have never been named, silence says nothing.
        (Roles::default(), vec![silent()], &[]),
        (Roles::default(), vec![said(&["ops"]), None], &["ops"]),
        (Roles::default(), vec![said(&["ops"]), silent()], &[]),
    ] {
        let begun = SessionRecord::begin(
            "sid".to_owned(),
            "alice".to_owned(),
            begun,
            None,
            &Limits::default(),
            NOW,
        );
        let last = renewed
            .iter()
            .cloned()
            .fold(begun, |record, roles| record.vouched(None, roles, NOW));
        assert_eq!(last.roles, wanted, "{renewed:?}");
    }
    // A record of an earlier version does not say: it keeps what it has.
    let json = serde_json::to_value(record()).unwrap();
    let mut json = json.as_object().unwrap().clone();
    json.remove("rolesNamed").unwrap();
    let earlier: SessionRecord = serde_json::from_value(json.into()).unwrap();
    assert_eq!(earlier.vouched(None, silent(), NOW).roles, ["user"]);
}

#[test]
fn a_session_that_cannot_be_asked_about_is_short() {
    let limits = |length, unrefreshable| Limits {
        length,
        unrefreshable,
        grace: 0,
    };
    for (refresh, limits, lasts) in [
        (true, limits(100, 10), 100),
        (false, limits(100, 10), 10),
        (false, limits(5, 10), 5),
    ] {
        let record = SessionRecord::begin(
            "sid".to_owned(),
            "alice".to_owned(),
            Roles::default(),
            refresh.then(|| "sealed".to_owned()),
            &limits,
            NOW,
        );
        assert_eq!(record.ends - NOW, lasts);
    }
}

#[test]
fn what_a_renewal_does() {
    let with = |change: fn(&mut SessionRecord)| {
        let mut changed = record();
        change(&mut changed);
        changed
    };
    let revoked = with(|r| r.revoked = Some(NOW));
    let claimed = with(|r| r.claimed = Some(NOW + 11 * MINUTE));
    let absurd = with(|r| r.claimed = Some(NOW + 1000 * MINUTE));
    let from_the_future = with(|r| r.checked = NOW + 1000 * MINUTE);
    let asking = |minutes: UnixSeconds| record().claim(NOW + minutes * MINUTE);
    let in_25 = NOW + 25 * MINUTE;
    let refuse = Step::Refuse;
    let table = [
        // The provider has just vouched: no token outlives that by more than 15 minutes.
        (record(), 0, Step::Sign(15)),
        (record(), 5, Step::Sign(15)),
        (record(), 9, Step::Sign(15)),
        (record(), 10, Step::Refresh),
        (record(), 300, Step::Refresh),
        // Another control asks it at this moment.
        (claimed.clone(), 10, Step::Sign(15)),
        (claimed, 11, Step::Refresh),
        // Beyond what its last yes was good for, only its answer leads on.
        (asking(14), 14, Step::Sign(15)),
        (asking(15), 15, Step::Wait),
        (asking(20), 20, Step::Wait),
        // Unless it has been asked, and did not answer: then for as long as was signed meanwhile.
        (asking(20).unanswered(in_25), 20, Step::Sign(25)),
        (asking(14).unanswered(in_25), 14, Step::Sign(19)),
        (asking(20).unanswered(NOW), 20, Step::Wait),
        (asking(14).unanswered(NOW), 14, Step::Sign(15)),
        (record().unanswered(in_25), 20, Step::Refresh),
        // Clocks that were far ahead bind nobody.
        (absurd, 10, Step::Refresh),
        (from_the_future, 3, Step::Sign(18)),
        // Nobody can be asked: until it is revoked, or over.
        (unrefreshable(), 0, Step::Sign(15)),
        (unrefreshable(), 30, Step::Sign(45)),
        (unrefreshable(), 50, Step::Sign(60)),
        (unrefreshable(), 60, refuse(Refusal::Over)),
        (revoked.clone(), 1, refuse(Refusal::Revoked)),
        (revoked, 12 * 60, refuse(Refusal::Revoked)),
        (record(), 12 * 60 - 1, Step::Refresh),
        (record(), 12 * 60, refuse(Refusal::Over)),
    ];
    for (record, minutes, wanted) in table {
        let wanted = match wanted {
            Step::Sign(until) => Step::Sign(NOW + until * MINUTE),
            other => other,
        };
        let step = record.step("alice", NOW + minutes * MINUTE);
        assert_eq!(step, wanted, "{record:?} after {minutes} min");
        assert_eq!(
            record.step("bob", NOW + minutes * MINUTE),
            refuse(Refusal::Unknown)
        );
    }
}

#[test]
fn no_token_counts_beyond_the_session() {
    let ends = record().ends;
    let late = record().vouched(None, None, ends - 30);
    assert_eq!(late.step("alice", ends - 20), Step::Sign(ends));
    assert_eq!(late.unchecked(ends - 20), ends);
    assert_eq!(record().unchecked(NOW), NOW + 5 * MINUTE);
}

#[test]
fn a_provider_that_does_not_take_us_keeps_nobody_in_for_ever() {
    for (minutes, grace, wanted) in [
        (10, 60, Some(15)),
        (70, 60, Some(75)),
        // Never beyond the quarter of an hour and the grace.
        (72, 60, Some(75)),
        (75, 60, None),
        (300, 60, None),
        (14, 0, Some(15)),
        (15, 0, None),
    ] {
        let until = record().untaken(NOW + minutes * MINUTE, grace * MINUTE);
        let wanted = wanted.map(|minutes: UnixSeconds| NOW + minutes * MINUTE);
        assert_eq!(until, wanted, "{minutes} min, grace {grace} min");
    }
    // Nor beyond the session's end.
    let late = record().vouched(None, None, record().ends - 60);
    assert_eq!(late.untaken(late.ends - 30, 3600), Some(late.ends));
}

#[test]
fn a_claim_ends_with_the_answer() {
    let now = NOW + 10 * MINUTE;
    let claimed = record().claim(now).unanswered(now + 5);
    assert_eq!(claimed.claimed, Some(now + CLAIM_FOR));
    let kept = claimed.clone().vouched(None, None, now);
    assert_eq!(kept.refresh.as_deref(), Some("sealed"));
    assert_eq!(kept.roles, ["user"]);
    assert_eq!((kept.claimed, kept.checked, kept.seen), (None, now, now));
    assert_eq!(kept.unanswered, None);
    let roles = Some(roles(&["viewer"]));
    let changed = claimed
        .clone()
        .vouched(Some("other".to_owned()), roles, now);
    assert_eq!(changed.refresh.as_deref(), Some("other"));
    assert_eq!(changed.roles, ["viewer"]);
    let out = claimed.revoke(now);
    assert_eq!(
        (out.revoked, out.claimed, &out.refresh),
        (Some(now), None, &None)
    );
    // The first time is the one that is remembered.
    assert_eq!(out.clone().revoke(now + 5), out);
}

#[test]
fn what_is_over_and_what_lives() {
    let revoked = record().revoke(NOW);
    for (record, after, live, over) in [
        (record(), 0, true, false),
        (record(), 12 * 3600 - 1, true, false),
        (record(), 12 * 3600, false, true),
        (revoked.clone(), 0, false, false),
        (revoked.clone(), 3599, false, false),
        (revoked, 3600, false, true),
    ] {
        let now = NOW + after;
        assert_eq!(
            (record.is_live(now), record.is_over(now)),
            (live, over),
            "{after}"
        );
    }
}

#[test]
fn seen_is_noted_every_few_minutes() {
    assert_eq!(record().note(NOW + 299), None);
    let noted = record().note(NOW + 300).unwrap();
    assert_eq!(noted.seen, NOW + 300);
    assert_eq!(SessionRecord { seen: NOW, ..noted }, record());
}

#[test]
fn the_oldest_live_sessions_make_room() {
    let many = |count: usize| -> Vec<SessionRecord> {
        let one = |n: usize| SessionRecord {
            sid: format!("s{n:03}"),
            started: NOW - UnixSeconds::try_from(n).unwrap(),
            ..record()
        };
        (0..count).map(one).collect()
    };
    let sids = |sessions: Vec<SessionRecord>| -> Vec<String> {
        let gone = surplus(sessions, |one| one, NOW);
        gone.into_iter().map(|one| one.sid).collect()
    };
    assert!(sids(Vec::new()).is_empty());
    assert!(sids(many(MOST - 1)).is_empty());
    assert_eq!(sids(many(MOST)), ["s049"]);
    assert_eq!(sids(many(MOST + 2)), ["s051", "s050", "s049"]);
    // What does not live takes no place.
    let mut some = many(MOST + 2);
    for old in &mut some[MOST..] {
        old.revoked = Some(NOW);
    }
    assert_eq!(sids(some), ["s049"]);
    // And is not remembered without bound, however fast somebody signs in and out.
    let out = |count: usize| {
        let mut all = many(count);
        for one in &mut all {
            one.revoked = Some(NOW);
        }
        all
    };
    assert!(sids(out(MOST)).is_empty());
    assert_eq!(sids(out(MOST + 2)), ["s051", "s050"]);
    let mut both = out(MOST + 1);
    both.extend(many(MOST).into_iter().map(|one| SessionRecord {
        sid: format!("live-{}", one.sid),
        ..one
    }));
    assert_eq!(sids(both), ["live-s049", "s050"]);
}

#[test]
fn nothing_of_a_refresh_token_is_shown() {
    assert!(!format!("{:?}", record()).contains("sealed"));
}
