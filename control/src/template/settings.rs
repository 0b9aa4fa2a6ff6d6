//! The settings of a template by their short names, without `nogoo9/`: what may be written through the
//! service, which refuses what a reader would only find out later.

use super::{Document, Template, TemplateError, Variables, parse};
use nogoo9_model::access::Visibility;
use nogoo9_model::keys;
use nogoo9_model::ports::ExtraPorts;
use std::collections::BTreeMap;

/// What a template may set, beside [`keys::PARAMETERS`], which is no text.
const KNOWN: [&str; 14] = [
    keys::ALLOWED_ROLES,
    keys::UPGRADE_MODE,
    keys::UPGRADE_DEADLINE,
    keys::SETTLE,
    keys::DRAIN_TIMEOUT,
    keys::WORKSPACE_PORT,
    keys::WORKSPACE_PATH,
    keys::PREVIEW_PATH,
    keys::WORKSPACE_TYPE,
    keys::WORKSPACE_AUTH_MODE,
    keys::WORKSPACE_PROTOCOL,
    keys::VISIBILITY,
    keys::STRIP_PREFIX,
    keys::AFFINITY,
];
/// Settings that know some words alone, and what there is without them, which is also what a reader
/// makes of any other word.
const WORDS: [(&str, &[&str], &str); 4] = [
    (keys::WORKSPACE_PROTOCOL, &["h2c"], "for HTTP/1.1"),
    (
        keys::AFFINITY,
        &["session"],
        "to send all new requests to the new pod",
    ),
    (
        keys::STRIP_PREFIX,
        &["true", "false"],
        "to take the prefix off",
    ),
    (
        keys::WORKSPACE_AUTH_MODE,
        &["no-auth"],
        "to tell the workspace who is calling",
    ),
];
/// What an extra port may set: `api.NAME.` and one of these.
const OF_PORTS: [&str; 3] = ["port", "path", "visibility"];

