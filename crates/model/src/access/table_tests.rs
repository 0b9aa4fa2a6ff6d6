//! The whole rule as one table: every action, for everybody, with and without scopes; and the same
//! table in the documentation.

use super::*;
use crate::ports::{ExtraPort, ExtraPorts};
use std::collections::BTreeMap;
use std::fmt;

/// Who asks, and whether it is about what is their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Who {
    column: &'static str,
    /// `None`: nobody, for without a verified token there is no [`Caller`] to ask with.
    role: Option<Role>,
    /// As their token names them. Who is an admin by list has other roles.
    roles: &'static str,
    own: bool,
}

const WHO: [Who; 9] = [
    who("not signed in", None, "", false),
    who("viewer, own", Some(Role::Viewer), "viewer", true),
    who("viewer, other's", Some(Role::Viewer), "viewer", false),
    who("user, own", Some(Role::User), "user", true),
    who("user, other's", Some(Role::User), "user", false),
    who("admin, own", Some(Role::Admin), "admin", true),
    who("admin, other's", Some(Role::Admin), "admin", false),
    who("listed admin, own", Some(Role::Admin), "user", true),
    who("listed admin, other's", Some(Role::Admin), "user", false),
];

const fn who(column: &'static str, role: Option<Role>, roles: &'static str, own: bool) -> Who {
    Who {
        column,
        role,
        roles,
        own,
    }
}

/// What becomes of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cell {
    Yes,
    No,
    Role,
    Bulk,
    Author,
    SignIn,
}
use Cell::{Author, Bulk, No, SignIn, Yes};

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Yes => "yes",
            No => "-",
            Self::Role => "role",
            Bulk => "bulk",
            Author => "author",
            SignIn => "sign in",
        })
    }
}

enum Object {
    Workspace(&'static str),
    /// An extra port that says this of itself, or nothing, of a workspace of that `visibility`.
    Port(Option<&'static str>, &'static str),
    Everyone,
    Nothing,
    /// With this `allowed-roles`.
    Template(Option<&'static str>),
    /// Written by somebody whom `--template-author` names, or not.
    Templates(bool),
}

struct Row {
    commands: &'static str,
    /// Where that is done over MCP.
    tools: &'static [&'static str],
    action: Action,
    object: Object,
    cells: [Cell; 9],
}

const fn row(commands: &'static str, action: Action, object: Object, cells: [Cell; 9]) -> Row {
    Row {
        commands,
        tools: &[],
        action,
        object,
        cells,
    }
}

impl Row {
    const fn by(self, tools: &'static [&'static str]) -> Self {
        Self { tools, ..self }
    }
}

const PRIVATE: Object = Object::Workspace("private");
const OWN_TO_SEE: [Cell; 9] = [SignIn, Yes, No, Yes, No, Yes, Yes, Yes, Yes];
const OWN_TO_RUN: [Cell; 9] = [SignIn, Cell::Role, No, Yes, No, Yes, Yes, Yes, Yes];
const OWN_TO_OPEN: [Cell; 9] = [SignIn, Yes, No, Yes, No, Yes, No, Yes, No];
const EVERYBODY: [Cell; 9] = [SignIn, Yes, Yes, Yes, Yes, Yes, Yes, Yes, Yes];
const FOR_ADMINS: [Cell; 9] = [SignIn, Bulk, Bulk, Bulk, Bulk, Yes, Yes, Yes, Yes];

