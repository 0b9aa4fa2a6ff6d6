//! Ids that nobody chose: readable ones for workspaces, unguessable ones for operations.

use super::ServiceError;
use data_encoding::BASE32_NOPAD;

const FIRST: [&str; 32] = [
    "amber", "brave", "bright", "calm", "clear", "clever", "cosy", "crisp", "eager", "early",
    "fair", "fresh", "gentle", "glad", "green", "happy", "keen", "kind", "light", "lively",
    "lucky", "merry", "mild", "neat", "nimble", "quick", "quiet", "sharp", "still", "sunny",
    "warm", "wise",
];
const SECOND: [&str; 32] = [
    "acorn", "alder", "birch", "brook", "cedar", "cliff", "cloud", "clover", "dune", "ember",
    "fern", "finch", "fjord", "grove", "hazel", "heron", "lake", "larch", "lark", "maple",
    "meadow", "otter", "pine", "pond", "reed", "river", "robin", "stone", "swift", "thyme",
    "willow", "wren",
];
const LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";

pub(super) fn random<const N: usize>() -> Result<[u8; N], ServiceError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| ServiceError::Cluster {
        reason: format!("no random numbers: {error}"),
    })?;
    Ok(bytes)
}

fn pick<T: Copy>(from: &[T; 32], byte: u8) -> T {
    // 32 divides 256: every entry is as likely.
    from[usize::from(byte) % 32]
}

/// An id such as `quiet-maple-7kx2`: 30 bits, of which the create makes sure that they are unique.
pub(super) fn workspace() -> Result<String, ServiceError> {
    let [a, b, rest @ ..] = random::<6>()?;
    let tail: String = rest
        .iter()
        .map(|byte| char::from(pick(LETTERS, *byte)))
        .collect();
    Ok(format!("{}-{}-{tail}", pick(&FIRST, a), pick(&SECOND, b)))
}

/// The id of an operation: `op-` and 128 random bits.
pub(super) fn operation() -> Result<String, ServiceError> {
    let mut text = BASE32_NOPAD.encode(&random::<16>()?);
    text.make_ascii_lowercase();
    Ok(format!("op-{text}"))
}

/// Whether it is such an id; nothing else gets into the name of an object.
pub(super) fn is_operation(id: &str) -> bool {
    id.strip_prefix("op-").is_some_and(|rest| {
        rest.len() == 26
            && rest
                .bytes()
                .all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn made_up_ids_are_valid_and_differ() {
        let (a, b) = (workspace().unwrap(), workspace().unwrap());
        assert_ne!(a, b);
        for id in [&a, &b] {
            nogoo9_model::id::check_new(id).unwrap();
        }
        let longest = |words: &[&str]| words.iter().map(|word| word.len()).max().unwrap();
        assert!(longest(&FIRST) + longest(&SECOND) + 6 <= nogoo9_model::id::MAX_ID);
        assert!(is_operation(&operation().unwrap()));
        for id in [
            "",
            "op-",
            "op-../../secrets/x",
            "op-AAAAAAAAAAAAAAAAAAAAAAAAAA",
            &"a".repeat(29),
        ] {
            assert!(!is_operation(id), "{id}");
        }
    }
}
