use super::*;
use http::HeaderValue;

const HOST_NAME: &str = "dev.localhost:9009";

fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, HeaderValue::from_static(value));
    }
    map
}

#[test]
fn a_cookie_counts_only_for_its_own_pages_and_for_navigation() {
    const OWN: &str = "http://dev.localhost:9009";
    const SIBLING: &str = "http://evil.localhost:9009";
    type Row = (&'static str, &'static [(&'static str, &'static str)], bool);
    let table: &[Row] = &[
        // The host's own pages, and what a person types.
        ("GET", &[("sec-fetch-site", "same-origin")], true),
        ("POST", &[("sec-fetch-site", "same-origin")], true),
        (
            "GET",
            &[("sec-fetch-site", "same-origin"), ("upgrade", "websocket")],
            true,
        ),
        ("GET", &[("sec-fetch-site", "none")], true),
        // Siblings and strangers: fetches, images, frames, sockets, forms.
        ("GET", &[("sec-fetch-site", "same-site")], false),
        ("GET", &[("sec-fetch-site", "cross-site")], false),
        (
            "GET",
            &[
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "cors"),
                ("sec-fetch-dest", "empty"),
            ],
            false,
        ),
        (
            "GET",
            &[
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "no-cors"),
                ("sec-fetch-dest", "image"),
            ],
            false,
        ),
        (
            "GET",
            &[
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "iframe"),
            ],
            false,
        ),
        (
            "GET",
            &[
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "websocket"),
                ("sec-fetch-dest", "empty"),
                ("upgrade", "websocket"),
            ],
            false,
        ),
        (
            "POST",
            &[
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
            false,
        ),
        // An own Origin does not outweigh what the browser says of the site.
        (
            "POST",
            &[("sec-fetch-site", "same-site"), ("origin", OWN)],
            false,
        ),
        // Following a link.
        (
            "GET",
            &[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
            true,
        ),
        (
            "HEAD",
            &[
                ("sec-fetch-site", "same-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
            ],
            true,
        ),
        (
            "GET",
            &[
                ("sec-fetch-site", "cross-site"),
                ("sec-fetch-mode", "navigate"),
                ("sec-fetch-dest", "document"),
                ("upgrade", "websocket"),
            ],
            false,
        ),
        // Nonsense counts as foreign.
        ("GET", &[("sec-fetch-site", "Same-Origin")], false),
        ("GET", &[("sec-fetch-site", "")], false),
        (
            "GET",
            &[("sec-fetch-site", "none"), ("sec-fetch-site", "cross-site")],
            false,
        ),
        // No Sec-Fetch-Site: safe methods pass, all else needs its own Origin.
        ("GET", &[], true),
        ("HEAD", &[], true),
        ("OPTIONS", &[], true),
        ("POST", &[], false),
        ("PUT", &[], false),
        ("DELETE", &[], false),
        ("CONNECT", &[], false),
        ("BREW", &[], false),
        ("GET", &[("upgrade", "websocket")], false),
        ("POST", &[("origin", OWN)], true),
        ("GET", &[("upgrade", "websocket"), ("origin", OWN)], true),
        (
            "GET",
            &[
                ("upgrade", "websocket"),
                ("origin", "https://DEV.localhost:9009"),
            ],
            true,
        ),
        ("POST", &[("origin", SIBLING)], false),
        ("GET", &[("origin", SIBLING)], false),
        ("POST", &[("origin", "null")], false),
        ("POST", &[("origin", "http://dev.localhost")], false),
        (
            "POST",
            &[("origin", "http://dev.localhost:9009.evil.org")],
            false,
        ),
        ("POST", &[("origin", "dev.localhost:9009")], false),
        ("POST", &[("origin", "")], false),
        ("POST", &[("origin", OWN), ("origin", SIBLING)], false),
    ];
    for (method, pairs, wanted) in table {
        let method: Method = method.parse().expect("a method");
        let counts = cookie_counts(&method, &headers(pairs), HOST_NAME);
        assert_eq!(counts, *wanted, "{method} {pairs:?}");
    }
}

#[test]
fn an_empty_host_matches_no_origin() {
    let headers = headers(&[("origin", "http://")]);
    assert!(!cookie_counts(&Method::POST, &headers, ""));
}