const ROWS: &[Row] = &[
    row(
        "list, get and follow workspaces; their events, logs and operations",
        Action::Read,
        PRIVATE,
        OWN_TO_SEE,
    )
    .by(&[
        "list_workspaces",
        "get_workspace",
        "get_workspace_events",
        "get_workspace_logs",
        "list_operations",
        "get_operation",
        "wait_for_operation",
    ]),
    row(
        "get and wait for a bulk upgrade",
        Action::Read,
        Object::Everyone,
        [SignIn, No, No, No, No, Yes, Yes, Yes, Yes],
    )
    .by(&["get_operation", "wait_for_operation"]),
    row(
        "spawn (for another: by `userSub`)",
        Action::Spawn,
        PRIVATE,
        OWN_TO_RUN,
    )
    .by(&["spawn_workspace"]),
    row(
        "start, stop, delete, put off upgrades",
        Action::Manage,
        PRIVATE,
        OWN_TO_RUN,
    )
    .by(&["start_workspace", "stop_workspace", "delete_workspace"]),
    row(
        "upgrade, roll back; pause, resume, cancel, retry that",
        Action::Upgrade,
        PRIVATE,
        OWN_TO_RUN,
    )
    .by(&[
        "upgrade_workspace",
        "rollback_workspace",
        "pause_operation",
        "resume_operation",
        "cancel_operation",
        "retry_operation",
    ]),
    row(
        "upgrade all; pause, resume, approve, cancel, retry that",
        Action::UpgradeAll,
        Object::Nothing,
        FOR_ADMINS,
    )
    .by(&[
        "upgrade_all_workspaces",
        "pause_operation",
        "resume_operation",
        "cancel_operation",
        "retry_operation",
    ]),
    row(
        "list, get and use a template for everybody",
        Action::ReadTemplate,
        Object::Template(None),
        EVERYBODY,
    )
    .by(&["list_templates", "get_template"]),
    row(
        "the same with `allowed-roles: user`",
        Action::ReadTemplate,
        Object::Template(Some("user")),
        [SignIn, No, No, Yes, Yes, Yes, Yes, Yes, Yes],
    ),
    row(
        "the same with `allowed-roles` that are not understood",
        Action::ReadTemplate,
        Object::Template(Some("user,")),
        [SignIn, No, No, No, No, Yes, Yes, Yes, Yes],
    ),
    row(
        "make, change and delete templates",
        Action::WriteTemplates,
        Object::Templates(false),
        [SignIn, Author, Author, Author, Author, Yes, Yes, Yes, Yes],
    )
    .by(&["create_template", "update_template", "delete_template"]),
    row(
        "the same, named by `--template-author`",
        Action::WriteTemplates,
        Object::Templates(true),
        [SignIn, Author, Author, Yes, Yes, Yes, Yes, Yes, Yes],
    ),
    row("open pages, `private`", Action::Open, PRIVATE, OWN_TO_OPEN),
    row(
        "open pages, `visibility: authenticated`",
        Action::Open,
        Object::Workspace("authenticated"),
        EVERYBODY,
    ),
    row(
        "open pages, `visibility: user:SUB` of whoever asks",
        Action::Open,
        Object::Workspace("user:me"),
        EVERYBODY,
    ),
    row(
        "open pages, `visibility: role:user`",
        Action::Open,
        Object::Workspace("role:user"),
        [SignIn, Yes, No, Yes, Yes, Yes, No, Yes, Yes],
    ),
    row(
        "open pages, `visibility: role:admin`",
        Action::Open,
        Object::Workspace("role:admin"),
        [SignIn, Yes, No, Yes, No, Yes, Yes, Yes, No],
    ),
    row(
        "open pages, `visibility: admin`, no-crd's word",
        Action::Open,
        Object::Workspace("admin"),
        OWN_TO_SEE,
    ),
    row(
        "open pages, a `visibility` that is not understood",
        Action::Open,
        Object::Workspace("user:me,everyone"),
        OWN_TO_OPEN,
    ),
    row(
        "open an extra port, `visibility: authenticated`",
        Action::Open,
        Object::Port(None, "authenticated"),
        EVERYBODY,
    ),
    row(
        "the same, its own `private`",
        Action::Open,
        Object::Port(Some("private"), "authenticated"),
        OWN_TO_OPEN,
    ),
    row(
        "the same, its own not understood",
        Action::Open,
        Object::Port(Some("everyone"), "authenticated"),
        OWN_TO_OPEN,
    ),
    row(
        "open an extra port of its own `authenticated`, `visibility: private`",
        Action::Open,
        Object::Port(Some("authenticated"), "private"),
        EVERYBODY,
    ),
];

