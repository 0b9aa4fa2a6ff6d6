//! Names and uids that the server makes.

use super::failure::Failure;
use super::registry::Resource;
use super::store::Key;
use super::tx::Tx;

/// Names tried for a `generateName`.
const NAME_ATTEMPTS: usize = 8;

/// A name that is free, for a `generateName`.
pub(crate) fn generate_name(
    tx: &Tx<'_>,
    resource: Resource,
    namespace: &str,
    prefix: &str,
) -> Result<String, Failure> {
    // The server's alphabet: no vowels and no look-alikes.
    const ALPHABET: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
    let mut name = String::new();
    for _ in 0..NAME_ATTEMPTS {
        let suffix: String = random::<5>()?
            .iter()
            .filter_map(|byte| ALPHABET.get(usize::from(*byte) % ALPHABET.len()))
            .map(|byte| char::from(*byte))
            .collect();
        let base: String = prefix.chars().take(58).collect();
        name = format!("{base}{suffix}");
        if tx.get(resource, &Key::new(namespace, &name)).is_none() {
            return Ok(name);
        }
    }
    Err(Failure::already_exists(resource, &name))
}

fn random<const N: usize>() -> Result<[u8; N], Failure> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|_| Failure::internal("no random numbers"))?;
    Ok(bytes)
}

/// A random (version 4) UUID.
pub(crate) fn new_uid() -> Result<String, Failure> {
    let bits = u128::from_be_bytes(random::<16>()?);
    let bits = (bits & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
    let hex = format!("{bits:032x}");
    let part = |from: usize, to: usize| hex.get(from..to).unwrap_or_default();
    Ok(format!(
        "{}-{}-{}-{}-{}",
        part(0, 8),
        part(8, 12),
        part(12, 16),
        part(16, 20),
        part(20, 32)
    ))
}
