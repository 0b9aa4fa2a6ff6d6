use super::*;
use crate::accept::count::Connections;
use pingora::protocols::UniqueID as _;
use std::future::pending;
use std::sync::atomic::Ordering;
use tokio::io::AsyncReadExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;

const BOUNDS: Bounds = Bounds {
    target: 100,
    section: 1000,
    fields: 10,
};
const LONG: Duration = Duration::from_secs(60);
const PATIENT: Deadlines = Deadlines {
    first: LONG,
    head: LONG,
    idle: LONG,
};

async fn pair() -> (TcpStream, Connection) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let client = TcpStream::connect(address).await.unwrap();
    let (served, peer) = listener.accept().await.unwrap();
    let admitted = Connections::new(None, None).admit().unwrap();
    let lingering = Lingering::new(TaskTracker::new());
    let metrics = Metrics::default();
    let wire = Wire::Clear(served);
    let connection = Connection::new(wire, peer, None, admitted, lingering, metrics);
    (client, connection)
}

/// Waits, and not for ever.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(LONG, what).await.expect("it never is")
}

async fn next(connection: &mut Connection, speaks: Speaks) -> Result<Came, Lost> {
    connection
        .next(speaks, LONG, &PATIENT, &BOUNDS, pending())
        .await
}

/// All that may be read before the next request is awaited.
async fn handed_on(connection: &mut Connection) -> Vec<u8> {
    let mut read = Vec::new();
    while !connection.due.is_over() {
        let mut part = [0; 7];
        let n = connection.read(&mut part).await.unwrap();
        read.extend_from_slice(&part[..n]);
    }
    read
}

#[tokio::test]
async fn requests_that_came_together_are_handed_on_one_by_one() {
    let (mut client, mut connection) = pair().await;
    let (get, post, chunks) = (
        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\nthe body.",
        "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nthe body.\r\n0\r\n\r\n",
    );
    let requests = [get, post, chunks, get, chunks, chunks, post];
    client
        .write_all(requests.concat().as_bytes())
        .await
        .unwrap();
    for request in requests {
        assert_eq!(
            next(&mut connection, Speaks::Http1).await,
            Ok(Came::Request)
        );
        assert_eq!(handed_on(&mut connection).await, request.as_bytes());
        let mut probe = [0; 1];
        let looks = poll_fn(|cx| {
            let mut probe = ReadBuf::new(&mut probe);
            Poll::Ready(Pin::new(&mut connection).poll_read(cx, &mut probe))
        });
        assert!(looks.await.is_pending());
    }
    drop(client);
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Nothing)
    );
}

#[tokio::test]
async fn a_body_arrives_as_it_was_sent_and_no_further() {
    let (mut client, mut connection) = pair().await;
    let body: Vec<u8> = (0..200_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let head = format!("PUT / HTTP/1.1\r\nContent-Length: {}\r\n\r\n", body.len());
    let whole = [head.as_bytes(), &body].concat();
    arrives(&mut client, &mut connection, whole).await;
    let head = "PUT / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n30D40\r\n";
    let whole = [head.as_bytes(), &body, b"\r\n0\r\n\r\n"].concat();
    arrives(&mut client, &mut connection, whole).await;
}

/// Sends a request, and another one after it.
async fn arrives(client: &mut TcpStream, connection: &mut Connection, whole: Vec<u8>) {
    let follower = b"GET / HTTP/1.1\r\n\r\n";
    let sending = async {
        client.write_all(&whole).await.unwrap();
        client.write_all(follower).await.unwrap();
    };
    let receiving = async {
        for wanted in [&whole[..], follower] {
            assert_eq!(next(connection, Speaks::Http1).await, Ok(Came::Request));
            assert!(handed_on(connection).await == wanted);
        }
    };
    tokio::join!(sending, receiving);
}

/// A client, and its connection, on which a request without a body has been handed on.
async fn asked() -> (TcpStream, Connection) {
    let (mut client, mut connection) = pair().await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Request)
    );
    handed_on(&mut connection).await;
    (client, connection)
}

#[tokio::test]
async fn who_leaves_while_the_answer_is_awaited_is_noticed() {
    let (client, mut connection) = asked().await;
    drop(client);
    assert_eq!(connection.read(&mut [0; 1]).await.unwrap(), 0);
}

#[tokio::test]
async fn who_leaves_is_noticed_behind_what_it_has_sent_of_its_next_request() {
    let much = "x".repeat(3 * AHEAD);
    for more in ["\r\n", "G", &much] {
        for late in [false, true] {
            let (mut client, mut connection) = asked().await;
            client.write_all(more.as_bytes()).await.unwrap();
            let mut probe = [0; 1];
            if late {
                let read =
                    tokio::time::timeout(Duration::from_millis(20), connection.read(&mut probe));
                assert!(read.await.is_err(), "it has not left");
            }
            drop(client);
            // As often as somebody looks.
            for _ in 0..2 {
                assert_eq!(soon(connection.read(&mut probe)).await.unwrap(), 0);
            }
            assert!(connection.buffer.len() <= AHEAD + CHUNK);
        }
    }
}