/// The annotations of these settings.
///
/// # Errors
/// The first one that there is not, and which there are.
pub fn declared(settings: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, String> {
    let mut annotations = BTreeMap::new();
    for (name, value) in settings {
        let key = format!("{}{name}", keys::PREFIX);
        if !is_known(&key) {
            let name: String = name.chars().take(60).collect();
            let known: Vec<&str> = KNOWN.iter().filter_map(|key| short(key)).collect();
            return Err(format!(
                "there is no '{name}'; there are {}, and api.NAME.port, .path and .visibility",
                known.join(", ")
            ));
        }
        annotations.insert(key, value.clone());
    }
    Ok(annotations)
}

/// What is written of the settings, by short name.
#[must_use]
pub fn shown(declared: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let known = declared.iter().filter(|(key, _)| is_known(key));
    known
        .filter_map(|(key, value)| Some((short(key)?.to_owned(), value.clone())))
        .collect()
}

/// Whether these settings, and these alone, are replaced when settings are.
#[must_use]
pub fn is_known(key: &str) -> bool {
    let of_port = || {
        let (name, what) = short(key)?.strip_prefix("api.")?.rsplit_once('.')?;
        Some(!name.is_empty() && OF_PORTS.contains(&what))
    };
    KNOWN.contains(&key) || of_port().unwrap_or(false)
}

fn short(key: &str) -> Option<&str> {
    key.strip_prefix(keys::PREFIX)
}

/// What is wrong with a template that somebody is about to write, beyond what every reader refuses:
/// whom it is for, and who may open its workspaces' pages, must be understood.
///
/// # Errors
/// The argument, and what to do.
pub fn check(document: &Document) -> Result<Template, (&'static str, String)> {
    let template = parse(document).map_err(|error| match error {
        TemplateError::Broken { problem, .. } => (argument(&problem), problem),
        other => ("spec", other.to_string()),
    })?;
    if let Some(problem) = template.settings.allowed_roles.problem() {
        return Err(("settings", problem));
    }
    for (key, value) in &template.declared {
        let visibility = *key == keys::VISIBILITY || key.ends_with(".visibility");
        if visibility && let Visibility::Unclear(said) = Visibility::parse(Some(value)) {
            return Err((
                "settings",
                format!(
                    "annotation {key} is '{said}'; use private, authenticated, or a list of user:SUB and role:ROLE"
                ),
            ));
        }
    }
    for (key, words, without) in WORDS {
        if let Some(value) = template.declared.get(key)
            && !words.contains(&value.as_str())
        {
            let words = words.join(" or ");
            return Err((
                "settings",
                format!("annotation {key} is '{value}'; use {words}, or leave it out {without}"),
            ));
        }
    }
    match ports(&template.annotations).problems().next() {
        Some(problem) => Err(("settings", problem.to_owned())),
        None => Ok(template),
    }
}

/// The extra ports as some workspace of the template has them.
fn ports(annotations: &BTreeMap<String, String>) -> ExtraPorts {
    let some = Variables {
        user: "u",
        workspace_id: "i",
        workspace: "w",
    };
    let rendered = annotations.iter().map(|(key, value)| {
        let value = some.text(value).unwrap_or_else(|_| value.clone());
        (key.clone(), value)
    });
    ExtraPorts::parse(&rendered.collect())
}

/// Which argument a reader's complaint is about.
fn argument(problem: &str) -> &'static str {
    if problem.starts_with("data.claims") {
        "claims"
    } else if problem.starts_with(&format!("annotation {}", keys::PARAMETERS)) {
        "parameters"
    } else if problem.starts_with("annotation") {
        "settings"
    } else {
        "spec"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = pairs
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        owned.collect()
    }

    #[test]
    fn settings_have_short_names() {
        let settings = map(&[
            ("workspace-port", "8080"),
            ("allowed-roles", "data"),
            ("api.web.port", "9000"),
            ("api.a.b.visibility", "private"),
        ]);
        let annotations = declared(&settings).unwrap();
        assert_eq!(annotations["nogoo9/workspace-port"], "8080");
        assert_eq!(shown(&annotations), settings);
        for wrong in [
            "port",
            "nogoo9/settle",
            "user-sub",
            "template-ref",
            "parameters",
            "pod-template",
            "api.web.owner",
            "api..port",
            "api.port",
            "",
        ] {
            let problem = declared(&map(&[(wrong, "x")])).unwrap_err();
            assert!(problem.contains("workspace-port"), "{wrong}: {problem}");
        }
        let others = map(&[("kubectl.kubernetes.io/last-applied-configuration", "{}")]);
        assert!(shown(&others).is_empty());
    }

    #[test]
    fn what_a_reader_would_only_find_later_is_refused() {
        let document = |annotations: &[(&str, &str)], spec: &str| Document {
            name: "sample".into(),
            annotations: map(annotations),
            data: map(&[("spec", spec)]),
        };
        let good = r#"{"containers": [{"name": "m", "image": "i"}]}"#;
        assert!(check(&document(&[], good)).is_ok());
        assert!(check(&document(&[(keys::VISIBILITY, "user:${{user}}")], good)).is_ok());
        for (key, word) in [
            (keys::WORKSPACE_PROTOCOL, "h2c"),
            (keys::AFFINITY, "session"),
            (keys::STRIP_PREFIX, "true"),
            (keys::STRIP_PREFIX, "false"),
            (keys::WORKSPACE_AUTH_MODE, "no-auth"),
        ] {
            assert!(
                check(&document(&[(key, word)], good)).is_ok(),
                "{key}: {word}"
            );
        }
        let ports = [
            ("nogoo9/api.web.port", "8080"),
            ("nogoo9/api.web.path", "/of/${{workspace_id}}"),
            ("nogoo9/api.web.visibility", "user:${{user}}"),
        ];
        assert!(check(&document(&ports, good)).is_ok());
        for (annotations, spec, argument, says) in [
            (&[][..], "{}", "spec", "containers"),
            (&[(keys::SETTLE, "5s")], good, "settings", "seconds"),
            (&[(keys::PARAMETERS, "7")], good, "parameters", "parameters"),
            (&[(keys::ALLOWED_ROLES, "a,")], good, "settings", "roles"),
            (
                &[(keys::VISIBILITY, "everyone")],
                good,
                "settings",
                "user:SUB",
            ),
            (
                &[(keys::WORKSPACE_PROTOCOL, "http2")],
                good,
                "settings",
                "use h2c",
            ),
            (
                &[(keys::AFFINITY, "cookie")],
                good,
                "settings",
                "use session, or leave it out",
            ),
            (&[(keys::AFFINITY, "")], good, "settings", "use session"),
            (
                &[(keys::STRIP_PREFIX, "no")],
                good,
                "settings",
                "use true or false, or leave it out",
            ),
            (
                &[(keys::WORKSPACE_AUTH_MODE, "none")],
                good,
                "settings",
                "use no-auth, or leave it out",
            ),
            (
                &[("nogoo9/api.web.visibility", "all")],
                good,
                "settings",
                "api.web",
            ),
            (
                &[("nogoo9/api.web.port", "0")],
                good,
                "settings",
                "api.web.port is '0'",
            ),
            (
                &[("nogoo9/api.web.path", "/w")],
                good,
                "settings",
                "api.web.port is missing",
            ),
            (
                &[
                    ("nogoo9/api.web.port", "80"),
                    ("nogoo9/api.web.path", "/.nogoo9"),
                ],
                good,
                "settings",
                "nogoo9's own",
            ),
            (
                &[("nogoo9/api.Web.port", "80")],
                good,
                "settings",
                "'Web' cannot be used as a port name",
            ),
        ] {
            let (found, problem) = check(&document(annotations, spec)).unwrap_err();
            assert_eq!(found, argument, "{problem}");
            assert!(problem.contains(says), "{problem}");
        }
    }
}