/// A new action has no row until somebody comes here.
fn number(action: Action) -> usize {
    match action {
        Action::Read => 0,
        Action::Spawn => 1,
        Action::Manage => 2,
        Action::Upgrade => 3,
        Action::UpgradeAll => 4,
        Action::ReadTemplate => 5,
        Action::Open => 6,
        Action::WriteTemplates => 7,
    }
}

fn caller(who: Who, scopes: Option<&[&str]>) -> Option<Caller> {
    Some(Caller {
        sub: "me".to_owned(),
        roles: vec![who.roles.to_owned()],
        role: who.role?,
        scopes: scopes.map(|all| all.iter().map(ToString::to_string).collect()),
    })
}

fn port(visibility: Option<&str>) -> ExtraPort {
    let own = visibility.map(|text| ("nogoo9/api.web.visibility".to_owned(), text.to_owned()));
    let mut said = BTreeMap::from([("nogoo9/api.web.port".to_owned(), "80".to_owned())]);
    said.extend(own);
    ExtraPorts::parse(&said).named("web").unwrap().clone()
}

/// What the rule says; `Err`: the scope that is lacking.
fn verdict(who: Who, row: &Row, scopes: Option<&[&str]>) -> Result<Cell, &'static str> {
    let Some(caller) = caller(who, scopes) else {
        return Ok(SignIn);
    };
    let visibility = match row.object {
        Object::Workspace(text) => Visibility::parse(Some(text)),
        Object::Port(own, workspace) => port(own)
            .visibility(&Visibility::parse(Some(workspace)))
            .clone(),
        _ => Visibility::Private,
    };
    let allowed_roles = match row.object {
        Object::Template(text) => AllowedRoles::parse(text),
        _ => AllowedRoles::Everyone,
    };
    let named = match row.object {
        Object::Templates(true) => "me",
        _ => "other",
    };
    let authors = Authors::parse(&[named.to_owned()]).unwrap();
    let target = match row.object {
        Object::Workspace(_) | Object::Port(..) => Target::Workspace {
            owner: if who.own { "me" } else { "other" },
            visibility: &visibility,
        },
        Object::Everyone => Target::Everyone,
        Object::Nothing => Target::Nothing,
        Object::Template(_) => Target::Template {
            allowed_roles: &allowed_roles,
        },
        Object::Templates(_) => Target::Templates { authors: &authors },
    };
    match may(&caller, row.action, target) {
        Ok(()) => Ok(Yes),
        Err(Denied::AccessDenied) => Ok(No),
        Err(Denied::UpgradeAll) => Ok(Bulk),
        Err(Denied::WriteTemplates) => Ok(Author),
        Err(Denied::Role { .. }) => Ok(Cell::Role),
        Err(Denied::Scope { needed }) => Err(needed),
    }
}

#[test]
fn everybody_may_what_the_table_says_whatever_the_scopes() {
    let mut covered = BTreeSet::new();
    for row in ROWS {
        covered.insert(number(row.action));
        let needed = row.action.scope();
        assert!(SCOPES.contains(&needed));
        let others: Vec<&str> = SCOPES.into_iter().filter(|one| *one != needed).collect();
        for (who, cell) in WHO.into_iter().zip(row.cells) {
            let context = format!("{}: {}", who.column, row.commands);
            for present in [None, Some(&[needed][..]), Some(&SCOPES[..])] {
                assert_eq!(
                    verdict(who, row, present),
                    Ok(cell),
                    "{context}, {present:?}"
                );
            }
            let refused = match who.role {
                None => Ok(SignIn),
                Some(_) => Err(needed),
            };
            for absent in [&[][..], &others[..], &["nogoo9:*", "admin", ""][..]] {
                assert_eq!(
                    verdict(who, row, Some(absent)),
                    refused,
                    "{context}, {absent:?}"
                );
            }
        }
    }
    assert_eq!(covered, (0..8).collect(), "an action without a row");
}

