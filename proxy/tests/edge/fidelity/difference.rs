//! How two messages differ that should be the same, by name: `>` on the way to the pod, `<` on the way
//! back.

use super::answer::Answer;
use super::cases::Case;
use super::message::Message;
use std::collections::BTreeSet;

/// How heads and bodies differ that should be the same.
fn differences(way: &str, without: &Message, with: &Message) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut tell = |what: &str| {
        found.insert(format!("{way} {what}"));
    };
    let (one, other) = (names(without), names(with));
    for name in one.iter().chain(&other).collect::<BTreeSet<_>>() {
        let (before, after) = (without.all(name), with.all(name));
        if before.is_empty() {
            tell(&format!("{name} new"));
        } else if after.is_empty() {
            tell(&format!("{name} gone"));
        } else if before != after {
            tell(&format!("{name} differs"));
        } else if letters(without, name) != letters(with, name) {
            tell("letters");
        } else if raw(without, name) != raw(with, name) {
            tell("white space");
        }
    }
    let common = |all: &[String], others: &[String]| -> Vec<String> {
        let kept = all.iter().filter(|name| others.contains(name));
        kept.cloned().collect()
    };
    let (before, after) = (common(&one, &other), common(&other, &one));
    if firsts(&before) != firsts(&after) {
        tell("order");
    } else if before != after && before.len() == after.len() {
        tell("grouped");
    }
    if without.body != with.body {
        tell("body");
    }
    match (&without.chunks, &with.chunks) {
        (Some(before), Some(after)) if before != after => tell("chunks"),
        _ => {}
    }
    if without.until_end != with.until_end {
        tell("until the end");
    }
    if without.trailers != with.trailers {
        tell("trailers");
    }
    found
}

fn names(message: &Message) -> Vec<String> {
    let headers = message.headers().into_iter();
    headers.map(|(name, _)| name.to_ascii_lowercase()).collect()
}

/// Each name once, where it comes first.
fn firsts(names: &[String]) -> Vec<&String> {
    let mut seen = BTreeSet::new();
    names.iter().filter(|name| seen.insert(*name)).collect()
}

fn letters<'a>(message: &'a Message, name: &str) -> Vec<&'a str> {
    let headers = message.headers().into_iter().map(|(one, _)| one);
    headers
        .filter(|one| one.eq_ignore_ascii_case(name))
        .collect()
}

fn raw<'a>(message: &'a Message, name: &str) -> Vec<&'a str> {
    let lines = message.lines.iter().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(one, _)| one.eq_ignore_ascii_case(name))
        .map(|(_, value)| value)
        .collect()
}

pub(super) fn of_requests(without: &Message, with: &Message) -> BTreeSet<String> {
    let mut found = differences(">", without, with);
    let parts = |message: &Message| -> Vec<String> {
        message.line.split(' ').map(ToOwned::to_owned).collect()
    };
    let (before, after) = (parts(without), parts(with));
    let last = before.len() - 1;
    if before[0] != after[0] {
        found.insert("> method".to_owned());
    }
    if before[1..last] != after[1..after.len() - 1] {
        found.insert("> target".to_owned());
    }
    if before[last] != after[after.len() - 1] {
        found.insert("> version".to_owned());
    }
    found
}

pub(super) fn of_answers(without: &Answer, with: &Answer, case: &Case) -> BTreeSet<String> {
    let mut found = differences("<", &without.last, &with.last);
    let parts = |message: &Message| -> Vec<String> {
        message.line.splitn(3, ' ').map(ToOwned::to_owned).collect()
    };
    let (before, after) = (parts(&without.last), parts(&with.last));
    for (n, what) in ["version", "status", "reason"].into_iter().enumerate() {
        if before.get(n) != after.get(n) {
            found.insert(format!("< {what}"));
        }
    }
    if without.before != with.before {
        let old = case.version == "HTTP/1.0" && with.before.is_empty();
        let old = if old { ", HTTP/1.0" } else { "" };
        found.insert(format!("< informational{old}"));
    }
    if without.whole != with.whole {
        found.insert("< whole".to_owned());
    }
    found
}
