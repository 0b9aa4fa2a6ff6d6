//! TLS that the proxy itself ends.

use crate::client::{own, request};
use crate::eventually;
use crate::frames::{END_STREAM, Fate, Http2};
use crate::proxy::{CONSOLE, Stage};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, SignatureScheme, SupportedProtocolVersion,
};
use std::path::Path;
use std::sync::Arc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A certificate signed by itself.
pub(crate) struct Made {
    chain: String,
    key: String,
    der: CertificateDer<'static>,
}

pub(crate) fn made(names: &[&str], until: i32) -> Made {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = rcgen::CertificateParams::new(names).unwrap();
    params.not_after = rcgen::date_time_ymd(until, 1, 1);
    let key = rcgen::KeyPair::generate().unwrap();
    let certificate = params.self_signed(&key).unwrap();
    Made {
        chain: certificate.pem(),
        key: key.serialize_pem(),
        der: certificate.der().clone(),
    }
}

impl Made {
    pub(crate) fn write(&self, chain: &Path, key: &Path) {
        std::fs::write(chain, &self.chain).unwrap();
        std::fs::write(key, &self.key).unwrap();
    }

    /// As a Secret is mounted: links to links to the version that counts.
    fn mount(&self, folder: &Path, version: &str) {
        let version_folder = folder.join(version);
        std::fs::create_dir_all(&version_folder).unwrap();
        self.write(
            &version_folder.join("tls.crt"),
            &version_folder.join("tls.key"),
        );
        let next = folder.join("..data_tmp");
        std::os::unix::fs::symlink(version, &next).unwrap();
        std::fs::rename(next, folder.join("..data")).unwrap();
        for file in ["tls.crt", "tls.key"] {
            let _ = std::os::unix::fs::symlink(Path::new("..data").join(file), folder.join(file));
        }
    }
}

/// Takes any certificate: which one it was is for the tests to say. Signatures are checked.
#[derive(Debug)]
struct Any(rustls::crypto::CryptoProvider);

impl ServerCertVerifier for Any {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, cert, dss, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, cert, dss, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// A client that asks for `name` and offers `protocols`; `None`: it asks for nobody.
async fn connect(
    stage: &Stage,
    name: Option<&str>,
    protocols: &[&str],
    version: &'static SupportedProtocolVersion,
) -> TlsStream<TcpStream> {
    let provider = rustls::crypto::ring::default_provider();
    let mut config = ClientConfig::builder_with_provider(Arc::new(provider.clone()))
        .with_protocol_versions(&[version])
        .unwrap()
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Any(provider)))
        .with_no_client_auth();
    config.enable_sni = name.is_some();
    config.alpn_protocols = protocols
        .iter()
        .map(|name| name.as_bytes().to_vec())
        .collect();
    let name = ServerName::try_from(name.unwrap_or("nobody").to_owned()).unwrap();
    let stream = TcpStream::connect(stage.address).await.unwrap();
    let connector = TlsConnector::from(Arc::new(config));
    connector.connect(name, stream).await.unwrap()
}

const TLS13: &SupportedProtocolVersion = &rustls::version::TLS13;

fn shown(stream: &TlsStream<TcpStream>) -> CertificateDer<'static> {
    let certificates = stream.get_ref().1.peer_certificates().unwrap();
    certificates[0].clone().into_owned()
}

/// `GET /` as alice's browser does on `host`, over a connection that is there: status and body.
async fn get(stage: &Stage, stream: &mut TlsStream<TcpStream>, host: &str) -> (u16, String) {
    let cookie = stage
        .cookie_on("alice", host)
        .replace("nogoo9=", "__Host-nogoo9=");
    let headers = own(&cookie);
    let text = request("GET", host, "/", &headers);
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    loop {
        assert!(stream.read_buf(&mut bytes).await.unwrap() > 0, "{bytes:?}");
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.to_ascii_lowercase();
        let length = length.split("content-length: ").nth(1).unwrap();
        let length: usize = length.lines().next().unwrap().parse().unwrap();
        if body.len() >= length {
            return (head[9..12].parse().unwrap(), body.to_owned());
        }
    }
}

fn paths(folder: &Path, name: &str) -> (String, String) {
    let path = |end: &str| folder.join(format!("{name}.{end}")).display().to_string();
    (path("crt"), path("key"))
}

