//! Requests of any bytes through the real proxy: it never falls, no claim of a client's reaches a pod,
//! and the application's cookies do as they are.
//!
//! A few hundred of them, always the same ones, as part of the tests; with `NOGOO9_FUZZ_SECONDS`
//! (`make fuzz`) as many as fit into that time, from a new seed. A failure names the seed that finds it
//! again, as `NOGOO9_FUZZ_SEED`.

mod bytes;

use crate::PATIENCE;
use crate::client::Connection;
use crate::proxy::{CONSOLE, Stage};
use nogoo9_identity::cookie::is_ours;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::io::AsyncReadExt as _;

/// Requests without a time to fill.
const REQUESTS: u64 = 300;

const METHODS: &[&str] = &[
    "GET", "GET", "GET", "POST", "DELETE", "OPTIONS", "HEAD", "BREW",
];
const TARGETS: &[&str] = &[
    "/x",
    "/x?a=b&c=%ff",
    "/%2e%2e/%2E./x",
    "/a/..;/b",
    "//elsewhere.example/x",
    "/\\elsewhere.example",
    "/%00%0d%0aX-User-Sub:%20mallory",
    "/{}|^`\"<>",
    "/\u{fc}",
    "*",
    "http://dev.localhost:9009/x",
    "http://other.localhost:9009/x",
    "http://user:password@dev.localhost:9009/x",
    "/.nogoo9/status",
    "/.nogoo9/../x",
    "/route/dev/x",
    "x",
    "",
];
const CLAIMS: &[&str] = &[
    "x-user-sub",
    "x-user-roles",
    "x-user-email",
    "x-forwarded-user",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-workspace-jwt",
    "x-auth-request-user",
    "x-nogoo9-caller",
    "x-real-ip",
    "remote-user",
    "forwarded",
];
/// What a pod may be told by names that begin like those.
const OURS: &[&str] = &[
    "x-user-sub",
    "x-user-roles",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
    "x-forwarded-port",
    "x-forwarded-prefix",
    "forwarded",
];
const OTHERS: &[&str] = &[
    "Connection: x-user-sub, x-user-roles",
    "Connection: cookie, x-app-1, keep-alive",
    "Authorization: Basic Z2l0Om5nOV9hYmNkZWZnaGlqa2xtbm9w",
    "Authorization: Digest username=\"mallory\"",
    "Accept: text/html",
    "Origin: http://dev.localhost:9009",
    "X-App-1: value, with \"quotes\"; and \u{fc}",
    "X-App-2:",
    "TE: trailers",
    "Upgrade: h2c",
    "Range: bytes=0-",
    "Sec-Fetch-Mode: cors",
];
const PAIRS: &[&str] = &[
    "app=1",
    "app2=\"v = 2\"",
    "bare",
    "=nameless",
    "a=b=c",
    "utf8=\u{65e5}",
    "nogoo9x=theirs",
    "nogoo9=tossed",
    "nogoo9-nonce=n",
    "__Host-nogoo9=tossed",
    " nogoo9 = tossed ",
    "nogoo9",
    "__Host-nogoo9-login-ab=l",
];

/// Always the same numbers from the same seed (xorshift64*).
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33;
        usize::try_from(high).unwrap() % end
    }

    pub(crate) fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }

    /// A name in some other spelling of those that CGI and its heirs take for the same.
    fn spelt(&mut self, name: &str) -> String {
        let spell = |c: char| match (c, self.below(4)) {
            ('-', 0) => '_',
            ('-', 1) => '.',
            (c, 2) => c.to_ascii_uppercase(),
            (c, _) => c,
        };
        name.chars().map(spell).collect()
    }
}

/// A request, and what it holds.
struct Sent {
    bytes: Vec<u8>,
    /// The application's cookies, where nothing was changed afterwards.
    cookies: Option<Vec<String>>,
    has_answer_body: bool,
}

