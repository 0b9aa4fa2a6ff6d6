//! What a client sends, case by case, in the order of the chapters of Autobahn's testsuite: framing (1),
//! pings (2), reserved bits (3), opcodes (4), fragments (5), UTF-8 (6), closing (7), sizes (9, 10).
//! Compression (12, 13) needs an extension that this server does not have; that its frames pass
//! untouched is shown in `upgrades`.

/// One of them.
pub(super) struct Case {
    pub(super) name: String,
    /// What is written, piece by piece.
    pub(super) pieces: Vec<Vec<u8>>,
    /// Whether a server takes all of it; else it fails the connection somewhere.
    pub(super) is_proper: bool,
}

const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const CLOSE: u8 = 8;
const PING: u8 = 9;
const PONG: u8 = 10;

/// A client's frame, with a mask that is none of zeros.
fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
    const MASK: [u8; 4] = [0x37, 0xfa, 0x21, 0x3d];
    let mut out = vec![first];
    match payload.len() {
        n @ 0..=125 => out.push(0x80 | n as u8),
        n @ 126..=0xffff => {
            out.push(0x80 | 126);
            out.extend_from_slice(&(n as u16).to_be_bytes());
        }
        n => {
            out.push(0x80 | 127);
            out.extend_from_slice(&(n as u64).to_be_bytes());
        }
    }
    out.extend_from_slice(&MASK);
    out.extend(
        payload
            .iter()
            .zip(MASK.iter().cycle())
            .map(|(byte, mask)| byte ^ mask),
    );
    out
}

fn last(opcode: u8, payload: &[u8]) -> Vec<u8> {
    frame(0x80 | opcode, payload)
}

fn part(opcode: u8, payload: &[u8]) -> Vec<u8> {
    frame(opcode, payload)
}

fn close(code: u16, reason: &[u8]) -> Vec<u8> {
    last(CLOSE, &[&code.to_be_bytes(), reason].concat())
}

fn goodbye() -> Vec<u8> {
    close(1000, b"")
}

struct Cases(Vec<Case>);

impl Cases {
    /// Frames after which a server answers the Close.
    fn proper(&mut self, name: impl Into<String>, mut frames: Vec<Vec<u8>>) {
        frames.push(goodbye());
        self.add(name, frames, true);
    }

    /// Frames on which a server fails the connection.
    fn failing(&mut self, name: impl Into<String>, mut frames: Vec<Vec<u8>>) {
        frames.push(goodbye());
        self.add(name, frames, false);
    }

    /// In one piece for each frame; a few also byte by byte.
    fn add(&mut self, name: impl Into<String>, pieces: Vec<Vec<u8>>, is_proper: bool) {
        let name = name.into();
        let all = pieces.concat();
        if is_proper && all.len() < 600 {
            self.0.push(Case {
                name: format!("{name}, byte by byte"),
                pieces: all.iter().map(|byte| vec![*byte]).collect(),
                is_proper,
            });
        }
        self.0.push(Case {
            name: format!("{name}, at once"),
            pieces: vec![all],
            is_proper,
        });
        self.0.push(Case {
            name,
            pieces,
            is_proper,
        });
    }
}

/// All of them; `all`: with sizes up to 16 MiB.
pub(super) fn cases(all: bool) -> Vec<Case> {
    let mut cases = Cases(Vec::new());
    framing(&mut cases);
    pings(&mut cases);
    reserved(&mut cases);
    fragments(&mut cases);
    utf8(&mut cases);
    closing(&mut cases);
    sizes(&mut cases, all);
    cases.0
}

