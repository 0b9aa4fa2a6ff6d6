//! The handshake with the pod: the request head goes out, its answer comes back.

use super::refusal::Body;
use bytes::{Buf as _, Bytes, BytesMut};
use http::header::{TRAILER, TRANSFER_ENCODING};
use http::{HeaderName, HeaderValue, StatusCode, Version};
use pingora::http::{RequestHeader, ResponseHeader};
use pingora::protocols::TcpKeepalive;
use pingora::protocols::l4::ext::set_tcp_keepalive;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Longest wait for a connection to a pod. It is one hop away; a longer wait means it is gone.
pub const CONNECT: Duration = Duration::from_secs(2);
/// How a node that is gone without a word is noticed by an idle socket. One that is not idle is given up
/// by the system's retransmissions, or with the pod's object: TCP_USER_TIMEOUT would also end the sockets
/// of applications that are there and do not read.
const KEEPALIVE: TcpKeepalive = TcpKeepalive {
    idle: Duration::from_secs(15),
    interval: Duration::from_secs(5),
    count: 3,
    user_timeout: Duration::ZERO,
};
/// Longest wait for a pod's answer to the handshake: applications start their sessions here.
const ANSWER: Duration = Duration::from_secs(30);
/// Longest head of an answer, in bytes.
const MAX_HEAD: usize = 32 * 1024;
/// Most headers of an answer.
const MAX_HEADERS: usize = 128;
/// Most informational answers (1xx) before the one that counts: nobody needs more than a few, and a pod
/// that sends them for ever never answers.
pub const MAX_INFORMATIONAL: u32 = 100;

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The pod was not reached: nothing was sent, so another may be tried.
    #[error("the pod cannot be reached: {0}")]
    Connect(std::io::Error),
    /// The pod broke off.
    #[error("the pod broke off during the handshake: {0}")]
    Io(#[from] std::io::Error),
    /// The pod did not answer in time.
    #[error("the pod did not answer the handshake")]
    Timeout,
    /// What came was no HTTP/1.1 answer, or a 101 that switches to something else.
    #[error("the pod's answer to the handshake makes no sense: {0}")]
    Nonsense(&'static str),
}

/// What the pod answered.
#[derive(Debug)]
pub enum Answer {
    /// It switched protocols; `early` came right behind the head.
    Switched {
        /// Connection to the pod.
        pod: TcpStream,
        /// The head as it goes to the client.
        head: Box<ResponseHeader>,
        /// The first bytes of the socket.
        early: Bytes,
    },
    /// It refused, with this head and body.
    Refused {
        /// Its head, without what says how its body comes.
        head: Box<ResponseHeader>,
        /// Its body.
        body: Body,
    },
}

/// Connects to a pod.
///
/// # Errors
/// [`HandshakeError::Connect`].
pub async fn connect(address: SocketAddr) -> Result<TcpStream, HandshakeError> {
    let timed_out = || std::io::Error::from(std::io::ErrorKind::TimedOut);
    let stream = match tokio::time::timeout(CONNECT, TcpStream::connect(address)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Err(HandshakeError::Connect(error)),
        Err(_) => return Err(HandshakeError::Connect(timed_out())),
    };
    stream.set_nodelay(true).map_err(HandshakeError::Connect)?;
    set_tcp_keepalive(&stream, &KEEPALIVE)
        .map_err(|error| HandshakeError::Connect(std::io::Error::other(error)))?;
    Ok(stream)
}

/// Sends `request`, which must be free of hop-by-hop headers, as a WebSocket handshake and reads the
/// answer. The connection must be a new one: then whatever comes on it, and be it before the request
/// has left, is the answer to this request and to no other. Whether its `Sec-WebSocket-Accept` is right
/// is for the client to judge (RFC 6455, section 4.1).
///
/// # Errors
/// [`HandshakeError`], other than `Connect`.
pub async fn handshake(
    mut pod: TcpStream,
    request: &RequestHeader,
) -> Result<Answer, HandshakeError> {
    let head = wire(request);
    let exchange = async {
        // A pod that refuses may have closed already: what it has said can be read all the same.
        let sent = pod.write_all(&head).await;
        let mut buffer = BytesMut::with_capacity(1024);
        let mut informed = 0;
        loop {
            if let Some((head, length)) = parse(&buffer)? {
                buffer.advance(length);
                // Nothing announces an informational answer other than 101 being the last.
                if head.status.is_informational() && head.status != StatusCode::SWITCHING_PROTOCOLS
                {
                    informed += 1;
                    if informed > MAX_INFORMATIONAL {
                        let what = "informational answers without an end";
                        return Err(HandshakeError::Nonsense(what));
                    }
                    continue;
                }
                return Ok((head, buffer));
            }
            if buffer.len() > MAX_HEAD {
                return Err(HandshakeError::Nonsense("the head is too long"));
            }
            if pod.read_buf(&mut buffer).await? == 0 {
                sent?;
                return Err(HandshakeError::Io(std::io::ErrorKind::UnexpectedEof.into()));
            }
        }
    };
    let answered = tokio::time::timeout(ANSWER, exchange).await;
    let (mut head, buffer) = answered.map_err(|_| HandshakeError::Timeout)??;
    if head.status == StatusCode::SWITCHING_PROTOCOLS {
        if !is_switch(&head) {
            return Err(HandshakeError::Nonsense(
                "a 101 that does not switch to websocket",
            ));
        }
        return Ok(Answer::Switched {
            pod,
            head: Box::new(head),
            early: buffer.freeze(),
        });
    }
    let body = Body::new(pod, &head, buffer)?;
    // How it comes to the client is ours to say, and trailers are for the hop before us. What else is for
    // one hop goes as in every answer.
    head.remove_header(&TRANSFER_ENCODING);
    head.remove_header(&TRAILER);
    Ok(Answer::Refused {
        head: Box::new(head),
        body,
    })
}

fn wire(request: &RequestHeader) -> Vec<u8> {
    let mut head = Vec::with_capacity(1024);
    head.extend_from_slice(request.method.as_str().as_bytes());
    head.push(b' ');
    head.extend_from_slice(request.raw_path());
    head.extend_from_slice(b" HTTP/1.1\r\n");
    request.header_to_h1_wire(&mut head);
    head.extend_from_slice(b"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n");
    head
}

fn parse(buffer: &[u8]) -> Result<Option<(ResponseHeader, usize)>, HandshakeError> {
    let nonsense = |_| HandshakeError::Nonsense("not an HTTP/1 answer");
    let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
    let mut response = httparse::Response::new(&mut headers);
    let httparse::Status::Complete(length) = response.parse(buffer).map_err(nonsense)? else {
        return Ok(None);
    };
    let bad = HandshakeError::Nonsense("a header that cannot be one");
    let code = response.code.unwrap_or_default();
    let Ok(mut head) = ResponseHeader::build(code, Some(response.headers.len())) else {
        return Err(bad);
    };
    head.set_version(match response.version {
        Some(0) => Version::HTTP_10,
        _ => Version::HTTP_11,
    });
    if head.set_reason_phrase(response.reason).is_err() {
        return Err(bad);
    }
    for header in response.headers.iter() {
        let name = HeaderName::from_bytes(header.name.as_bytes());
        let value = HeaderValue::from_bytes(header.value);
        let (Ok(_), Ok(value)) = (name, value) else {
            return Err(bad);
        };
        if head.append_header(header.name.to_owned(), value).is_err() {
            return Err(bad);
        }
    }
    Ok(Some((head, length)))
}

/// Whether a 101 says what every client wants of it (RFC 6455, section 4.1), but for the value of
/// `Sec-WebSocket-Accept`: who has asked judges that one.
fn is_switch(head: &ResponseHeader) -> bool {
    let only = |name: &str| {
        let mut lines = head.headers.get_all(name).iter();
        lines.next().filter(|_| lines.next().is_none())
    };
    let upgrade =
        only("upgrade").is_some_and(|value| value.as_bytes().eq_ignore_ascii_case(b"websocket"));
    let mut named = head
        .headers
        .get_all("connection")
        .iter()
        .flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    head.version == Version::HTTP_11
        && upgrade
        && named.any(|name| name.trim_ascii().eq_ignore_ascii_case(b"upgrade"))
        && only("sec-websocket-accept").is_some()
}

/// The head of a 101 as it goes to the client.
#[must_use]
pub fn switched(head: &ResponseHeader) -> Vec<u8> {
    let mut clean = head.clone();
    for name in [
        "connection",
        "upgrade",
        "keep-alive",
        "transfer-encoding",
        "content-length",
    ] {
        clean.remove_header(name);
    }
    let mut wire =
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
            .to_vec();
    clean.header_to_h1_wire(&mut wire);
    wire.extend_from_slice(b"\r\n");
    wire
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(headers: &[(&'static str, &str)]) -> RequestHeader {
        let mut request = RequestHeader::build("GET", b"/socket?x=1", None).unwrap();
        for (name, value) in headers {
            request.append_header(*name, *value).unwrap();
        }
        request
    }

    #[test]
    fn heads() {
        let mut request = request(&[("host", "dev.localhost"), ("sec-websocket-key", "x")]);
        request.insert_header("X-User-Sub", "alice").unwrap();
        let text = String::from_utf8(wire(&request)).unwrap();
        assert!(text.starts_with("GET /socket?x=1 HTTP/1.1\r\n"), "{text}");
        assert!(text.contains("X-User-Sub: alice\r\n"), "{text}");
        assert!(
            text.ends_with("\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"),
            "{text}"
        );
        let answer = b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: y\r\nConnection: upgrade\r\n\r\nrest";
        let (head, length) = parse(answer).unwrap().unwrap();
        assert_eq!(&answer[length..], b"rest");
        let text = String::from_utf8(switched(&head)).unwrap();
        assert_eq!(text.matches("pgrade: websocket").count(), 1, "{text}");
        assert!(text.contains("Sec-WebSocket-Accept: y\r\n"), "{text}");
        assert!(parse(b"HTTP/1.1 101 Swit").unwrap().is_none());
        let (head, _) = parse(b"HTTP/1.1 403 Not for you\r\n\r\n").unwrap().unwrap();
        assert_eq!(head.get_reason_phrase(), Some("Not for you"));
        assert!(parse(b"SSH-2.0-x\r\n\r\n").is_err());
    }

    #[test]
    fn what_switches_to_websocket() {
        const WHOLE: &str = "Connection: keep-alive, Upgrade\r\nUpgrade: WebSocket\r\n\
                             Sec-WebSocket-Accept: y\r\n";
        let said = |version: &str, lines: &str| {
            let head = format!("HTTP/{version} 101 Switching Protocols\r\n{lines}\r\n");
            is_switch(&parse(head.as_bytes()).unwrap().unwrap().0)
        };
        assert!(said("1.1", WHOLE));
        assert!(!said("1.0", WHOLE));
        for (line, instead) in [
            ("Connection: keep-alive, Upgrade\r\n", ""),
            ("Connection: keep-alive, Upgrade\r\n", "Connection: x\r\n"),
            ("Upgrade: WebSocket\r\n", ""),
            ("Upgrade: WebSocket\r\n", "Upgrade: h2c\r\n"),
            (
                "Upgrade: WebSocket\r\n",
                "Upgrade: WebSocket\r\nUpgrade: WebSocket\r\n",
            ),
            ("Sec-WebSocket-Accept: y\r\n", ""),
            (
                "Sec-WebSocket-Accept: y\r\n",
                "Sec-WebSocket-Accept: y\r\nSec-WebSocket-Accept: z\r\n",
            ),
        ] {
            assert!(WHOLE.contains(line));
            assert!(
                !said("1.1", &WHOLE.replacen(line, instead, 1)),
                "{instead:?}"
            );
        }
    }

    #[tokio::test]
    async fn an_application_that_does_not_read_is_waited_for() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let pod = connect(listener.local_addr().unwrap()).await.unwrap();
        let options = socket2::SockRef::from(&pod);
        assert!(options.keepalive().unwrap());
        assert_eq!(options.tcp_user_timeout().unwrap(), None);
    }

    /// A pod whose 101, and first frame, are in the socket before our request is sent.
    #[tokio::test]
    async fn an_answer_that_is_there_already_is_the_answer() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let said =
            b"HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: y\r\n\r\n\x81\x02hi";
        let request = request(&[("host", "dev.localhost"), ("sec-websocket-key", "x")]);
        for _ in 0..200 {
            let (pod, accepted) = tokio::join!(connect(address), listener.accept());
            let (pod, mut accepted) = (pod.unwrap(), accepted.unwrap().0);
            accepted.write_all(said).await.unwrap();
            let mut seen = [0; 128];
            while pod.peek(&mut seen).await.unwrap() < said.len() {}
            let answer = handshake(pod, &request).await.unwrap();
            let Answer::Switched { mut pod, early, .. } = answer else {
                panic!("{answer:?}");
            };
            assert_eq!(early, b"\x81\x02hi".as_slice());
            // And the request has come, too.
            let mut asked = [0; 18];
            accepted.read_exact(&mut asked).await.unwrap();
            assert_eq!(&asked, b"GET /socket?x=1 HT");
            pod.write_all(b"up").await.unwrap();
        }
    }

    /// A pod that refuses before it has read the request, and is gone.
    #[tokio::test]
    async fn a_refusal_is_heard_although_the_pod_has_closed() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (pod, accepted) = tokio::join!(connect(address), listener.accept());
        let (pod, mut accepted) = (pod.unwrap(), accepted.unwrap().0);
        let said = b"HTTP/1.1 403 No\r\nContent-Length: 2\r\n\r\nno";
        accepted.write_all(said).await.unwrap();
        drop(accepted);
        let request = request(&[("host", "dev.localhost")]);
        let Answer::Refused { head, mut body } = handshake(pod, &request).await.unwrap() else {
            panic!("it has switched");
        };
        assert_eq!(head.status, StatusCode::FORBIDDEN);
        assert_eq!(body.next().await.unwrap().unwrap(), b"no".as_slice());
        assert!(body.next().await.unwrap().is_none());
    }
}
