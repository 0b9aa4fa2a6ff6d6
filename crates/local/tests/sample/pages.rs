//! The page, what else it answers, and its clock.

use crate::support::{Sample, bounded};
use futures::StreamExt;
use reqwest::header::{COOKIE, LOCATION, SET_COOKIE};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

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
async fn a_second_port_says_what_the_first_one_answers() {
    let sample = Sample::start(&[("DOCS_PORT", "0")]);
    let docs = sample.docs.clone().expect("a second port");
    let page = reqwest::get(format!("http://{docs}/")).await.unwrap();
    assert_eq!(page.status(), 200);
    let page = page.text().await.unwrap();
    assert!(page.contains("What demo answers"), "{page}");
    for rest in page.split("<code>").skip(1) {
        let path = rest.split(['<', '?']).next().unwrap();
        // Sockets want an upgrade, uploads a body.
        let status = sample.status(path).await;
        assert_ne!(status, 404, "{path}");
    }
    let info: Value = reqwest::get(format!("http://{docs}/info"))
        .await
        .unwrap()
        .json()
        .await
        .unwrap();
    assert_eq!(info["workspace"], "demo");
    let shell = reqwest::get(format!("http://{docs}/shell")).await.unwrap();
    assert_eq!(shell.status(), 404, "a shell is the first port's alone");
    assert_eq!(Sample::start(&[]).docs, None);
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
