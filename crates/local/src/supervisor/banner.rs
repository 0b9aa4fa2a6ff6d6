//! What the terminal says once everything is ready.

use std::io::{IsTerminal as _, Write as _};

use super::{WORKSPACES_NAMESPACE, ready::Ready};
use crate::idp::USERS;

/// Prints where things are and how to go on.
pub(super) fn print(ready: &Ready, own_data_dir: bool) {
    let mut out = std::io::stdout().lock();
    let colour = out.is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // A closed terminal is no reason to stop.
    let _closed = out.write_all(text(ready, own_data_dir, colour).as_bytes());
    let _closed = out.flush();
}

fn text(ready: &Ready, own_data_dir: bool, colour: bool) -> String {
    let bold = |text: &str| {
        if colour {
            format!("\x1b[1m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    };
    let users: Vec<String> = USERS
        .iter()
        .map(|user| format!("{} ({})", user.sub, user.roles.join(", ")))
        .collect();
    let folder = if own_data_dir {
        format!(" --data-dir {}", ready.data_dir.display())
    } else {
        String::new()
    };
    // Ours has the namespace of the workspaces as its default; another may not.
    let namespace = if ready.kubeconfig.starts_with(&ready.data_dir) {
        String::new()
    } else {
        format!(" -n {WORKSPACES_NAMESPACE}")
    };
    let mut yours = String::new();
    for (part, command) in &ready.commands {
        yours += &format!(
            "\x20 {part} is yours to start:\n    {}\n\n",
            command.join(" ")
        );
    }
    format!(
        "\n{title}\n\n\
         \x20 Console     {url}\n\
         \x20 Workspaces  {workspaces}\n\
         \x20 MCP         {mcp}\n\
         \x20 Sign in as  {users}; no passwords\n\
         \x20 Token       nogoo9 token alice{folder}\n\
         \x20 kubectl     kubectl --kubeconfig {kubeconfig}{namespace} get pods -w\n\
         \x20 Logs        {logs}\n\n\
         {yours}\
         Ctrl-C stops everything.\n",
        title = bold("nogoo9 is ready"),
        url = bold(&ready.url),
        workspaces = ready.workspace_url,
        mcp = ready.mcp_url,
        users = users.join(", "),
        kubeconfig = ready.kubeconfig.display(),
        logs = ready.data_dir.join("logs").display(),
    )
}
