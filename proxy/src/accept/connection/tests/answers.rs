//! Answers arrive, whatever of the request was read, and are counted where Pingora gives them alone.

use super::*;
use std::sync::atomic::Ordering;

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