fn request(dice: &mut Dice, host: &str, session: &str) -> Sent {
    let method = dice.one(METHODS);
    let mut lines = vec!["Sec-Fetch-Site: same-origin".to_owned()];
    let mut pairs: Vec<&str> = (0..dice.below(8)).map(|_| dice.one(PAIRS)).collect();
    pairs.insert(dice.below(pairs.len() + 1), session);
    let cut = dice.below(pairs.len() + 1);
    for part in [&pairs[..cut], &pairs[cut..]] {
        if !part.is_empty() {
            let between = dice.one(&["; ", ";", " ;\t"]);
            lines.push(format!("Cookie: {}", part.join(between)));
        }
    }
    for _ in 0..dice.below(6) {
        let claim = dice.one(CLAIMS);
        let name = dice.spelt(claim);
        lines.push(format!("{name}: mallory"));
    }
    for _ in 0..dice.below(4) {
        lines.push(dice.one(OTHERS).to_owned());
    }
    for at in (1..lines.len()).rev() {
        let other = 1 + dice.below(at);
        // Between two lines of cookies there is an order.
        if !lines[at].starts_with("Cookie") && !lines[other].starts_with("Cookie") {
            lines.swap(at, other);
        }
    }
    let target = dice.one(TARGETS);
    let head = format!(
        "{method} {target} HTTP/1.1\r\nHost: {host}\r\n{}",
        lines.join("\r\n")
    );
    let mut bytes = head.into_bytes();
    let changes = if dice.below(3) == 0 {
        1 + dice.below(3)
    } else {
        0
    };
    for _ in 0..changes {
        let at = dice.below(bytes.len());
        let byte = u8::try_from(dice.below(256)).unwrap();
        match dice.below(3) {
            0 => bytes[at] = byte,
            1 => bytes.insert(at, byte),
            _ => {
                bytes.remove(at);
            }
        }
    }
    bytes.extend_from_slice(b"\r\nConnection: close\r\n\r\n");
    let theirs = pairs.iter().filter(|pair| {
        let name = pair.split('=').next().unwrap_or_default();
        !is_ours(name.trim())
    });
    let theirs = theirs.map(|pair| (*pair).to_owned()).collect();
    Sent {
        bytes,
        cookies: (changes == 0).then_some(theirs),
        has_answer_body: method != "HEAD",
    }
}

/// Whether a pod could take a header of that name for somebody's word on who is calling.
fn is_claim(name: &str) -> bool {
    let plain: String = name
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    CLAIMS.iter().any(|claim| plain == *claim) || plain.starts_with("x-user-")
}

/// What must hold of what a pod got.
fn check(echo: &str, sent: &Sent) -> Result<(), String> {
    let head = echo.split("\n\n").next().unwrap_or_default();
    let lines = head
        .lines()
        .skip(2)
        .filter_map(|line| line.split_once(": "));
    let lines: Vec<(&str, &str)> = lines.collect();
    let all = |name: &str| -> Vec<&str> {
        let found = lines.iter().filter(|(one, _)| *one == name);
        found.map(|(_, value)| *value).collect()
    };
    if all("x-user-sub") != ["alice"] || all("x-user-roles") != ["user"] {
        return Err("not the caller's identity".to_owned());
    }
    let foreign = lines.iter().find(|(name, value)| {
        is_claim(name) && (!OURS.contains(name) || value.contains("mallory"))
    });
    if let Some((name, value)) = foreign {
        return Err(format!("a claim: {name}: {value}"));
    }
    let Some(theirs) = &sent.cookies else {
        return Ok(());
    };
    if head.contains("nogoo9=ey") || head.contains("Z2l0Om5nOV9") {
        return Err("a token of ours".to_owned());
    }
    // Where `Connection` names them, they go no further.
    let seen: Vec<&str> = all("cookie");
    let seen: Vec<&str> = seen.iter().flat_map(|all| all.split(';')).collect();
    let seen: Vec<&str> = seen.into_iter().map(str::trim).collect();
    let nominated = String::from_utf8_lossy(&sent.bytes).contains("Connection: cookie");
    if seen != *theirs && !(nominated && seen.is_empty()) {
        return Err(format!("cookies {seen:?} in place of {theirs:?}"));
    }
    Ok(())
}