fn framing(cases: &mut Cases) {
    for length in [0, 1, 125, 126, 127, 128, 65_535, 65_536] {
        let text = vec![b'*'; length];
        let bytes = vec![0xfe; length];
        cases.proper(format!("1.1 text of {length}"), vec![last(TEXT, &text)]);
        cases.proper(
            format!("1.2 binary of {length}"),
            vec![last(BINARY, &bytes)],
        );
    }
    let chopped = last(TEXT, &[b'*'; 65_536]);
    let mut pieces: Vec<Vec<u8>> = chopped.chunks(997).map(<[u8]>::to_vec).collect();
    pieces.push(goodbye());
    cases.add("1.1.8 in chops of 997", pieces, true);
    // Lengths in more bytes than they need, and with the highest bit.
    let long = [0x82, 0x80 | 126, 0, 3, 0, 0, 0, 0, 1, 2, 3].to_vec();
    cases.proper("1.3 a length in too many bytes", vec![long]);
    let huge = [0x82, 0x80 | 127, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0].to_vec();
    cases.failing("1.3 a length beyond all", vec![huge]);
    let unmasked = vec![0x81, 2, b'h', b'i'];
    cases.failing("1.4 a frame without a mask", vec![unmasked]);
}

fn pings(cases: &mut Cases) {
    for (name, payload) in [
        ("2.1 empty", Vec::new()),
        ("2.2 text", b"Hello, world!".to_vec()),
        ("2.3 bytes", vec![0, 255, 254, 253, 252, 251, 0, 255]),
        ("2.4 the longest", vec![0xfe; 125]),
    ] {
        cases.proper(format!("{name} ping"), vec![last(PING, &payload)]);
    }
    cases.failing("2.5 too long a ping", vec![last(PING, &[0xfe; 126])]);
    cases.proper("2.7 a pong unasked", vec![last(PONG, b"")]);
    cases.proper("2.8 a pong with a payload", vec![last(PONG, b"unasked")]);
    cases.proper(
        "2.9 a pong, then a ping",
        vec![last(PONG, b"unasked"), last(PING, b"ping")],
    );
    let ten = (0..10).map(|n| last(PING, format!("payload-{n}").as_bytes()));
    cases.proper("2.10 ten pings", ten.collect());
    cases.failing("2.12 too long a pong", vec![last(PONG, &[0xfe; 126])]);
}

fn reserved(cases: &mut Cases) {
    for bits in 1..8_u8 {
        let first = 0x80 | (bits << 4);
        for (what, opcode) in [
            ("text", TEXT),
            ("binary", BINARY),
            ("ping", PING),
            ("close", CLOSE),
        ] {
            let name = format!("3.{bits} reserved bits {bits} on a {what}");
            cases.failing(name, vec![frame(first | opcode, b"Hi")]);
        }
        let name = format!("3.{bits} reserved bits {bits} behind a message");
        cases.failing(
            name,
            vec![
                last(TEXT, b"first"),
                frame(first | TEXT, b"second"),
                last(PING, b""),
            ],
        );
    }
    for opcode in [3, 4, 5, 6, 7, 11, 12, 13, 14, 15] {
        cases.failing(format!("4 opcode {opcode}"), vec![last(opcode, b"")]);
        let name = format!("4 opcode {opcode} behind a message");
        cases.failing(
            name,
            vec![last(TEXT, b"first"), last(opcode, b"x"), last(PING, b"")],
        );
    }
}

