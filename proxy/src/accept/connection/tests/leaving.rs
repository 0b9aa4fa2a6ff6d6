//! A client that leaves is noticed, wherever its connection is.

use super::*;

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