#[tokio::test(flavor = "multi_thread")]
async fn both_protocols_over_both_versions() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = made(&["localhost", "*.localhost"], 2050);
    let (chain, key) = paths(folder.path(), "tls");
    certificate.write(Path::new(&chain), Path::new(&key));
    let stage = Stage::secured(&["--tls-cert", &chain, "--tls-key", &key]).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for protocols in [&["http/1.1"][..], &[], &["h2", "http/1.1"]] {
            let mut stream = connect(&stage, Some("dev.localhost"), protocols, version).await;
            assert_eq!(shown(&stream), certificate.der);
            let agreed = stream.get_ref().1.alpn_protocol().map(<[u8]>::to_vec);
            assert_eq!(
                agreed.as_deref(),
                protocols.first().map(|name| name.as_bytes())
            );
            if protocols.first() != Some(&"h2") {
                for _ in 0..2 {
                    let (status, body) = get(&stage, &mut stream, &host).await;
                    assert_eq!(status, 200, "{body}");
                    assert!(body.contains("\nx-forwarded-proto: https\n"), "{body}");
                }
                continue;
            }
            let cookie = stage
                .cookie_on("alice", &host)
                .replace("nogoo9=", "__Host-nogoo9=");
            let mut client = Http2::over(stream, &[]).await;
            let fields: [(&[u8], &[u8]); 6] = [
                (b":method", b"GET"),
                (b":scheme", b"https"),
                (b":path", b"/"),
                (b":authority", host.as_bytes()),
                (b"cookie", cookie.as_bytes()),
                (b"sec-fetch-site", b"same-origin"),
            ];
            let asked = client.request(&fields, END_STREAM).await;
            assert_eq!(client.fate(asked).await, Fate::Answered(200));
            while client.body(asked).is_empty() {
                client.read().await.unwrap();
            }
            let body = String::from_utf8(client.body(asked)).unwrap();
            assert!(body.contains("\nx-forwarded-proto: https\n"), "{body}");
        }
    }
    // In clear nobody is answered, and it disturbs nobody.
    let mut clear = TcpStream::connect(stage.address).await.unwrap();
    let text = request("GET", &host, "/", &[]);
    clear.write_all(text.as_bytes()).await.unwrap();
    let mut heard = Vec::new();
    let _ = clear.read_to_end(&mut heard).await;
    assert!(
        !String::from_utf8_lossy(&heard).contains("HTTP/"),
        "{heard:?}"
    );
    // It may hear of the end before that is counted.
    eventually("the failure", || async {
        let failed = "tls_handshakes_total{end=\"Failed\"} 1";
        stage.metrics().await.contains(failed)
    })
    .await;
    let metrics = stage.metrics().await;
    assert!(
        metrics.contains("tls_handshakes_total{end=\"Done\"} 6"),
        "{metrics}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn who_says_nothing_where_tls_begins_is_silent_and_who_stops_is_slow() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = paths(folder.path(), "tls");
    made(&["localhost"], 2050).write(Path::new(&chain), Path::new(&key));
    let flags = ["--first-byte-timeout", "1", "--header-timeout", "1"];
    let certificate = ["--tls-cert", &chain, "--tls-key", &key];
    let stage = Stage::secured(&[&flags[..], &certificate].concat()).await;
    // What the proxy has counted once it has closed the connection.
    let counted = async |mut stream: TcpStream| {
        let mut heard = Vec::new();
        let closed = tokio::time::timeout(crate::PATIENCE, stream.read_to_end(&mut heard));
        let _ = closed.await.expect("it was not closed");
        assert!(heard.is_empty(), "{heard:?}");
        let metrics = stage.metrics().await;
        let lines = metrics.lines().filter(|line| {
            line.starts_with("nogoo9_proxy_connections_refused_total{")
                || line.starts_with("nogoo9_proxy_tls_handshakes_total{")
        });
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let silent = "nogoo9_proxy_connections_refused_total{reason=\"Silent\"}";
    let slow = "nogoo9_proxy_tls_handshakes_total{end=\"TimedOut\"} 1";
    let stream = TcpStream::connect(stage.address).await.unwrap();
    assert_eq!(counted(stream).await, [format!("{silent} 1")]);
    // The first bytes of a handshake, and no more.
    let mut stream = TcpStream::connect(stage.address).await.unwrap();
    stream.write_all(b"\x16\x03\x01").await.unwrap();
    let both = counted(stream).await;
    assert!(both.contains(&format!("{silent} 1")) && both.contains(&slow.to_owned()));
    // It is set up, and nothing is asked for.
    let mut stream = connect(&stage, Some("localhost"), &["http/1.1"], TLS13).await;
    let _ = stream.read_to_end(&mut Vec::new()).await;
    assert!(stage.metrics().await.contains(&format!("{silent} 2\n")));
}

/// Whoever has not begun where TLS begins has asked for nothing.
#[tokio::test(flavor = "multi_thread")]
async fn who_stops_waits_for_nobody_who_says_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = paths(folder.path(), "tls");
    made(&["localhost"], 2050).write(Path::new(&chain), Path::new(&key));
    let certificate = ["--tls-cert", &chain, "--tls-key", &key];
    // Longer than anything is waited for here.
    let flags = ["--first-byte-timeout=3600", "--stop-timeout=300"];
    let all = [&["--drain=0"], &flags[..], &certificate].concat();
    let mut stage = Stage::secured(&all).await;
    let mut silent = TcpStream::connect(stage.address).await.unwrap();
    eventually("its connection", || async {
        stage.metric("connections_accepted_total").await == 1
    })
    .await;
    stage.signal("TERM");
    let ended = tokio::time::timeout(crate::PATIENCE, stage.child.wait());
    assert!(ended.await.expect("it did not end").unwrap().success());
    assert_eq!(silent.read(&mut [0]).await.unwrap_or(0), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_name_has_its_certificate() {
    let folder = tempfile::tempdir().unwrap();
    let console = made(&["localhost"], 2050);
    let workspaces = made(&["*.localhost"], 2050);
    std::fs::create_dir(folder.path().join("console")).unwrap();
    console.mount(&folder.path().join("console"), "..v1");
    let (chain, key) = paths(folder.path(), "workspaces");
    workspaces.write(Path::new(&chain), Path::new(&key));
    let stage = Stage::secured(&["--tls-dir", folder.path().to_str().unwrap()]).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let dev = format!("dev.{CONSOLE}");
    let asks = async |name| connect(&stage, name, &["http/1.1"], TLS13).await;
    for (name, certificate) in [
        (Some("localhost"), &console),
        (Some("dev.localhost"), &workspaces),
        (Some("DEV.LOCALHOST"), &workspaces),
        (Some("elsewhere.example"), &console),
        (None, &console),
    ] {
        assert_eq!(shown(&asks(name).await), certificate.der, "{name:?}");
    }
    // A client that knows us by one name is not answered for another that has a certificate of its own.
    for (name, status) in [
        (Some("dev.localhost"), 200),
        (Some("other.localhost"), 200),
        (Some("localhost"), 421),
        (Some("elsewhere.example"), 421),
        (None, 200),
    ] {
        let (answered, body) = get(&stage, &mut asks(name).await, &dev).await;
        assert_eq!(answered, status, "{name:?}: {body}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_change_under_open_connections() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["localhost", "*.localhost"];
    let (first, second) = (made(&names, 2050), made(&names, 2051));
    first.mount(folder.path(), "..v1");
    let path = |file: &str| folder.path().join(file).display().to_string();
    let (chain, key) = (path("tls.crt"), path("tls.key"));
    let stage = Stage::secured(&["--tls-cert", &chain, "--tls-key", &key]).await;
    let (_app, _) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let now = async || {
        let stream = connect(&stage, Some("dev.localhost"), &["http/1.1"], TLS13).await;
        shown(&stream)
    };
    let ends = async |time: i64| {
        let name = "nogoo9_proxy_certificate_expiry_timestamp_seconds";
        let line = format!("{name}{{certificate=\"default\"}} {time}\n");
        stage.metrics().await.contains(&line)
    };
    let mut open = connect(&stage, Some("dev.localhost"), &["http/1.1"], TLS13).await;
    assert_eq!(shown(&open), first.der);
    assert!(ends(2_524_608_000).await);
    second.mount(folder.path(), "..v2");
    eventually("the second certificate", || async {
        now().await == second.der
    })
    .await;
    assert!(ends(2_556_144_000).await);
    assert_eq!(get(&stage, &mut open, &host).await.0, 200);

    // What cannot be used is not: the one before goes on.
    let kept = async || {
        let metrics = stage.metrics().await;
        metrics.contains("certificate_loads_total{result=\"Kept\"}")
    };
    assert!(!kept().await);
    Made {
        key: first.key.clone(),
        chain: second.chain.clone(),
        der: second.der.clone(),
    }
    .mount(folder.path(), "..v3");
    eventually("the refusal", kept).await;
    assert_eq!(now().await, second.der);
    assert!(
        stage
            .log()
            .contains("the private key is not that of the certificate")
    );
    first.mount(folder.path(), "..v4");
    eventually("the first certificate again", || async {
        now().await == first.der
    })
    .await;
    assert_eq!(get(&stage, &mut open, &host).await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_stays_until_both_its_files_are_gone() {
    let folder = tempfile::tempdir().unwrap();
    let console = made(&["localhost"], 2050);
    let workspaces = made(&["*.localhost"], 2050);
    let write = |name: &str, made: &Made| {
        let (chain, key) = paths(folder.path(), name);
        made.write(Path::new(&chain), Path::new(&key));
    };
    write("console", &console);
    write("workspaces", &workspaces);
    let (chain, key) = paths(folder.path(), "workspaces");
    let stage = Stage::secured(&["--tls-dir", &folder.path().display().to_string()]).await;
    let now = async || {
        let stream = connect(&stage, Some("dev.localhost"), &["http/1.1"], TLS13).await;
        shown(&stream)
    };
    let counted = async |result: &str, times: u32| {
        let line = format!("certificate_loads_total{{result=\"{result}\"}} {times}\n");
        eventually(&line, || async { stage.metrics().await.contains(&line) }).await;
    };
    // As by rm and cp, the first time with a file that is none.
    std::fs::remove_file(&chain).unwrap();
    counted("Kept", 1).await;
    assert_eq!(now().await, workspaces.der);
    std::fs::write(&chain, "none").unwrap();
    counted("Kept", 2).await;
    assert_eq!(now().await, workspaces.der);
    let renewed = made(&["*.localhost"], 2051);
    write("workspaces", &renewed);
    counted("Taken", 1).await;
    assert_eq!(now().await, renewed.der);
    // A new one that was never good is not said to be in use.
    std::fs::write(paths(folder.path(), "other").0, "none").unwrap();
    counted("Unused", 1).await;
    let log = stage.log();
    assert_eq!(log.matches("the one before stays in use").count(), 2);
    assert_eq!(log.matches("there is none before it").count(), 1, "{log}");
    // For good.
    std::fs::remove_file(&chain).unwrap();
    std::fs::remove_file(&key).unwrap();
    counted("Removed", 1).await;
    assert_eq!(now().await, console.der);
    assert!(stage.log().contains("it is not used any more"));
}

#[tokio::test]
async fn what_cannot_be_used_is_told_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let (chain, key) = paths(folder.path(), "a");
    let told = async |flags: &[&str]| {
        let mut command = crate::proxy::command();
        command
            .args(flags)
            .args(["--listen", "127.0.0.1:0", "--admin-listen", "127.0.0.1:0"]);
        command.args([
            "--workspace-domain",
            CONSOLE,
            "--issuer",
            "http://127.0.0.1:1",
        ]);
        command.args(["--control-url", "http://127.0.0.1:1"]);
        let output = command.output().await.unwrap();
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let https = ["--public-url", "https://localhost:9009"];
    let text = told(&[&https[..], &["--tls-cert", &chain]].concat()).await;
    assert!(text.contains("--tls-key"), "{text}");
    let http = ["--public-url", "http://localhost:9009"];
    let both = ["--tls-cert", &chain, "--tls-key", &key];
    let text = told(&[&http[..], &both].concat()).await;
    assert!(
        text.contains("--tls-cert") && text.contains("https"),
        "{text}"
    );
    let text = told(&[&https[..], &both].concat()).await;
    assert!(
        text.contains("--tls-cert") && text.contains("a.crt"),
        "{text}"
    );
}