fn fragments(cases: &mut Cases) {
    cases.failing(
        "5.1 a ping in two",
        vec![part(PING, b"a"), last(CONTINUATION, b"b")],
    );
    cases.failing(
        "5.2 a pong in two",
        vec![part(PONG, b"a"), last(CONTINUATION, b"b")],
    );
    cases.proper(
        "5.3 a text in two",
        vec![part(TEXT, b"fragment1"), last(CONTINUATION, b"fragment2")],
    );
    cases.proper(
        "5.6 a ping between two",
        vec![
            part(TEXT, b"fragment1"),
            last(PING, b"ping"),
            last(CONTINUATION, b"fragment2"),
        ],
    );
    cases.failing(
        "5.9 a continuation of nothing",
        vec![last(CONTINUATION, b"x"), last(TEXT, b"y")],
    );
    cases.failing(
        "5.12 an unended continuation of nothing",
        vec![part(CONTINUATION, b"x"), last(TEXT, b"y")],
    );
    cases.failing(
        "5.15 a continuation behind an end",
        vec![
            part(TEXT, b"a"),
            last(CONTINUATION, b"b"),
            part(CONTINUATION, b"c"),
            last(TEXT, b"d"),
        ],
    );
    cases.failing(
        "5.18 a text within a text",
        vec![part(TEXT, b"a"), last(TEXT, b"b")],
    );
    let mut five = vec![
        part(TEXT, b"1"),
        part(CONTINUATION, b"2"),
        last(PING, b"one"),
    ];
    five.extend([
        part(CONTINUATION, b"3"),
        part(CONTINUATION, b"4"),
        last(PING, b"two"),
        last(CONTINUATION, b"5"),
    ]);
    cases.proper("5.19 five fragments and two pings", five);
    cases.proper(
        "5.20 empty fragments",
        vec![
            part(BINARY, b""),
            part(CONTINUATION, b""),
            last(CONTINUATION, b""),
        ],
    );
    cases.proper(
        "5.21 the middle one is full",
        vec![
            part(TEXT, b""),
            part(CONTINUATION, b"middle"),
            last(CONTINUATION, b""),
        ],
    );
}

fn utf8(cases: &mut Cases) {
    let valid: [&[u8]; 14] = [
        b"Hello-\xc2\xb5@\xc3\x9f\xc3\xb6\xc3\xa4\xc3\xbc\xc3\xa0\xc3\xa1-UTF-8!!",
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5",
        b"\x00",
        b"\x7f",
        b"\xc2\x80",
        b"\xdf\xbf",
        b"\xe0\xa0\x80",
        b"\xef\xbf\xbf",
        b"\xed\x9f\xbf",
        b"\xee\x80\x80",
        b"\xf0\x90\x80\x80",
        b"\xf4\x8f\xbf\xbf",
        b"\xef\xbf\xbd",
        b"\xf0\x9f\x98\x80",
    ];
    for text in valid {
        cases.proper(format!("6 text {text:x?}"), vec![last(TEXT, text)]);
        let (start, end) = text.split_at(text.len() / 2);
        let name = format!("6 text {text:x?} in two");
        cases.proper(name, vec![part(TEXT, start), last(CONTINUATION, end)]);
    }
    let invalid: [&[u8]; 22] = [
        b"\xce\xba\xe1\xbd\xb9\xcf\x83\xce\xbc\xce\xb5\xed\xa0\x80edited",
        b"\xf4\x90\x80\x80",
        b"\xf8\x88\x80\x80\x80",
        b"\xfc\x84\x80\x80\x80\x80",
        b"\xf7\xbf\xbf\xbf",
        b"\xfb\xbf\xbf\xbf\xbf",
        b"\x80",
        b"\xbf",
        b"\x80\xbf\x80\xbf",
        b"\xc0 \xc1 \xc2 ",
        b"\xe0 \xe1 ",
        b"\xf0 \xf1 ",
        b"\xc0",
        b"\xe0\x80",
        b"\xf0\x80\x80",
        b"\xfe",
        b"\xff",
        b"\xc0\xaf",
        b"\xe0\x80\xaf",
        b"\xf0\x80\x80\xaf",
        b"\xed\xa0\x80\xed\xb0\x80",
        b"\xc1\xbf",
    ];
    for text in invalid {
        cases.failing(format!("6 no text {text:x?}"), vec![last(TEXT, text)]);
    }
}

