//! What is said of a workspace without pods, to whoever may open it.

use super::{Html, POLICY, Reply, Told, escape};
use crate::ask::Refusal;
use crate::gate::Asked;
use http::StatusCode;
use http::header::{CONTENT_SECURITY_POLICY, REFERRER_POLICY, RETRY_AFTER};
use nogoo9_model::absent::{Absent, Status};

impl Reply {
    /// The workspace has no pod. A person gets a page, with a button where that helps.
    #[must_use]
    pub fn absent(asked: &Asked, told: &Absent) -> Self {
        match told.status {
            _ if asked.html == Html::No => Self::away(asked.html, told),
            Status::Stopped => Self::stopped(asked, told),
            _ if !asked.html.may_reload() => Self::away(asked.html, told),
            _ => Self::waiting(&asked.id, &asked.status_path(), &Told::from(told)),
        }
    }

    /// The same, to a program, or to whoever has sent a form.
    #[must_use]
    pub fn away(html: Html, told: &Absent) -> Self {
        if html.is_page() {
            return Self::unavailable(html, &told.message);
        }
        let status = StatusCode::SERVICE_UNAVAILABLE;
        let reply = Self::error(status, told.status.as_str(), &told.message);
        match told.status {
            // Nothing changes by itself.
            Status::Stopped => reply,
            _ => reply.with(RETRY_AFTER.as_str(), "5"),
        }
    }

    /// A stopped workspace, and the way to start it.
    fn stopped(asked: &Asked, told: &Absent) -> Self {
        let button = if told.can_start {
            let action = escape(&asked.start_path());
            format!("<form method=\"post\" action=\"{action}\"><button>Start it</button></form>")
        } else {
            "<p>Whoever owns it can start it.</p>".to_owned()
        };
        let heading = format!("{} is stopped", escape(&asked.id));
        let message = escape(&told.message);
        let lost = match asked.html {
            Html::Form => {
                "<p>What you sent was not taken: once it runs, go back and try again.</p>"
            }
            Html::No | Html::Page => "",
        };
        let inner = format!("<h1>{heading}</h1><p>{message}</p>{lost}{button}");
        let page = Self::page(StatusCode::SERVICE_UNAVAILABLE, &heading, "", &inner);
        let policy = POLICY.replace("form-action 'none'", "form-action 'self'");
        page.with_other(CONTENT_SECURITY_POLICY.as_str(), policy)
            // With none at all, the form would come without its origin.
            .with(REFERRER_POLICY.as_str(), "same-origin")
    }

    /// A form came without a session that counts; `sign_in` leads to one.
    #[must_use]
    pub fn signed_out(sign_in: &str) -> Self {
        // Beside this page: from here, what was sent is one step back.
        let inner = format!(
            "<h1>You are not signed in</h1><p>What you sent was not taken.</p>\
             <p><a href=\"{}\" target=\"_blank\" rel=\"noopener\">Sign in</a>, then go back from \
             here and try again.</p>",
            escape(sign_in)
        );
        Self::page(StatusCode::UNAUTHORIZED, "Not signed in", "", &inner)
    }

    /// It was told to start: a person goes back to the page that was wanted.
    #[must_use]
    pub fn started(asked: &Asked, told: &Absent) -> Self {
        if asked.html.is_page() {
            return Self::redirect(StatusCode::SEE_OTHER, asked.back.clone());
        }
        Self::status(&Told::from(told))
    }

    /// Control refuses, in its own words.
    #[must_use]
    pub fn refused(html: Html, refusal: &Refusal) -> Self {
        if html.is_page() {
            let message = escape(&refusal.message);
            let inner = format!("<h1>That did not work</h1><p role=\"alert\">{message}</p>");
            return Self::page(refusal.status, "That did not work", "", &inner);
        }
        Self::error(refusal.status, &refusal.code, &refusal.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Wants;
    use crate::route::Mode;
    use nogoo9_identity::Verified;
    use nogoo9_model::access::{Caller, Role};
    use std::sync::Arc;

    fn asked(html: Html) -> Asked {
        Asked {
            id: "dev".to_owned(),
            port: None,
            path: "/a".to_owned(),
            caller: Arc::new(Verified {
                caller: Caller {
                    sub: "alice".to_owned(),
                    roles: Vec::new(),
                    role: Role::User,
                    scopes: None,
                },
                expires: 0,
                sid: None,
                fresh_until: None,
            }),
            mode: Mode::Path,
            host: "localhost".to_owned(),
            html,
            websocket: false,
            wants: Wants::Page,
            back: "/route/dev/a?b=\"<c>".to_owned(),
            theirs: true,
            opened: None,
        }
    }

    fn told(status: Status, can_start: bool) -> Absent {
        Absent {
            version: 1,
            status,
            message: "<Stopped>".to_owned(),
            can_start,
        }
    }

    fn text(reply: &Reply) -> String {
        String::from_utf8(reply.body.to_vec()).unwrap()
    }

    #[test]
    fn a_stopped_one_has_a_button_for_those_who_may() {
        let page = Reply::absent(&asked(Html::Page), &told(Status::Stopped, true));
        let shown = text(&page);
        assert!(
            shown.contains(
                "action=\"/route/dev/.nogoo9/start?return=/route/dev/a%3Fb%3D%22%3Cc%3E\""
            ),
            "{shown}"
        );
        assert!(shown.contains("&lt;Stopped&gt;") && !shown.contains("data-status"));
        let head = page.head().unwrap();
        let header = |name: &str| {
            let all: Vec<_> = head.headers.get_all(name).iter().collect();
            assert_eq!(all.len(), 1, "{name}");
            all[0].to_str().unwrap().to_owned()
        };
        assert!(header("content-security-policy").contains("form-action 'self'"));
        assert!(header("content-security-policy").contains("frame-ancestors 'none'"));
        assert_eq!(header("referrer-policy"), "same-origin");
        let viewer = text(&Reply::absent(
            &asked(Html::Page),
            &told(Status::Stopped, false),
        ));
        assert!(!viewer.contains("<form") && viewer.contains("Whoever owns it"));
    }

    #[test]
    fn only_what_changes_by_itself_is_followed() {
        for (status, followed) in [
            (Status::Starting, true),
            (Status::Stopping, true),
            (Status::Failing, true),
            (Status::Deleting, true),
            (Status::Other, true),
            (Status::Stopped, false),
        ] {
            let page = text(&Reply::absent(&asked(Html::Page), &told(status, true)));
            let polls = page.contains("data-status=\"/route/dev/.nogoo9/status\"");
            assert_eq!(polls, followed, "{status:?}");
            let program = Reply::absent(&asked(Html::No), &told(status, true));
            let again = program.headers.iter().any(|(name, _)| *name == RETRY_AFTER);
            assert_eq!(
                (program.status.as_u16(), again),
                (503, followed),
                "{status:?}"
            );
        }
    }
}
