//! Client id metadata documents, fetched over real HTTP and HTTPS.

use crate::clients::{page, redeem, request, send};
use crate::provider::{AUDIENCE, Provider, start, start_trusting, text};
use axum::Router;
use axum::body::Body;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::get;
use nogoo9_local::idp::Pki;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

const WAITS_AT: &str = "http://localhost:4711/callback";

/// A web site with documents on it.
struct Site {
    url: String,
    asked: Arc<AtomicUsize>,
}

async fn site() -> Site {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let document = |url: &str, path: &str, uris: Value| {
        let name = format!("Agent at {path}");
        json!({"client_id": format!("{url}{path}"), "client_name": name, "redirect_uris": uris})
            .to_string()
    };
    let good = document(&url, "/good.json", json!(["http://localhost/callback"]));
    let others = document(&url, "/elsewhere.json", json!([WAITS_AT]));
    let count = Arc::clone(&asked);
    let router = Router::new()
        .route(
            "/good.json",
            get(move || {
                count.fetch_add(1, Ordering::SeqCst);
                async move { good }
            }),
        )
        .route("/others.json", get(|| async move { others }))
        .route("/moved.json", get(|| async { Redirect::to("/good.json") }))
        .route("/none.json", get(|| async { StatusCode::NOT_FOUND }))
        .route("/huge.json", get(|| async { " ".repeat(9000) + "{}" }))
        .route("/endless.json", get(endless))
        .route("/text.json", get(|| async { "hello" }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    Site { url, asked }
}

/// A body of unknown length that never ends.
async fn endless() -> Response {
    let chunks = futures::stream::repeat_with(|| Ok::<_, std::io::Error>(" ".repeat(1024)));
    (
        [(header::CONTENT_TYPE, "application/json")],
        Body::from_stream(chunks),
    )
        .into_response()
}

async fn refused(p: &Provider, client: &str, back: &str) -> String {
    let reply = p.authorize(&request(client, back, "nogoo9:read")).await;
    assert_eq!(reply.status(), 400, "{client}");
    assert!(reply.headers().get("location").is_none());
    reply.text().await.unwrap()
}

#[tokio::test]
async fn an_address_is_an_id_if_its_document_says_so() {
    let (p, site) = (start().await, site().await);
    let client = format!("{}/good.json", site.url);
    let (html, sealed) = page(&p, &request(&client, WAITS_AT, "nogoo9:read")).await;
    assert!(
        html.contains("Agent at /good.json") && html.contains("So says the document at"),
        "{html}"
    );
    let back = send(&p, &sealed, &["allow:nogoo9:read"]).await;
    let (status, tokens) = redeem(&p, &client, WAITS_AT, &back["code"]).await;
    assert_eq!(status, 200, "{tokens}");
    let claims = p.claims(text(&tokens, "access_token"), AUDIENCE).await;
    assert_eq!(claims["client_id"], json!(client));
    // Read for the page, and not again for the token.
    assert_eq!(site.asked.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn documents_that_let_nobody_in() {
    let (p, site) = (start().await, site().await);
    for (path, why) in [
        ("/others.json", "another one than its address"),
        ("/moved.json", "status 303"),
        ("/none.json", "status 404"),
        ("/huge.json", "larger than"),
        ("/endless.json", "larger than"),
        ("/text.json", "no JSON"),
        ("/", "written as browsers write it"),
        ("/x/../good.json", "written as browsers write it"),
        ("/good.json#x", "written as browsers write it"),
    ] {
        let html = refused(&p, &format!("{}{path}", site.url), WAITS_AT).await;
        assert!(html.contains(why), "{path}: {html}");
    }
    let elsewhere = refused(&p, "http://app.test/client.json", WAITS_AT).await;
    assert!(
        elsewhere.contains("written as browsers write it"),
        "{elsewhere}"
    );
    assert_eq!(
        site.asked.load(Ordering::SeqCst),
        0,
        "a redirect was followed"
    );
    // Nobody is there.
    let html = refused(&p, "http://127.0.0.1:1/client.json", WAITS_AT).await;
    assert!(html.contains("nothing could be read"), "{html}");
    // The document's redirect URIs, and no others.
    let client = format!("{}/good.json", site.url);
    for back in ["http://localhost:4711/", "https://app.test/callback"] {
        let html = refused(&p, &client, back).await;
        assert!(html.contains("is not a redirect URI"), "{html}");
    }
}

#[tokio::test]
async fn an_https_document_needs_an_authority_that_is_trusted() {
    let dir = tempfile::tempdir().unwrap();
    let _already = rustls::crypto::ring::default_provider().install_default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let pki = Pki::ensure_for(dir.path(), "documents", &[addr.ip()]).unwrap();
    let client = format!("https://{addr}/client.json");
    let document = json!({
        "client_id": client, "client_name": "Agent by https",
        "redirect_uris": [WAITS_AT], "grant_types": ["authorization_code", "refresh_token"],
    });
    let served = tokio::spawn(over_tls(
        listener,
        dir.path().to_owned(),
        document.to_string(),
    ));

    let trusting = start_trusting(Some(pki.ca_pem())).await;
    let (html, sealed) = page(&trusting, &request(&client, WAITS_AT, "openid")).await;
    assert!(html.contains("Agent by https"), "{html}");
    let back = send(&trusting, &sealed, &[]).await;
    let (status, tokens) = redeem(&trusting, &client, WAITS_AT, &back["code"]).await;
    assert_eq!(status, 200, "{tokens}");
    assert!(tokens["refresh_token"].is_string(), "{tokens}");

    let html = refused(&start().await, &client, WAITS_AT).await;
    assert!(html.contains("nothing could be read"), "{html}");
    served.abort();
}

/// Answers every request with the document, by the certificate in that folder.
async fn over_tls(listener: TcpListener, folder: PathBuf, document: String) {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let certificate = CertificateDer::from_pem_slice(&read("server.crt")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&read("server.key")).unwrap();
    let config = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        // Whoever does not trust the certificate ends it here.
        let Ok(mut stream) = acceptor.accept(stream).await else {
            continue;
        };
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            asked.push(stream.read_u8().await.unwrap());
        }
        let head = format!(
            "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
            document.len()
        );
        stream.write_all(head.as_bytes()).await.unwrap();
        stream.write_all(document.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
    }
}
