use super::*;
use nogoo9_model::access::AllowedRoles;

#[test]
fn every_kind_has_one_code_and_one_status() {
    let template = |error: fn(String, String) -> TemplateError| {
        ServiceError::from(error("sample".into(), "because".into()))
    };
    for (error, code, status, text) in [
        (
            Denied::AccessDenied.into(),
            "access_denied",
            403,
            "Access Denied",
        ),
        (
            Denied::UpgradeAll.into(),
            "forbidden",
            403,
            "Forbidden: Only admin users can upgrade all workspaces",
        ),
        (
            Denied::Role { needed: "user" }.into(),
            "forbidden",
            403,
            "'user'",
        ),
        (
            Denied::Scope {
                needed: "nogoo9:write",
            }
            .into(),
            "insufficient_scope",
            403,
            "nogoo9:write",
        ),
        (
            ServiceError::from(nogoo9_model::id::check_new("A").unwrap_err()),
            "invalid_argument",
            400,
            "id: 'A' cannot be used",
        ),
        (
            template(|name, _| TemplateError::NotFound { name }),
            "template_not_found",
            404,
            "'sample'",
        ),
        (
            template(|name, problem| TemplateError::Broken {
                name,
                problem,
                roles: AllowedRoles::Everyone,
            }),
            "template_broken",
            422,
            "'sample' cannot be used: because",
        ),
        (
            template(|name, reason| TemplateError::Unreadable { name, reason }),
            "unavailable",
            503,
            "cannot be read now",
        ),
        (
            Denied::WriteTemplates.into(),
            "forbidden",
            403,
            "Forbidden: Only admin users and template authors",
        ),
        (
            ServiceError::TemplateNotAllowed {
                name: "sample".into(),
            },
            "forbidden",
            403,
            "'sample' is for other roles",
        ),
        (
            ServiceError::TemplateInUse {
                name: "sample".into(),
                workspaces: 2,
            },
            "conflict",
            409,
            "2 workspaces are made from the template 'sample'; delete them",
        ),
        (
            ServiceError::NoLog("it waits".into()),
            "conflict",
            409,
            "there is no log: it waits",
        ),
        (
            ServiceError::IdTaken { id: "dev".into() },
            "id_taken",
            409,
            "'dev' is taken",
        ),
        (
            ServiceError::Deleting { id: "dev".into() },
            "conflict",
            409,
            "being deleted",
        ),
        (
            ServiceError::NotUpgraded(NotUpgraded::NotRunning),
            "conflict",
            409,
            "start it first",
        ),
        (
            ServiceError::TooLarge { size: 9, limit: 5 },
            "too_large",
            413,
            "9 bytes, more than 5",
        ),
        (
            ServiceError::Refused(
                Trouble::new("Forbidden", "exceeded quota: q"),
                "sample".into(),
            ),
            "refused",
            422,
            "Forbidden: exceeded quota: q",
        ),
        (
            ServiceError::TooManyBulks { running: 10 },
            "conflict",
            409,
            "10 upgrades of many workspaces",
        ),
        (
            ServiceError::TooManyWorkspaces {
                limit: Exceeded { have: 4, most: 3 },
                own: true,
            },
            "conflict",
            409,
            "per user (3) is reached: you have 4, counting stopped ones; delete one",
        ),
        (
            ServiceError::TooManyWorkspaces {
                limit: Exceeded { have: 3, most: 3 },
                own: false,
            },
            "conflict",
            409,
            "that user has 3,",
        ),
        (
            ServiceError::TooManyTokens { most: 20 },
            "conflict",
            409,
            "20 access tokens",
        ),
        (
            ServiceError::NotByToken,
            "forbidden",
            403,
            "never by an access token",
        ),
        (NotCancelled::TooLate.into(), "conflict", 409, "too late"),
        (
            NotResumed::CanaryUnderWay.into(),
            "conflict",
            409,
            "still under way",
        ),
        (
            ServiceError::NotPausable,
            "conflict",
            409,
            "cancel_operation",
        ),
        (
            ServiceError::NothingFailed,
            "conflict",
            409,
            "nothing has failed",
        ),
        (ServiceError::Contended, "unavailable", 503, "try again"),
        (
            ServiceError::Cluster {
                reason: "timed out".into(),
            },
            "unavailable",
            503,
            "timed out",
        ),
    ] {
        let body = error.body();
        assert_eq!(
            (body.code.as_str(), body.code.status().as_u16()),
            (code, status),
            "{error:?}"
        );
        assert!(body.message.contains(text), "{}", body.message);
        let json = serde_json::to_value(&body).unwrap();
        assert_eq!(json["code"], code);
        assert_eq!(json["retryable"], status == 503);
    }
}
