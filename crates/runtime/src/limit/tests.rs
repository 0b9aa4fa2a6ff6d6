use super::*;
use proptest::prelude::*;
use std::net::Ipv4Addr;
use std::time::Duration;

fn most(n: u32) -> NonZeroU32 {
    NonZeroU32::new(n).unwrap()
}

fn per_minute(most: NonZeroU32) -> Failures {
    Failures::per_minute(most, Counted::default())
}

fn ip(n: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(n))
}

#[test]
fn so_many_at_once_then_one_at_a_time() {
    let failures = per_minute(most(30));
    let now = failures.began;
    for nth in 0..30 {
        assert_eq!(failures.failed(ip(1), "bearer", now), Ok(()), "{nth}");
    }
    let wait = Err(TooMany { seconds: 2 });
    assert_eq!(failures.failed(ip(1), "bearer", now), wait);
    // What is refused costs nothing: the wait does not grow.
    assert_eq!(failures.failed(ip(1), "bearer", now), wait);
    let later = now + Duration::from_millis(1_500);
    assert_eq!(
        failures.failed(ip(1), "bearer", later),
        Err(TooMany { seconds: 1 })
    );
    // Somebody else is somebody else.
    assert_eq!(failures.failed(ip(2), "bearer", now), Ok(()));
    let later = now + Duration::from_secs(2);
    assert_eq!(failures.failed(ip(1), "bearer", later), Ok(()));
    assert!(failures.failed(ip(1), "bearer", later).is_err());
    // After a minute of quiet it is as if nothing had been.
    let later = later + Duration::from_secs(60);
    for nth in 0..30 {
        assert_eq!(failures.failed(ip(1), "bearer", later), Ok(()), "{nth}");
    }
    assert!(failures.failed(ip(1), "bearer", later).is_err());
}

#[test]
fn an_ipv6_host_does_not_get_a_bucket_for_each_of_its_addresses() {
    let failures = per_minute(most(1));
    let now = failures.began;
    let host = |n: u16| IpAddr::V6(std::net::Ipv6Addr::new(0x2001, 0xdb8, 0, 1, 0, 0, 0, n));
    assert_eq!(failures.failed(host(1), "bearer", now), Ok(()));
    assert!(failures.failed(host(2), "bearer", now).is_err());
}

#[test]
fn who_is_forgotten_is_nearest_to_recovery() {
    let failures = Failures::sized(most(2), 1, 2);
    let now = failures.began;
    let fail = |n| failures.failed(ip(n), "bearer", now);
    assert_eq!((fail(1), fail(1), fail(2)), (Ok(()), Ok(()), Ok(())));
    assert!(fail(1).is_err());
    // 2 owes less than 1 and makes room.
    assert_eq!(fail(3), Ok(()));
    assert!(fail(1).is_err(), "1 is still known");
    assert_eq!(failures.len(), 2);
}

#[test]
fn suspect_is_where_more_than_half_has_been_used() {
    let minute = Duration::from_secs(60);
    for (n, made) in [(1, 1), (2, 1), (10, 5), (30, 15)] {
        let failures = per_minute(most(n));
        let now = failures.began;
        for _ in 1..made {
            assert_eq!(failures.failed(ip(1), "bearer", now), Ok(()));
        }
        assert!(!failures.is_suspect(ip(1), now), "{n}");
        assert_eq!(failures.failed(ip(1), "bearer", now), Ok(()));
        assert!(failures.is_suspect(ip(1), now), "{n}");
        assert!(!failures.is_suspect(ip(2), now), "{n}");
        // To look costs nothing, and it passes.
        assert!(!failures.is_suspect(ip(1), now + minute), "{n}");
        // Who goes on stays so, also in the moment in which one failure is heard again.
        let mut later = now;
        for _ in 0..600 {
            later += Duration::from_millis(700);
            assert!(n == 1 || failures.is_suspect(ip(1), later), "{n}");
            let _either = failures.failed(ip(1), "bearer", later);
        }
    }
}

#[tokio::test]
async fn addresses_with_many_failures_share_two_places_and_others_need_none() {
    let failures = per_minute(most(1));
    for n in 1..=3 {
        assert_eq!(failures.failed(ip(n), "bearer", Instant::now()), Ok(()));
    }
    for _ in 0..100 {
        assert!(failures.place(Some(ip(9))).await.is_none());
        assert!(failures.place(None).await.is_none());
    }
    let (one, two) = tokio::join!(failures.place(Some(ip(1))), failures.place(Some(ip(2))));
    assert!(one.is_some() && two.is_some());
    assert_eq!(failures.places.available_permits(), 0);
    let mut third = std::pin::pin!(failures.place(Some(ip(3))));
    let waits = std::future::poll_fn(|cx| std::task::Poll::Ready(third.as_mut().poll(cx)));
    assert!(waits.await.is_pending());
    assert!(failures.place(Some(ip(9))).await.is_none());
    drop(one);
    assert!(third.await.is_some());
}

