//! How long a request is awaited, and its head.

use super::*;

#[tokio::test]
async fn deadlines() {
    const SHORT: Duration = Duration::from_millis(20);
    let hasty = Deadlines {
        head: SHORT,
        ..PATIENT
    };
    for (speaks, sent, wait, deadlines, wanted) in [
        (Speaks::Http1, "", SHORT, PATIENT, Lost::Silent),
        (Speaks::Http2, "", SHORT, PATIENT, Lost::Silent),
        (
            Speaks::Http1,
            "GET / HTTP/1.1\r\nHost: x\r\n",
            LONG,
            hasty,
            Lost::Slow,
        ),
        (Speaks::Http1, "G", LONG, hasty, Lost::Slow),
        (
            Speaks::Either,
            "PRI * HTTP/2.0\r\n\r\nSM",
            LONG,
            hasty,
            Lost::Slow,
        ),
        (
            Speaks::Http2,
            "PRI * HTTP/2.0\r\n\r\nSM",
            LONG,
            hasty,
            Lost::Slow,
        ),
    ] {
        let (mut client, mut connection) = pair().await;
        client.write_all(sent.as_bytes()).await.unwrap();
        let came = connection.next(speaks, wait, &deadlines, &BOUNDS, pending());
        assert_eq!(came.await, Err(wanted), "{sent:?}");
    }
}

#[tokio::test]
async fn a_deadline_is_for_the_whole_head_however_much_comes_meanwhile() {
    let (mut client, mut connection) = pair().await;
    let deadlines = Deadlines {
        head: Duration::from_secs(2),
        ..PATIENT
    };
    // Three deadlines' worth: a deadline that began anew with each byte would never pass meanwhile.
    let dripping = async {
        client.set_nodelay(true).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\na: ").await.unwrap();
        for _ in 0..600 {
            client.write_all(b"a").await.unwrap();
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let large = Bounds {
        section: usize::MAX / 2,
        ..BOUNDS
    };
    tokio::select! {
        came = connection.next(Speaks::Http1, LONG, &deadlines, &large, pending()) => {
            assert_eq!(came, Err(Lost::Slow));
        }
        () = dripping => panic!("the head may take for ever"),
    }
    // It was not silence that ended it.
    assert!(connection.buffer.len() > 20);
}

#[tokio::test]
async fn what_closes_does_not_wait_for_a_request_but_for_the_rest_of_one() {
    let (_client, mut connection) = pair().await;
    let closed = async {};
    let came = connection.next(Speaks::Http1, LONG, &PATIENT, &BOUNDS, closed);
    assert_eq!(came.await, Ok(Came::Nothing));

    let (mut client, mut connection) = pair().await;
    client.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    poll_fn(|cx| connection.poll_fill(cx)).await.unwrap();
    let closed = async {};
    let came = connection.next(Speaks::Http1, LONG, &PATIENT, &BOUNDS, closed);
    let (came, sent) = tokio::join!(came, client.write_all(b"\r\n"));
    sent.unwrap();
    assert_eq!(came, Ok(Came::Request));
}
