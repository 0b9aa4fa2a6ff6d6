//! The shell and the echo.

use crate::support::{Sample, bounded, close_code, output_until, type_in};
use futures::{SinkExt, StreamExt};
use std::time::Duration;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

#[tokio::test]
async fn a_shell_is_a_terminal_of_the_size_asked_for() {
    let mut sample = Sample::start(&[]);
    let mut socket = sample.socket("/shell?cols=90&rows=33").await;
    type_in(
        &mut socket,
        "tty; stty size; env | sort; pwd; echo $((6*7))-done\n",
    )
    .await;
    let seen = output_until(&mut socket, "42-done").await;
    assert!(
        seen.contains("/dev/pts/") && seen.contains("33 90"),
        "{seen}"
    );
    assert!(
        seen.contains(&format!("HOME={}", sample.home.path().display())),
        "{seen}"
    );
    assert!(
        !seen.contains("MESSAGE="),
        "only what a shell needs: {seen}"
    );
    // Text frames are control, never input; nonsense in them changes nothing.
    socket
        .send(Message::Text(r#"{"resize":{"cols":101,"rows":40}}"#.into()))
        .await
        .unwrap();
    socket.send(Message::Text("exit\n".into())).await.unwrap();
    type_in(&mut socket, "stty size; echo $((6*7))-again\n").await;
    assert!(
        output_until(&mut socket, "42-again")
            .await
            .contains("40 101")
    );
    // What is typed while a program reads arrives whole and in order.
    type_in(
        &mut socket,
        "stty -echo; cat > typed; stty echo; echo $((6*7))-saved\n",
    )
    .await;
    let mut wanted = String::new();
    for number in 0..500 {
        let line = format!("line {number}\n");
        type_in(&mut socket, &line).await;
        wanted.push_str(&line);
    }
    type_in(&mut socket, "\u{4}").await;
    output_until(&mut socket, "42-saved").await;
    assert_eq!(
        std::fs::read_to_string(sample.home.path().join("typed")).unwrap(),
        wanted
    );
    // The shell ends: so does the socket.
    type_in(&mut socket, "exit\n").await;
    assert_eq!(close_code(&mut socket).await, Some(CloseCode::Normal));
    sample.terminate();
    assert!(sample.wait().await.success());
}

#[tokio::test]
async fn a_closed_socket_hangs_up_on_its_shell() {
    let sample = Sample::start(&[]);
    let mut socket = sample.socket("/shell").await;
    type_in(&mut socket, "sleep 1000 & echo pids $$ $! $((6*7))-end\n").await;
    let seen = output_until(&mut socket, "42-end").await;
    let pids = seen
        .split("pids ")
        .last()
        .unwrap()
        .split_whitespace()
        .take(2)
        .collect::<Vec<_>>();
    drop(socket);
    bounded("shell and child are gone", async {
        while pids
            .iter()
            .any(|pid| std::path::Path::new(&format!("/proc/{pid}/exe")).exists())
        {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(pids.len(), 2, "{seen}");
    assert_eq!(sample.status("/healthz").await, 200);
}

#[tokio::test]
async fn frames_are_echoed_in_order() {
    let sample = Sample::start(&[]);
    let mut socket = sample.socket("/echo").await;
    let sent: Vec<Message> = (0..200)
        .map(|n| {
            if n % 2 == 0 {
                Message::Text(format!("t{n}").into())
            } else {
                Message::Binary(vec![n; 1000].into())
            }
        })
        .collect();
    let mut back = Vec::new();
    for message in &sent {
        socket.send(message.clone()).await.unwrap();
    }
    while back.len() < sent.len() {
        back.push(bounded("an echo", socket.next()).await.unwrap().unwrap());
    }
    assert_eq!(back, sent);
}

#[tokio::test]
async fn a_close_is_answered() {
    let sample = Sample::start(&[]);
    for path in ["/echo", "/shell"] {
        let mut socket = sample.socket(path).await;
        let frame = CloseFrame {
            code: CloseCode::Normal,
            reason: "done".into(),
        };
        socket.close(Some(frame)).await.unwrap();
        let answered = close_code(&mut socket).await;
        assert_eq!(answered, Some(CloseCode::Normal), "{path}");
    }
}