#[tokio::test]
async fn who_leaves_in_the_middle_of_its_next_request_is_noticed_too() {
    let (mut client, mut connection) = asked().await;
    let body = "x".repeat(3 * AHEAD);
    let upload = format!("POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n{body}");
    client.write_all(upload.as_bytes()).await.unwrap();
    // It is watched behind what is kept of it.
    let looks = async {
        while connection.left.is_none() {
            let mut probe = [0; 1];
            let look = tokio::time::timeout(Duration::from_millis(1), connection.read(&mut probe));
            assert!(look.await.is_err(), "it has not left");
        }
    };
    soon(looks).await;
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Request)
    );
    // As a request is that is held.
    let gone = hold::gone(connection.id());
    drop(client);
    soon(gone).await;
}

#[tokio::test]
async fn an_empty_line_between_two_requests_begins_none() {
    let (mut client, mut connection) = asked().await;
    let head = "GET / HTTP/1.1\r\n\r\n";
    // Behind the body, as some old clients do; and once more.
    client.write_all(b"\r\n").await.unwrap();
    for _ in 0..2 {
        let short = Duration::from_millis(20);
        let came = connection.next(Speaks::Http1, short, &PATIENT, &BOUNDS, pending());
        assert_eq!(soon(came).await, Err(Lost::Silent));
    }
    client.write_all(head.as_bytes()).await.unwrap();
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Request)
    );
    assert_eq!(
        handed_on(&mut connection).await,
        format!("\r\n{head}").as_bytes()
    );
}

const ANSWER: &[u8] = b"HTTP/1.1 413 x\r\nConnection: close\r\n\r\n";

#[tokio::test]
async fn an_answer_arrives_although_its_request_is_not_read() {
    let post = "POST / HTTP/1.1\r\nContent-Length: 100000\r\n\r\n";
    let get = "GET / HTTP/1.1\r\n\r\n";
    let part = "x".repeat(50_000);
    for (head, more) in [(post, part.as_str()), (get, get), (get, "")] {
        let (mut client, mut connection) = pair().await;
        let tasks = TaskTracker::new();
        connection.lingering = Lingering::new(tasks.clone());
        let connections = Connections::new(None, None);
        connection.admitted = Some(connections.admit().unwrap());
        client.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(
            next(&mut connection, Speaks::Http1).await,
            Ok(Came::Request)
        );
        let mut read = vec![0; head.len()];
        connection.read_exact(&mut read).await.unwrap();
        client.write_all(more.as_bytes()).await.unwrap();
        connection.write_all(ANSWER).await.unwrap();
        if !more.is_empty() {
            // It has come before the end does.
            let Wire::Clear(tcp) = connection.wire.get_ref() else {
                panic!("it is in clear");
            };
            tcp.readable().await.unwrap();
        }
        drop(connection);
        assert_eq!(tasks.is_empty(), more.is_empty(), "{head:?}");
        // It is still open, and counts.
        assert_eq!(connections.open(), usize::from(!more.is_empty()));
        let mut answer = Vec::new();
        let end = soon(client.read_to_end(&mut answer)).await;
        assert_eq!(answer, ANSWER);
        end.expect("it is told the end, and not cut off");
        drop(client);
        tasks.close();
        soon(tasks.wait()).await;
        assert_eq!(connections.open(), 0);
    }
}

#[tokio::test]
async fn nothing_lingers_that_was_not_answered_or_is_another_protocol() {
    for (released, answered) in [(false, false), (true, true)] {
        let (mut client, mut connection) = pair().await;
        let tasks = TaskTracker::new();
        connection.lingering = Lingering::new(tasks.clone());
        let head = "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\npart";
        client.write_all(head.as_bytes()).await.unwrap();
        assert_eq!(
            next(&mut connection, Speaks::Http1).await,
            Ok(Came::Request)
        );
        if answered {
            connection.write_all(ANSWER).await.unwrap();
        }
        if released {
            connection.release();
        }
        drop(connection);
        assert!(tasks.is_empty());
    }
}

/// The same over TLS.
async fn secured() -> (tokio_rustls::client::TlsStream<TcpStream>, Connection) {
    let (client, mut connection) = pair().await;
    let params = rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap().der().clone();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.clone()],
            rustls::pki_types::PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(certificate).unwrap();
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let given = BufWriter::with_capacity(0, Wire::Given);
    let Wire::Clear(served) = std::mem::replace(&mut connection.wire, given).into_inner() else {
        panic!("it is in clear");
    };
    let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
    let (client, served) = tokio::join!(connector.connect(name, client), acceptor.accept(served));
    let wire = Wire::Tls(Box::new(served.unwrap()));
    connection.wire = BufWriter::with_capacity(WRITE_BUFFER, wire);
    (client.unwrap(), connection)
}

