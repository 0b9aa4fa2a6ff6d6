use super::*;

const NOW: UnixSeconds = 1_000_000;
const GRACE: UnixSeconds = 3600;
const END: UnixSeconds = NOW + 40_000;

/// A session of which there is a token that is fresh for a quarter of an hour.
fn known() -> Known {
    Known::of("first", NOW + 900, END)
}

fn at(known: &Known, held: UnixSeconds, after: UnixSeconds) -> Verdict {
    verdict(NOW + held, known, NOW + after, GRACE)
}

fn renewed(fresh_until: UnixSeconds) -> Option<Answer> {
    Some(Answer::Renewed {
        token: "second".to_owned(),
        fresh_until,
        ends: END,
    })
}

#[test]
fn what_becomes_of_a_request() {
    let accept = |ask| Verdict::Accept { ask };
    let first = |ask| Verdict::AskFirst { ask };
    let grace = |ask| Verdict::Grace { ask };
    let mut asking = known();
    assert!(asking.begin(NOW + 900));
    let mut away = known();
    away.end(None, NOW + 900);
    let mut away_and_asked = away.clone();
    assert!(away_and_asked.begin(NOW + 910));
    let mut unknown = known();
    unknown.end(Some(Answer::Unknown), NOW + 900);
    let mut back = away.clone();
    back.end(renewed(NOW + 1800), NOW + 911);
    let mut in_passing = known();
    in_passing.end(None, NOW + 700);
    let mut gone_on = known();
    gone_on.end(renewed(NOW + 1800), NOW + 900);
    let mut refused = known();
    refused.end(Some(Answer::Refused), NOW + 700);
    let table = [
        (&known(), 900, 0, accept(false)),
        (&known(), 900, 599, accept(false)),
        (&known(), 900, 600, accept(true)),
        (&known(), 900, 899, accept(true)),
        (&known(), 900, 900, first(true)),
        (&known(), 900, 30_000, first(true)),
        // The session itself is over.
        (&known(), 900, 40_000, Verdict::Refuse),
        // Somebody asks already; one whose flight was lost does not count.
        (&asking, 900, 899, accept(false)),
        (&asking, 900, 900, first(false)),
        (&asking, 900, 919, first(false)),
        (&asking, 900, 920, first(true)),
        // Control could not be asked a moment ago: accepted for the grace, and asked again in passing.
        (&away, 900, 900, grace(false)),
        (&away, 900, 909, grace(false)),
        (&away, 900, 910, grace(true)),
        (&away_and_asked, 900, 911, grace(false)),
        (&away_and_asked, 900, 930, grace(true)),
        // That was a while ago: it is asked first.
        (&away, 900, 1199, grace(true)),
        (&away, 900, 1200, first(true)),
        (&unknown, 900, 910, grace(true)),
        // It answers again.
        (&back, 900, 1800, first(true)),
        // In passing, a little later; a clock that was put back holds up nothing.
        (&in_passing, 900, 729, accept(false)),
        (&in_passing, 900, 730, accept(true)),
        (&in_passing, 900, 699, accept(true)),
        // An old cookie of a session that goes on: what is known counts.
        (&gone_on, 900, 900, accept(false)),
        (&gone_on, 900, 1499, accept(false)),
        (&gone_on, 900, 1500, accept(true)),
        (&gone_on, 900, 1800, first(true)),
        // A newer one than what is known.
        (&known(), 1800, 900, accept(false)),
        // What is over is over, however fresh the token.
        (&refused, 900, 701, Verdict::Refuse),
        (&refused, 1800, 701, Verdict::Refuse),
    ];
    for (known, held, after, wanted) in table {
        assert_eq!(at(known, held, after), wanted, "{known:?} {held} {after}");
    }
}

#[test]
fn grace_is_an_hour_beyond_the_freshest_token() {
    let mut away = known();
    for (after, wanted) in [
        (900, Verdict::Grace { ask: false }),
        (4499, Verdict::Grace { ask: false }),
        (4500, Verdict::Unknown),
    ] {
        away.end(None, NOW + after);
        assert_eq!(at(&away, 900, after), wanted, "{after}");
        assert_eq!(away.settled(NOW + 900, NOW + after, GRACE), wanted);
    }
    // Without grace there is none.
    assert_eq!(away.settled(NOW + 900, NOW + 900, 0), Verdict::Unknown);
    // What control cannot tell is as good as no answer.
    for answer in [Answer::Unknown, Answer::Other] {
        let mut known = known();
        known.end(Some(answer), NOW + 900);
        assert_eq!(at(&known, 900, 900), Verdict::Grace { ask: false });
    }
}

#[test]
fn one_asks_for_all() {
    let mut known = known();
    assert!(known.begin(NOW));
    assert!(!known.begin(NOW + 1));
    known.end(renewed(NOW + 1800), NOW + 2);
    assert_eq!((&*known.token, known.fresh_until), ("second", NOW + 1800));
    assert!(known.begin(NOW + 20));
    // An answer that was overtaken by a newer token changes nothing.
    known.end(
        Some(Answer::Renewed {
            token: "old".to_owned(),
            fresh_until: NOW + 900,
            ends: END,
        }),
        NOW + 21,
    );
    assert_eq!(&*known.token, "second");
    known.end(Some(Answer::Refused), NOW + 30);
    assert!(!known.begin(NOW + 1000));
}

#[test]
fn a_socket_is_left_alone_until_it_is_due() {
    let seconds = |known: &Known, after| known.look_again(NOW + after) - NOW - after;
    assert_eq!(seconds(&known(), 0), 600);
    assert_eq!(seconds(&known(), 599), 10);
    assert_eq!(seconds(&known(), 2000), 10);
    let ends_soon = Known::of("first", NOW + 900, NOW + 100);
    assert_eq!(seconds(&ends_soon, 0), 100);
}
