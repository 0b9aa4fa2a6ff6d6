//! The built files of the console, which the program carries (`build.rs`). Debug builds prefer those
//! in the work tree, so that a change of the console needs no build of control.

use bytes::Bytes;

include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// A file, by its path below the console's folder.
pub(super) async fn read(path: &str) -> Option<Bytes> {
    #[cfg(debug_assertions)]
    if let Some(found) = work_tree::read(path).await {
        return found;
    }
    let at = FILES.binary_search_by_key(&path, |(name, _)| name).ok()?;
    let (_, body) = FILES.get(at)?;
    Some(Bytes::from_static(body))
}

#[cfg(debug_assertions)]
mod work_tree {
    use bytes::Bytes;
    use std::path::Path;

    const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../ui/dist");

    /// A file, if it is there; `None`: there is no work tree here.
    pub(super) async fn read(path: &str) -> Option<Option<Bytes>> {
        if !Path::new(FOLDER).is_dir() {
            return None;
        }
        // Only names that the build makes: no way leads out of its folder.
        let plain = |segment: &str| {
            !segment.is_empty()
                && !segment.starts_with('.')
                && segment
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
        };
        if !path.split('/').all(plain) {
            return Some(None);
        }
        let body = tokio::fs::read(Path::new(FOLDER).join(path)).await;
        Some(body.ok().map(Bytes::from))
    }
}

/// Its media type.
pub(super) fn kind(path: &str) -> &'static str {
    match path.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("woff2") => "font/woff2",
        _ => "application/octet-stream",
    }
}