#[tokio::test]
async fn what_tls_has_taken_arrives_while_nothing_more_is_written() {
    let (mut client, mut connection) = secured().await;
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
    client.flush().await.unwrap();
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Request)
    );
    handed_on(&mut connection).await;
    // Until neither the system nor TLS takes any more.
    let part = [7; 8192];
    let mut written = 0;
    while let Poll::Ready(taken) =
        poll_fn(|cx| Poll::Ready(Pin::new(&mut connection).poll_write(cx, &part))).await
    {
        written += taken.unwrap();
    }
    let mut arrived = vec![0; written];
    let mut probe = [0; 1];
    tokio::select! {
        read = soon(client.read_exact(&mut arrived)) => drop(read.unwrap()),
        read = connection.read(&mut probe) => panic!("the client sends nothing: {read:?}"),
    }
    assert!(arrived.iter().all(|byte| *byte == 7));
}

#[tokio::test]
async fn another_protocol_gets_all_that_comes() {
    let (mut client, mut connection) = pair().await;
    let head = "GET / HTTP/1.1\r\nUpgrade: websocket\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    client.write_all(b"too early").await.unwrap();
    assert_eq!(
        next(&mut connection, Speaks::Http1).await,
        Ok(Came::Request)
    );
    let mut read = vec![0; head.len()];
    connection.read_exact(&mut read).await.unwrap();
    assert_eq!(read, head.as_bytes());
    let mut rest = [0; 9];
    connection.read_exact(&mut rest).await.unwrap();
    assert_eq!(&rest, b"too early");
}

#[tokio::test]
async fn http2_is_known_by_what_it_begins_with() {
    for (speaks, sent, wanted) in [
        (Speaks::Either, &PREFACE[..], Ok(Came::Http2)),
        (Speaks::Http2, &PREFACE[..], Ok(Came::Http2)),
        (Speaks::Either, b"GET / HTTP/1.0\r\n\r\n", Ok(Came::Request)),
        (Speaks::Either, b"PRI / HTTP/1.1\r\n\r\n", Ok(Came::Request)),
        (Speaks::Http1, &PREFACE[..], Ok(Came::Request)),
        (
            Speaks::Http2,
            b"GET / HTTP/1.1\r\n\r\n",
            Err(Lost::NotHttp2),
        ),
    ] {
        let (mut client, mut connection) = pair().await;
        for byte in sent {
            client.write_all(&[*byte]).await.unwrap();
        }
        assert_eq!(next(&mut connection, speaks).await, wanted, "{speaks:?}");
        if wanted == Ok(Came::Http2) {
            // It is for HTTP/2 to read.
            let mut preface = [0; PREFACE.len()];
            connection.read_exact(&mut preface).await.unwrap();
            assert_eq!(&preface, PREFACE);
        }
    }
}

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

#[tokio::test]
async fn a_refusal_arrives_although_the_client_goes_on_sending() {
    let (mut client, mut connection) = pair().await;
    let head = format!("GET / HTTP/1.1\r\na: {}", "a".repeat(50_000));
    client.write_all(head.as_bytes()).await.unwrap();
    let lost = next(&mut connection, Speaks::Http1).await;
    assert_eq!(lost, Err(Lost::Unacceptable(Unacceptable::Section)));
    let refusing = tokio::spawn(connection.refuse(b"HTTP/1.1 431 x\r\n\r\n", pending()));
    client.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert_eq!(answer, b"HTTP/1.1 431 x\r\n\r\n");
    client.write_all(head.as_bytes()).await.unwrap();
    assert!(!refusing.is_finished(), "it does not listen to the end");
    drop(client);
    refusing.await.unwrap();
}

#[tokio::test]
async fn what_pingora_answers_alone_is_counted() {
    let (mut client, mut connection) = pair().await;
    let mut registry = prometheus_client::registry::Registry::default();
    connection.metrics = Metrics::register(&mut registry);
    for reached in [false, true] {
        client.write_all(b"GET / HTTP/1.1\r\n\r\n").await.unwrap();
        assert_eq!(
            next(&mut connection, Speaks::Http1).await,
            Ok(Came::Request)
        );
        handed_on(&mut connection).await;
        connection.noted.store(reached, Ordering::Relaxed);
        connection.write_all(b"HTTP/1.1 400 Bad\r\n").await.unwrap();
        connection.write_all(b"HTTP/1.1 405 Bad\r\n").await.unwrap();
    }
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    assert!(
        text.contains("answered_below_total{status=\"400\"} 1\n"),
        "{text}"
    );
    assert!(!text.contains("status=\"405\""), "{text}");
}