/// The table as `docs/access.md` has it: what the rule says, not what is expected of it.
fn printed() -> String {
    let mut text = String::from(HEAD);
    text.push_str("\n| what | scope |");
    for who in WHO {
        text.push_str(&format!(" {} |", who.column));
    }
    text.push_str(&format!("\n|{}\n", "---|".repeat(WHO.len() + 2)));
    for row in ROWS {
        text.push_str(&format!("| {} | `{}` |", row.commands, row.action.scope()));
        for who in WHO {
            let cell = verdict(who, row, None).expect("without a scope rule none is lacking");
            text.push_str(&format!(" {cell} |"));
        }
        text.push('\n');
    }
    text.push_str(NOTES);
    text.push_str(
        "\n| what | tools | scope | present | absent | none claimed | `--scopes off` |\n",
    );
    text.push_str("|---|---|---|---|---|---|---|\n");
    for row in ROWS {
        let needed = row.action.scope();
        let others: Vec<&str> = SCOPES.into_iter().filter(|one| *one != needed).collect();
        let tools: Vec<String> = row.tools.iter().map(|tool| format!("`{tool}`")).collect();
        text.push_str(&format!(
            "| {} | {} | `{needed}` |",
            row.commands,
            tools.join(", ")
        ));
        for scopes in [Some(&[needed][..]), Some(&others[..]), Some(&[][..]), None] {
            text.push_str(&format!(" {} |", by_scope(row, scopes)));
        }
        text.push('\n');
    }
    text.push_str(TAIL);
    text
}

/// What these scopes make of a row, for everybody who is signed in.
fn by_scope(row: &Row, scopes: Option<&[&str]>) -> &'static str {
    let people = || WHO.into_iter().filter(|who| who.role.is_some());
    if people().all(|who| verdict(who, row, scopes).is_err()) {
        "scope"
    } else if people().all(|who| verdict(who, row, scopes) == verdict(who, row, None)) {
        "as above"
    } else {
        "it depends"
    }
}

const HEAD: &str = "# Who may do what

<!-- Printed by a test of crates/model/src/access.rs; edit that, then:
     NOGOO9_BLESS=1 cargo test -p nogoo9-model access -->

There is one rule, `access::may` in `crates/model`, which proxy and control share. This is it, as the
code has it.
";

const NOTES: &str = "
- **own**, **other's**: whether the workspace belongs to whoever asks, by the subject that their
  token names. An upgrade changes no owner.
- **listed admin**: an admin by `--admin-sub`, whose token names another role. Where `visibility` or
  `allowed-roles` name a role, the token's roles count.
- **-**: `Access Denied`, in the same words for what is another's and for what is not there; of a
  template: there is none.
- **role**: `Forbidden: this needs the role 'user'`.
- **bulk**: `Forbidden: Only admin users can upgrade all workspaces`.
- **author**: `Forbidden: Only admin users and template authors can change templates`. Of those that
  they may, authors change only templates that they may use.
- **sign in**: there is no caller without a verified token, so the rule is not even asked.

Being an admin opens nobody else's pages, unless their `visibility` says so.

An extra port is opened by its own `api.NAME.visibility`, and where it has none by the workspace's. In
path mode only owners open anything.

Whoever may not use a workspace's template any more keeps the workspace, starts, stops and rolls it
back. It is upgraded by an admin.

An id stays its first owner's until they delete the workspace, or an admin deletes it with `release`.

Everybody who is signed in asks for `get_capabilities`, sees and ends their own browser sessions, and
makes, lists and revokes their own access tokens. By an access token one only sees sessions, and asks.

## Scopes

The same rule by what the token claims. `scope` is
`Forbidden: the token lacks the scope '…'`, whatever the object and whoever asks.
";

const TAIL: &str = "
Browser sessions have no scopes and need none. Personal access tokens have theirs whatever
`--scopes` says; the flag is about the provider's bearer tokens. No scope implies another one.
";

#[test]
fn the_documentation_is_what_the_code_says() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/access.md");
    let printed = printed();
    if std::env::var_os("NOGOO9_BLESS").is_some() {
        std::fs::write(path, &printed).expect("docs/access.md is written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == printed,
        "docs/access.md is not what the rule says; run NOGOO9_BLESS=1 cargo test -p nogoo9-model access"
    );
}