fn closing(cases: &mut Cases) {
    cases.proper(
        "7.1.1 a message before the Close",
        vec![last(TEXT, b"Hello World!")],
    );
    cases.add("7.1.2 two Closes", vec![goodbye(), goodbye()], false);
    cases.add(
        "7.1.3 a ping behind the Close",
        vec![goodbye(), last(PING, b"")],
        false,
    );
    cases.add(
        "7.1.4 a text behind the Close",
        vec![goodbye(), last(TEXT, b"late")],
        false,
    );
    cases.add(
        "7.1.5 a Close between fragments",
        vec![part(TEXT, b"fragment1"), goodbye()],
        true,
    );
    let mut large = vec![last(TEXT, &[b'*'; 256 * 1024])];
    large.push(goodbye());
    large.push(last(PING, b""));
    cases.add("7.1.6 a large message, the Close, a ping", large, false);
    cases.add("7.3.1 without a code", vec![last(CLOSE, b"")], true);
    cases.add("7.3.2 half of a code", vec![last(CLOSE, b"a")], false);
    cases.add("7.3.3 a code", vec![close(1000, b"")], true);
    cases.add("7.3.4 a reason", vec![close(1000, b"Hello World!")], true);
    cases.add(
        "7.3.5 the longest reason",
        vec![close(1000, &[b'*'; 123])],
        true,
    );
    cases.add(
        "7.3.6 too long a reason",
        vec![close(1000, &[b'*'; 124])],
        false,
    );
    cases.add(
        "7.5.1 a reason that is no text",
        vec![close(1000, b"\xce\xba\xed\xa0\x80")],
        false,
    );
    for code in [
        1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 3000, 3999, 4000, 4999,
    ] {
        cases.add(format!("7.7 code {code}"), vec![close(code, b"")], true);
    }
    for code in [
        0, 999, 1004, 1005, 1006, 1016, 1100, 2000, 2999, 5000, 65_535,
    ] {
        cases.add(format!("7.9 code {code}"), vec![close(code, b"")], false);
    }
}

fn sizes(cases: &mut Cases, all: bool) {
    let largest = if all { 16 << 20 } else { 1 << 20 };
    let mut size = 64 << 10;
    while size <= largest {
        let payload = vec![b'*'; size];
        let mut whole = vec![last(TEXT, &payload), last(BINARY, &payload)];
        whole.push(goodbye());
        cases.0.push(Case {
            name: format!("9.1 messages of {size}"),
            pieces: whole,
            is_proper: true,
        });
        for each in [4_096, 65_536] {
            let count = size / each;
            let mut parts: Vec<Vec<u8>> = payload
                .chunks(each)
                .enumerate()
                .map(|(nth, chunk)| {
                    let opcode = if nth == 0 { TEXT } else { CONTINUATION };
                    if nth + 1 == count {
                        last(opcode, chunk)
                    } else {
                        part(opcode, chunk)
                    }
                })
                .collect();
            parts.push(goodbye());
            let name = format!("9.3 a message of {size} in fragments of {each}");
            cases.0.push(Case {
                name,
                pieces: parts,
                is_proper: true,
            });
        }
        let whole = [last(BINARY, &payload), goodbye()].concat();
        for chop in [1_289, 16_411] {
            let pieces = whole.chunks(chop).map(<[u8]>::to_vec).collect();
            let name = format!("9.5 a message of {size} in chops of {chop}");
            cases.0.push(Case {
                name,
                pieces,
                is_proper: true,
            });
        }
        size *= 4;
    }
    for size in [0, 16, 64, 256, 1024] {
        let mut many = vec![last(TEXT, &vec![b'*'; size]); if all { 1_000 } else { 200 }];
        many.push(goodbye());
        cases.0.push(Case {
            name: format!("9.7 many messages of {size}"),
            pieces: many,
            is_proper: true,
        });
    }
    let whole = [last(TEXT, &[b'*'; 65_536]), goodbye()].concat();
    let pieces = whole.chunks(1_300).map(<[u8]>::to_vec).collect();
    cases.0.push(Case {
        name: "10.1 in packets of 1300".to_owned(),
        pieces,
        is_proper: true,
    });
}