/// The answer as a whole, as its head announces it, or what comes before the connection ends.
async fn answer(connection: &mut Connection, has_body: bool) -> Vec<u8> {
    let mut got = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&got).to_ascii_lowercase();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| line.strip_prefix("content-length: "));
            let length: Option<usize> = length.and_then(|length| length.parse().ok());
            let at = got.len() - head.len() - 4;
            let whole = match length {
                Some(length) => at >= length,
                None => body.ends_with("0\r\n\r\n"),
            };
            if whole || !has_body {
                return got;
            }
        }
        let read = connection.stream.read_buf(&mut got);
        let read = tokio::time::timeout(PATIENCE, read).await;
        if read.expect("no answer came").unwrap_or(0) == 0 {
            return got;
        }
    }
}

pub(crate) fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is a number")),
    )
}

/// How long to go on, and the first seed.
fn asked_for() -> (Option<Duration>, u64) {
    let seconds = number("NOGOO9_FUZZ_SECONDS").map(Duration::from_secs);
    let first = number("NOGOO9_FUZZ_SEED").unwrap_or_else(|| match seconds {
        Some(_) => {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .unwrap()
                .as_secs()
                << 20
        }
        None => 0,
    });
    (seconds, first)
}

/// Tries `inputs` times, or for as long as is asked for. Returns how many times.
fn run(inputs: u64, mut attempt: impl FnMut(&mut Dice)) -> u64 {
    let (seconds, first) = asked_for();
    let start = Instant::now();
    let mut tried = 0;
    while seconds.map_or(tried < inputs, |seconds| start.elapsed() < seconds) {
        let seed = first.wrapping_add(tried);
        let told = Told(seed);
        attempt(&mut Dice::new(seed));
        std::mem::forget(told);
        tried += 1;
    }
    tried
}

/// Tells the seed of an attempt that fails.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        println!("again with NOGOO9_FUZZ_SEED={}", self.0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whatever_is_sent_no_claim_gets_through() {
    let stage = Stage::start().await;
    let (_app, _uid) = stage.serving("app", "dev", 1).await;
    let host = format!("dev.{CONSOLE}");
    let session = stage.cookie_on("alice", &host);
    let (seconds, first) = asked_for();
    let start = Instant::now();
    let (mut sent, mut arrived) = (0, 0);
    while seconds.map_or(sent < REQUESTS, |seconds| start.elapsed() < seconds) {
        let seed = first.wrapping_add(sent);
        let request = request(&mut Dice::new(seed), &host, &session);
        let mut connection = Connection::open(stage.address).await;
        connection.send(&request.bytes).await;
        let answer = answer(&mut connection, request.has_answer_body).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        sent += 1;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        assert!(
            !head.starts_with("HTTP/1.1 5"),
            "{head}\nto {}\nagain with NOGOO9_FUZZ_SEED={seed}",
            String::from_utf8_lossy(&request.bytes)
        );
        if !request.has_answer_body || !body.contains("app\n") {
            continue;
        }
        arrived += 1;
        let echo = body.split_once("app\n").map_or("", |(_, echo)| echo);
        if let Err(wrong) = check(&format!("app\n{echo}"), &request) {
            panic!(
                "{wrong}\n{body}\nof {}\nagain with NOGOO9_FUZZ_SEED={seed}",
                String::from_utf8_lossy(&request.bytes)
            );
        }
    }
    println!("requests: {sent} from seed {first}, {arrived} came to the pod");
    assert!(
        arrived * 4 > sent,
        "only {arrived} of {sent} came to the pod"
    );
    assert!(!stage.log().contains("panicked"), "the proxy panicked");
    // And it still serves.
    assert_eq!(stage.get("dev", "/x").await.status, 200);
}
