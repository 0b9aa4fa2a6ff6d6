//! Bytes without end that anybody can make again: large bodies that can be checked to the byte.

use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::Query;
use axum::response::{IntoResponse, Response};
use futures::{StreamExt, stream};
use http::header;
use serde::Deserialize;

/// Bytes of a block.
pub const BLOCK: usize = 64 * 1024;

/// Block number `n` of the noise of `seed`: no block can stand in for another.
#[must_use]
pub fn block(seed: u64, n: u64) -> Bytes {
    let mut state = mix(mix(seed).wrapping_add(n)) | 1;
    let mut bytes = Vec::with_capacity(BLOCK);
    while bytes.len() < BLOCK {
        // Xorshift: its state never repeats within a block, and is never 0.
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.into()
}

/// The finaliser of `SplitMix64`: neighbours become strangers.
const fn mix(n: u64) -> u64 {
    let n = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let n = (n ^ (n >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ (n >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ (n >> 31)
}

#[derive(Deserialize)]
pub(super) struct Download {
    #[serde(default)]
    seed: u64,
    #[serde(default = "one")]
    blocks: u64,
    #[serde(default)]
    chunked: bool,
}

const fn one() -> u64 {
    1
}

/// The first `blocks` blocks of `seed`, with their length said, or `chunked`.
pub(super) async fn download(Query(asked): Query<Download>) -> Response {
    let Download {
        seed,
        blocks,
        chunked,
    } = asked;
    let body = stream::iter(0..blocks).map(move |n| Ok::<_, Infallible>(block(seed, n)));
    let mut response = Body::from_stream(body).into_response();
    let headers = response.headers_mut();
    headers.insert(
        header::CONTENT_TYPE,
        header::HeaderValue::from_static("application/octet-stream"),
    );
    if !chunked {
        let length = blocks.saturating_mul(BLOCK as u64);
        headers.insert(header::CONTENT_LENGTH, length.into());
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_another_and_always_the_same() {
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..8 {
            for n in 0..8 {
                let block = block(seed, n);
                assert_eq!(block.len(), BLOCK);
                assert_eq!(block, super::block(seed, n));
                assert!(seen.insert(block), "{seed}, {n}");
            }
        }
    }
}