#[test]
fn the_counter_tells_kinds_and_outcomes() {
    let mut registry = Registry::default();
    let failures = Failures::per_minute(most(1), Counted::register(&mut registry));
    for _ in 0..3 {
        let _either = failures.failed(ip(1), "cookie", failures.began);
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    for line in [
        "nogoo9_auth_failures_total{kind=\"cookie\",limited=\"false\"} 1",
        "nogoo9_auth_failures_total{kind=\"cookie\",limited=\"true\"} 2",
    ] {
        assert!(text.contains(line), "{line} not in\n{text}");
    }
}

/// Bursts of several clients: who, after how many milliseconds, how many failures.
fn bursts() -> impl Strategy<Value = Vec<(u32, u64, u8)>> {
    proptest::collection::vec((0_u32..8, 0_u64..20_000, 1_u8..8), 1..60)
}

/// A bucket by the book: so many tokens, filled evenly, one taken by each failure that is heard.
struct Bucket {
    millionths: u64,
    at: u64,
}

proptest! {
    #[test]
    fn it_is_a_token_bucket_for_each_client(n in prop_oneof![Just(1_u32), Just(6), Just(30), Just(600)], bursts in bursts()) {
        let failures = per_minute(most(n));
        let (full, cost) = (MINUTE / u64::from(n) * u64::from(n), MINUTE / u64::from(n));
        let mut book: HashMap<u32, Bucket> = HashMap::new();
        let mut micros = 0;
        for (who, pause, count) in bursts {
            micros += pause * 1000;
            let now = failures.began + Duration::from_micros(micros);
            for _ in 0..count {
                let bucket = book.entry(who).or_insert(Bucket { millionths: full, at: micros });
                bucket.millionths = full.min(bucket.millionths + (micros - bucket.at));
                bucket.at = micros;
                let heard = bucket.millionths >= cost;
                if heard {
                    bucket.millionths -= cost;
                }
                let verdict = failures.failed(ip(who), "bearer", now);
                prop_assert_eq!(verdict.is_ok(), heard, "{} at {}", who, micros);
                if let Err(TooMany { seconds }) = verdict {
                    let missing = cost - bucket.millionths;
                    prop_assert_eq!(seconds, missing.div_ceil(1_000_000));
                    prop_assert!(seconds >= 1);
                }
            }
        }
    }

    /// Whoever stays below the rate is never refused, wherever they began.
    #[test]
    fn below_the_rate_nobody_is_refused(n in 1_u32..=1000, began in 0_u64..100_000, extra in proptest::collection::vec(0_u64..5_000_000, 1..200)) {
        let failures = per_minute(most(n));
        let mut micros = began;
        for pause in extra {
            micros += MINUTE / u64::from(n) + pause;
            let now = failures.began + Duration::from_micros(micros);
            prop_assert_eq!(failures.failed(ip(1), "bearer", now), Ok(()));
        }
    }

    /// Whoever waits as long as they are told is heard, and a second less is too little.
    #[test]
    fn retry_after_is_right(n in 1_u32..=600, pause in 0_u64..3_000_000) {
        let failures = per_minute(most(n));
        let at = |micros: u64| failures.began + Duration::from_micros(micros);
        for _ in 0..n {
            prop_assert_eq!(failures.failed(ip(1), "bearer", at(0)), Ok(()));
        }
        if let Err(TooMany { seconds }) = failures.failed(ip(1), "bearer", at(pause)) {
            let too_early = pause + (seconds - 1) * 1_000_000;
            prop_assert!(failures.failed(ip(1), "bearer", at(too_early)).is_err());
            let in_time = pause + seconds * 1_000_000;
            prop_assert_eq!(failures.failed(ip(1), "bearer", at(in_time)), Ok(()));
        }
    }

    #[test]
    fn the_table_stays_bounded(sources in proptest::collection::vec((any::<u32>(), 0_u64..2_000_000), 1..400)) {
        let failures = Failures::sized(most(5), 4, 8);
        let mut micros = 0;
        for (who, pause) in sources {
            micros += pause;
            let now = failures.began + Duration::from_micros(micros);
            let _either = failures.failed(ip(who), "bearer", now);
            prop_assert!(failures.len() <= 32, "{}", failures.len());
        }
    }
}
