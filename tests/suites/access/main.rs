//! Who may see and do what, over every surface. What is another's and what is not there get one and
//! the same answer, to the byte.

mod attacks;
mod audit;
mod headers;
mod identical;
mod origins;
mod own;
mod personal;
mod sessions;
mod tokens;

use nogoo9_tests::{Options, Suite};
use std::process::ExitCode;

fn main() -> ExitCode {
    Suite::new(Options::default())
        .parallel(3)
        .scenario(
            "anothers_and_nobodys_are_one_at_the_edge",
            identical::at_the_edge,
        )
        .scenario("anothers_and_nobodys_are_one_in_json", identical::in_json)
        .scenario("anothers_and_nobodys_are_one_in_mcp", identical::in_mcp)
        .scenario(
            "a_stopped_one_cannot_be_told_apart_either",
            identical::while_stopped,
        )
        .scenario("what_is_done_leaves_its_records", audit::leaves_its_records)
        .scenario("lists_show_ones_own", own::lists_show_ones_own)
        .scenario("visibility_opens_pages_and_nothing_else", own::visibility)
        .scenario("tokens_that_do_not_count", tokens::that_do_not_count)
        .scenario("the_challenge_leads_to_the_issuer", tokens::challenge)
        .scenario("viewers_look_and_do_not_touch", tokens::viewers)
        .scenario("admin_listeners_want_their_token", tokens::admin_listeners)
        .scenario(
            "a_personal_token_opens_what_its_owner_may",
            personal::opens_what_its_owner_may,
        )
        .scenario("a_revoked_personal_token_is_out", personal::revoked_is_out)
        .scenario("identity_headers_cannot_be_spoofed", headers::identity)
        .scenario("credentials_never_reach_a_pod", headers::credentials)
        .scenario(
            "a_session_opens_ones_workspaces_only",
            origins::a_session_opens_ones_workspaces_only,
        )
        .scenario(
            "other_sites_cannot_use_a_session",
            origins::other_sites_cannot_use_a_session,
        )
        .scenario(
            "a_template_names_pages_that_may_call",
            origins::a_template_names_pages_that_may_call,
        )
        .scenario(
            "a_hand_over_is_for_one_browser_and_one_host",
            sessions::a_hand_over_is_for_one_browser_and_one_host,
        )
        .scenario(
            "signing_out_ends_the_console_session",
            sessions::signing_out,
        )
        .scenario(
            "a_login_link_of_an_attacker_signs_nobody_in",
            attacks::a_login_link_of_an_attacker,
        )
        .scenario(
            "returns_lead_nowhere_else",
            attacks::returns_lead_nowhere_else,
        )
        .scenario(
            "a_hand_over_code_is_used_once",
            attacks::a_hand_over_code_is_used_once,
        )
        .main()
}
