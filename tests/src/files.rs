//! Files that a workspace keeps in its claim.

use crate::{Edge, Target};
use bytes::Bytes;
use http::Method;

/// Bytes of a file: all values, no period that a block size divides.
fn bytes(length: u32) -> Bytes {
    (0..length)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0])
        .collect()
}

/// Writes a file through the sample, as the owner; returns its content.
///
/// # Errors
/// No answer.
pub async fn write_file(
    target: &Target,
    owner: &str,
    id: &str,
    name: &str,
) -> anyhow::Result<Bytes> {
    let (edge, content) = (target.edge(owner).await?, bytes(100_003));
    let request = edge
        .request(Method::PUT, &edge.host(id), &format!("/files/{name}"))?
        .body(content.clone());
    let answer = Edge::send(request).await?;
    assert!(
        answer.status.is_success(),
        "{}: {}",
        answer.status,
        answer.text()
    );
    Ok(content)
}

/// What the sample has under that name.
///
/// # Errors
/// No answer.
pub async fn read_file(
    target: &Target,
    owner: &str,
    id: &str,
    name: &str,
) -> anyhow::Result<Bytes> {
    let path = format!("/files/{name}");
    let answer = target.edge(owner).await?.get(id, &path).await?;
    assert_eq!(answer.status, 200, "{}", answer.text());
    Ok(answer.body)
}
