//! The sample workspace as a process.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // a failed step fails the test

use std::io::{BufRead, BufReader};
use std::net::Ipv4Addr;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use futures::{SinkExt, StreamExt};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::CloseFrame;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::{MaybeTlsStream, WebSocketStream, connect_async};

type Socket = WebSocketStream<MaybeTlsStream<tokio::net::TcpStream>>;

const BOUND: Duration = Duration::from_secs(60);

struct Sample {
    child: Child,
    address: String,
    home: tempfile::TempDir,
}

impl Sample {
    fn start(env: &[(&str, &str)]) -> Self {
        let _ = rustls::crypto::ring::default_provider().install_default();
        let home = tempfile::tempdir().unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_nogoo9-sample"))
            .env_clear()
            .envs([
                ("POD_NAME", "ws-alice-demo"),
                ("WORKSPACE_ID", "demo"),
                ("VERSION", "1.0"),
                ("PORT", "0"),
                ("MESSAGE", "<hello>"),
            ])
            .env("HOME", home.path())
            .env("PATH", "/usr/bin:/bin")
            .envs(env.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let line = lines
            .find_map(|line| line.ok().filter(|line| line.contains("is up")))
            .expect("it starts");
        // Its log must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let address = line
            .split("address=")
            .nth(1)
            .unwrap()
            .split_whitespace()
            .next()
            .unwrap()
            .to_owned();
        Self {
            child,
            address,
            home,
        }
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    async fn json(&self, path: &str) -> Value {
        let text = reqwest::get(self.url(path))
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        serde_json::from_str(&text).unwrap()
    }

    async fn status(&self, path: &str) -> u16 {
        reqwest::get(self.url(path))
            .await
            .unwrap()
            .status()
            .as_u16()
    }

    async fn socket(&self, path: &str) -> Socket {
        connect_async(format!("ws://{}{path}", self.address))
            .await
            .unwrap()
            .0
    }

    fn terminate(&self) {
        kill(
            Pid::from_raw(i32::try_from(self.child.id()).unwrap()),
            Signal::SIGTERM,
        )
        .unwrap();
    }

    async fn wait(&mut self) -> ExitStatus {
        bounded("it ends", async {
            loop {
                if let Some(status) = self.child.try_wait().unwrap() {
                    return status;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        })
        .await
    }
}

impl Drop for Sample {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn bounded<T>(what: &str, work: impl Future<Output = T>) -> T {
    match tokio::time::timeout(BOUND, work).await {
        Ok(value) => value,
        Err(_) => panic!("not within {BOUND:?}: {what}"),
    }
}

/// Reads terminal output until it holds `text`.
async fn output_until(socket: &mut Socket, text: &str) -> String {
    let mut seen = String::new();
    bounded(text, async {
        while !seen.contains(text) {
            match socket.next().await.expect("open").unwrap() {
                Message::Binary(bytes) => seen.push_str(&String::from_utf8_lossy(&bytes)),
                other => panic!("{other:?} after {seen:?}"),
            }
        }
    })
    .await;
    seen
}

async fn type_in(socket: &mut Socket, text: &str) {
    socket
        .send(Message::Binary(text.to_owned().into()))
        .await
        .unwrap();
}

async fn close_code(socket: &mut Socket) -> Option<CloseCode> {
    bounded("the close", async {
        loop {
            match socket.next().await {
                Some(Ok(Message::Close(frame))) => return frame.map(|frame| frame.code),
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return None,
            }
        }
    })
    .await
}

#[tokio::test]
async fn the_page_tells_who_it_is_and_uses_relative_addresses_only() {
    let sample = Sample::start(&[]);
    let page = reqwest::get(sample.url("/")).await.unwrap();
    assert_eq!(page.headers()["cache-control"], "no-store");
    let page = page.text().await.unwrap();
    assert!(
        page.contains("<dd id=\"version\">1.0</dd>")
            && page.contains("<dd id=\"pod\">ws-alice-demo</dd>"),
        "{page}"
    );
    assert!(
        page.contains("&lt;hello&gt;") && !page.contains("<hello>"),
        "what the user says is escaped"
    );
    for id in ["clock", "terminal", "upload"] {
        assert!(page.contains(&format!("id=\"{id}\"")), "{id}");
    }
    let mut links = 0;
    for attribute in ["href=\"", "src=\"", "action=\""] {
        for link in page
            .split(attribute)
            .skip(1)
            .map(|rest| rest.split('"').next().unwrap())
        {
            if link.starts_with('#') || link.starts_with("data:") {
                continue;
            }
            assert!(!link.starts_with('/') && !link.contains("://"), "{link}");
            assert_eq!(sample.status(&format!("/{link}")).await, 200, "{link}");
            links += 1;
        }
    }
    assert_eq!(links, 6);
    assert_eq!(sample.status("/assets/none").await, 404);
    let script = reqwest::get(sample.url("/assets/app.js"))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert!(
        !script.contains("\"/"),
        "no absolute path in the script either"
    );
}

#[tokio::test]
async fn endpoints_answer_as_documented() {
    let sample = Sample::start(&[]);
    let client = reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .unwrap();
    assert_eq!(sample.status("/healthz").await, 200);
    assert_eq!(
        sample.json("/info").await,
        json!({"pod": "ws-alice-demo", "version": "1.0", "message": "<hello>", "workspace": "demo"})
    );
    assert_eq!(sample.json("/slow?ms=1").await["ms"], 1);
    let chunks = reqwest::get(sample.url("/chunks?n=3&ms=1"))
        .await
        .unwrap()
        .text()
        .await
        .unwrap();
    assert_eq!(chunks, "chunk 0\nchunk 1\nchunk 2\n");

    let redirect = client.get(sample.url("/redirect")).send().await.unwrap();
    assert_eq!(
        (redirect.status().as_u16(), &redirect.headers()[LOCATION]),
        (302, &"/landing".parse().unwrap())
    );
    assert_eq!(redirect.headers()[SET_COOKIE], "sample=1; Path=/; HttpOnly");

    let request = client
        .put(sample.url("/headers"))
        .header("X-Twice", "a")
        .header("X-Twice", "b")
        .header(COOKIE, "c=d");
    let headers: Value =
        serde_json::from_str(&request.send().await.unwrap().text().await.unwrap()).unwrap();
    assert_eq!(
        (&headers["x-twice"], &headers["cookie"]),
        (&json!(["a", "b"]), &json!(["c=d"]))
    );
    assert_eq!(headers.get("x-user-sub"), None);

    // Several times what is buffered anywhere on the way.
    let body: Vec<u8> = (0..3_000_000_u32)
        .map(|n| n.to_le_bytes()[n as usize % 3])
        .collect();
    let sum = data_encoding::HEXLOWER.encode(Sha256::digest(&body).as_slice());
    for request in [
        client.post(sample.url("/upload")),
        client.put(sample.url("/upload")),
    ] {
        let answer = request
            .body(body.clone())
            .send()
            .await
            .unwrap()
            .text()
            .await
            .unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(&answer).unwrap(),
            json!({"sha256": sum, "bytes": 3_000_000})
        );
    }
}

#[tokio::test]
async fn the_clock_counts_without_gaps() {
    let sample = Sample::start(&[]);
    let response = reqwest::get(sample.url("/events")).await.unwrap();
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut stream = response.bytes_stream();
    let mut text = String::new();
    bounded("three ticks", async {
        while text.matches("data: ").count() < 3 {
            text.push_str(&String::from_utf8_lossy(
                &stream.next().await.unwrap().unwrap(),
            ));
        }
    })
    .await;
    let ticks: Vec<Value> = text
        .lines()
        .filter_map(|line| line.strip_prefix("data: "))
        .map(|data| serde_json::from_str(data).unwrap())
        .collect();
    assert_eq!(
        ticks
            .iter()
            .map(|tick| tick["seq"].as_u64().unwrap())
            .take(3)
            .collect::<Vec<_>>(),
        [0, 1, 2]
    );
    assert!(
        ticks
            .iter()
            .all(|tick| tick["pod"] == "ws-alice-demo" && tick["version"] == "1.0")
    );
    sample.terminate();
    bounded("the stream ends", async {
        while let Some(Ok(_)) = stream.next().await {}
    })
    .await;
}

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

#[tokio::test]
async fn files_are_kept_whole_within_their_folder_and_bounds() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let sample = Sample::start(&[("NOGOO9_SAMPLE_DATA", folder)]);
    let client = reqwest::Client::new();
    let put = async |name: &str, body: Vec<u8>| {
        let answer = client.put(sample.url(&format!("/files/{name}"))).body(body);
        let answer = answer.send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap())
    };
    let bytes: Vec<u8> = (0..=255_u8).cycle().take(1_000_003).collect();
    let (status, kept) = put("all.bin", bytes.clone()).await;
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let sha256 = data_encoding::HEXLOWER.encode(&Sha256::digest(&bytes));
    assert_eq!(status, 200);
    assert_eq!(
        kept,
        json!({"name": "all.bin", "bytes": 1_000_003, "sha256": sha256})
    );
    let back = reqwest::get(sample.url("/files/all.bin")).await.unwrap();
    assert_eq!(back.headers()["content-type"], "application/octet-stream");
    assert_eq!(
        back.headers()["content-disposition"],
        "attachment; filename=\"all.bin\""
    );
    assert!(back.bytes().await.unwrap() == bytes);
    assert_eq!(put("all.bin", b"again".to_vec()).await.0, 200);
    assert_eq!(put("notes.txt", Vec::new()).await.0, 200);
    let listed =
        json!({"files": [{"name": "all.bin", "bytes": 5}, {"name": "notes.txt", "bytes": 0}]});
    assert_eq!(sample.json("/files").await, listed);

    // What is in the folder and was not put there.
    std::fs::write(data.path().join(".hidden"), "x").unwrap();
    std::fs::create_dir(data.path().join("folder")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", data.path().join("link")).unwrap();
    for (name, expected) in [
        ("..%2f..%2fetc%2fpasswd", 400),
        (".hidden", 400),
        ("a%20b", 400),
        ("folder", 404),
        ("link", 404),
        ("nothing", 404),
    ] {
        assert_eq!(
            sample.status(&format!("/files/{name}")).await,
            expected,
            "{name}"
        );
    }
    assert_eq!(put("..%2fout", b"x".to_vec()).await.0, 400);
    assert!(!data.path().parent().unwrap().join("out").exists());
    assert_eq!(sample.json("/files").await, listed);

    let (status, said) = put("large", vec![0; 16 * 1024 * 1024 + 1]).await;
    assert_eq!(status, 413, "{said}");
    let left: Vec<_> = std::fs::read_dir(data.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .filter(|name| name.to_string_lossy().starts_with(".upload"))
        .collect();
    assert!(left.is_empty(), "{left:?}");

    let deleted = client.delete(sample.url("/files/all.bin")).send().await;
    assert_eq!(deleted.unwrap().status(), 204);
    assert_eq!(sample.status("/files/all.bin").await, 404);
    for n in 0..200 {
        std::fs::write(data.path().join(format!("f{n}")), "").unwrap();
    }
    assert_eq!(put("one-more", Vec::new()).await.0, 507);
    assert_eq!(
        put("notes.txt", b"still".to_vec()).await.0,
        200,
        "no new one"
    );
    assert!(page(&sample).await.contains("id=\"notes\""));

    let without = Sample::start(&[]);
    assert_eq!(without.status("/files").await, 404);
    assert!(!page(&without).await.contains("id=\"notes\""));
}

#[tokio::test]
async fn a_folder_of_files_has_one_writer_if_asked_for() {
    let data = tempfile::tempdir().unwrap();
    let folder = data.path().to_str().unwrap();
    let env = [("NOGOO9_SAMPLE_DATA", folder), ("LOCK_DATA", "1")];
    let mut first = Sample::start(&env);
    let second = Command::new(env!("CARGO_BIN_EXE_nogoo9-sample"))
        .env_clear()
        .envs(env)
        .envs([("POD_NAME", "ws-second"), ("PORT", "0")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&second.stdout).into_owned();
    assert_eq!(second.status.code(), Some(2), "{said}");
    assert!(said.contains("two pods have the volume at once"), "{said}");
    // Whoever has it can tell of it, and the lock itself is no file of the user.
    assert_eq!(
        first.json("/files").await,
        json!({"files": [{"name": "two-writers-ws-second", "bytes": 0}]})
    );
    // However it ends, it lets go.
    first.child.kill().unwrap();
    first.wait().await;
    let third = Sample::start(&env);
    assert_eq!(third.status("/healthz").await, 200);
}

async fn page(sample: &Sample) -> String {
    let answer = reqwest::get(sample.url("/")).await.unwrap();
    answer.text().await.unwrap()
}

#[tokio::test]
async fn asked_to_end_it_finishes_what_it_began() {
    let mut sample = Sample::start(&[]);
    let mut echo = sample.socket("/echo").await;
    let mut shell = sample.socket("/shell").await;
    type_in(&mut shell, "echo $((6*7))-up\n").await;
    output_until(&mut shell, "42-up").await;
    let mut in_flight = reqwest::get(sample.url("/chunks?n=2&ms=1000"))
        .await
        .unwrap();
    assert_eq!(
        in_flight.chunk().await.unwrap().unwrap(),
        "chunk 0\n",
        "it has begun"
    );
    sample.terminate();
    assert_eq!(close_code(&mut echo).await, Some(CloseCode::Restart));
    assert_eq!(close_code(&mut shell).await, Some(CloseCode::Restart));
    assert_eq!(
        bounded("the rest", in_flight.text()).await.unwrap(),
        "chunk 1\n"
    );
    assert!(sample.wait().await.success());
}

#[tokio::test]
async fn failures_on_demand() {
    let late = Sample::start(&[("READY_DELAY_MS", "600000")]);
    assert_eq!(
        (late.status("/healthz").await, late.status("/info").await),
        (503, 200)
    );

    let mut dying = Sample::start(&[]);
    let answer = reqwest::Client::new().post(dying.url("/die")).send().await;
    assert!(answer.is_err(), "no answer comes");
    assert_eq!(dying.wait().await.code(), Some(1));

    let run = |env: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nogoo9-sample"));
        let output = command
            .env_clear()
            .envs(env.iter().copied())
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8_lossy(&output.stdout).into_owned(),
        )
    };
    assert_eq!(run(&[("CRASH", "1")]).0, Some(1));
    let (code, said) = run(&[("PORT", "http")]);
    assert_eq!(code, Some(2));
    assert!(said.contains("PORT=http: not a port number"), "{said}");
    let taken = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let (code, said) = run(&[("PORT", &port)]);
    assert_eq!(code, Some(2));
    assert!(
        said.contains("set POD_IP and PORT to a free address"),
        "{said}"
    );
}
