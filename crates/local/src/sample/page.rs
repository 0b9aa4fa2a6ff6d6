//! The sample's page and its assets, embedded. All URLs in it are relative, so that it
//! works at the root of a host and below a path prefix alike.

use std::sync::Arc;

use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use maud::{DOCTYPE, Markup, html};

use super::Sample;

/// Scripts and sockets of this host only. xterm.js sets inline styles.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
                      img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'self'";

struct Asset {
    name: &'static str,
    content_type: &'static str,
    body: &'static str,
}

const ASSETS: [Asset; 6] = [
    Asset {
        name: "app.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("assets/app.css"),
    },
    Asset {
        name: "app.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("assets/app.js"),
    },
    Asset {
        name: "xterm.css",
        content_type: "text/css; charset=utf-8",
        body: include_str!("assets/xterm.css"),
    },
    Asset {
        name: "xterm.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("assets/xterm.js"),
    },
    Asset {
        name: "xterm-addon-fit.js",
        content_type: "text/javascript; charset=utf-8",
        body: include_str!("assets/xterm-addon-fit.js"),
    },
    Asset {
        name: "LICENSE-xterm.txt",
        content_type: "text/plain; charset=utf-8",
        body: include_str!("assets/LICENSE-xterm.txt"),
    },
];

/// The page. Never cached: a reload must show the version that now serves.
pub(super) async fn index(State(sample): State<Arc<Sample>>) -> Response {
    shown(markup(&sample))
}

/// The page of the second port.
pub(super) async fn docs(State(sample): State<Arc<Sample>>) -> Response {
    shown(explained(&sample))
}

fn shown(page: Markup) -> Response {
    let headers = [
        (header::CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        ),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (
            header::REFERRER_POLICY,
            HeaderValue::from_static("no-referrer"),
        ),
    ];
    (headers, page).into_response()
}

pub(super) async fn asset(Path(name): Path<String>) -> Response {
    match ASSETS.iter().find(|asset| asset.name == name) {
        Some(asset) => {
            let headers = [
                (header::CONTENT_TYPE, asset.content_type),
                (header::CACHE_CONTROL, "public, max-age=3600"),
                (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
            ];
            (headers, asset.body).into_response()
        }
        None => StatusCode::NOT_FOUND.into_response(),
    }
}

fn markup(sample: &Sample) -> Markup {
    let config = &sample.config;
    let title = if config.workspace.is_empty() {
        "Sample workspace"
    } else {
        &config.workspace
    };
    // The build's version in the address: a new build is never shadowed by a cached one.
    let of = |name: &str| format!("assets/{name}?v={}", env!("CARGO_PKG_VERSION"));
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) " · nogoo9 sample" }
                link rel="icon" href="data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' rx='4' fill='%232563eb'/%3E%3Cpath d='M4 5l3 3-3 3M8 11h4' stroke='white' stroke-width='1.6' fill='none' stroke-linecap='round'/%3E%3C/svg%3E";
                link rel="stylesheet" href=(of("xterm.css"));
                link rel="stylesheet" href=(of("app.css"));
                script src=(of("xterm.js")) defer {}
                script src=(of("xterm-addon-fit.js")) defer {}
                script src=(of("app.js")) defer {}
            }
            body {
                a.skip href="#upload" { "Skip the terminal" }
                header {
                    div.name {
                        h1 { (title) }
                        @if !config.message.is_empty() {
                            p #message { (config.message) }
                        }
                    }
                    dl.facts {
                        div { dt { "Version" } dd #version { (config.version) } }
                        div { dt { "Pod" } dd #pod { (config.pod) } }
                        div { dt { "Clock" } dd { time #clock { "–" } } }
                    }
                }
                p #notice role="status" hidden {}
                main {
                    section aria-labelledby="terminal-title" {
                        div.bar {
                            h2 #terminal-title { "Terminal" }
                            span #terminal-state.state data-state="connecting" role="status" { "connecting" }
                        }
                        div #terminal {}
                        p.hint { "Tab belongs to the shell; " kbd { "F6" } " leaves the terminal." }
                    }
                    @if config.data.is_some() {
                        section aria-labelledby="files-title" {
                            div.bar {
                                h2 #files-title { "Notes and files" }
                                span #notes-state.state role="status" {}
                            }
                            p.hint.above { "They are on this workspace's own volume, and outlive its pods and upgrades." }
                            form #notes {
                                label.skip for="notes-text" { "Notes" }
                                textarea #notes-text rows="5" maxlength="100000" placeholder="Write something down…" {}
                                button type="submit" { "Save notes" }
                            }
                            ul #files-list {}
                        }
                    }
                    section aria-labelledby="upload-title" {
                        div.bar { h2 #upload-title { "Upload" } }
                        form #upload {
                            label for="upload-file" { "File" }
                            input #upload-file name="file" type="file" required;
                            button type="submit" { "Upload and hash" }
                        }
                        progress #upload-progress max="1" value="0" hidden aria-label="Upload progress" {}
                        p.result { output #upload-result for="upload-file" {} }
                    }
                }
                footer { "A sample workspace of nogoo9. Terminal by xterm.js (" a href="assets/LICENSE-xterm.txt" { "licence" } ")." }
                noscript { p.noscript { "The terminal, the clock and the upload need JavaScript." } }
            }
        }
    }
}

/// What a path of the first port answers.
const ANSWERS: [(&str, &str); 9] = [
    ("/info", "who it is: pod, version, message"),
    ("/headers", "the request's headers as they arrived"),
    ("/events", "a clock, as a stream of events"),
    ("/upload", "the SHA-256 of what is posted"),
    ("/slow?ms=N", "an answer after N milliseconds"),
    ("/chunks?n=N&ms=M", "N lines, M milliseconds apart"),
    ("/redirect", "a redirect and a cookie"),
    ("/echo", "a WebSocket that sends back what it gets"),
    ("/shell", "a WebSocket with a shell"),
];

fn explained(sample: &Sample) -> Markup {
    let config = &sample.config;
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (config.workspace) " · what it answers" }
                link rel="stylesheet" href={ "assets/app.css?v=" (env!("CARGO_PKG_VERSION")) };
            }
            body {
                header {
                    div.name {
                        h1 { "What " (config.workspace) " answers" }
                        p { "This page is on another port of the same pod: an extra port of the workspace." }
                    }
                    dl.facts {
                        div { dt { "Version" } dd #version { (config.version) } }
                        div { dt { "Pod" } dd #pod { (config.pod) } }
                    }
                }
                main {
                    section {
                        dl.answers {
                            @for (path, answer) in ANSWERS {
                                dt { code { (path) } }
                                dd { (answer) }
                            }
                        }
                        p.hint { "Here are " a href="info" { "info" } " and " a href="headers" { "headers" } " of this port." }
                    }
                }
            }
        }
    }
}
