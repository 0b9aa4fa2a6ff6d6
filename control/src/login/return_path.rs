//! Where a browser may be sent after signing in: a place on the same host, nowhere else.

/// Longest path kept, in bytes: it must fit into the login cookie.
pub(super) const MAX_LEN: usize = 2048;

/// The given path and query if it is one of the console's own pages, else `/`. Login's pages are no
/// place to return to, except the hand-over.
#[must_use]
pub fn safe_return(path: Option<&str>) -> &str {
    const OWN: [&str; 4] = ["/auth/login", "/auth/callback", "/auth/logout", "/.nogoo9/"];
    same_origin(path, &OWN)
}

/// As [`safe_return`], on a workspace's host: there all is the application's but `/.nogoo9/`.
#[must_use]
pub fn safe_workspace_return(path: Option<&str>) -> &str {
    same_origin(path, &["/.nogoo9/"])
}

/// Browsers read `\` as `/`, ignore tabs and line breaks anywhere, and take what begins with two
/// slashes for another host. So nothing of that passes, nor anything that is not visible ASCII.
fn same_origin<'a>(path: Option<&'a str>, own: &[&str]) -> &'a str {
    const HOME: &str = "/";
    let Some(path) = path.filter(|path| path.len() <= MAX_LEN) else {
        return HOME;
    };
    let visible = path
        .bytes()
        .all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if !visible || !path.starts_with('/') || path.starts_with("//") {
        return HOME;
    }
    // `/.//x` and `/a/..//x` become `//x` when dots are resolved, which is still a path there; but
    // no honest page needs it, and not every client resolves alike.
    let bare = path.split(['?', '#']).next().unwrap_or_default();
    let dotted = bare.split('/').any(|part| matches!(part, "." | ".."));
    let own = own.iter().any(|own| bare.starts_with(own));
    if dotted || own { HOME } else { path }
}
