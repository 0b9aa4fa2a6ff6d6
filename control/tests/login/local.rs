//! The same against the provider of local mode, through its own sign-in form.

use crate::browser::{Browser, CONSOLE, config, path_of};
use nogoo9_identity::policy::ClaimPolicy;
use nogoo9_local::idp::{Client, Idp, IdpConfig, USERS};
use nogoo9_model::access::Role;
use nogoo9_model::renew::Answer;
use tokio_util::sync::CancellationToken;

#[tokio::test]
async fn everyone_signs_in_with_their_role() {
    let folder = tempfile::tempdir().expect("a folder");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
        .await
        .expect("a port");
    let issuer = format!("http://{}", listener.local_addr().expect("an address"));
    let idp = Idp::open(IdpConfig {
        data_dir: folder.path().to_owned(),
        issuer: issuer.clone(),
        clients: vec![Client {
            id: "nogoo9".to_owned(),
            redirect_uris: vec!["http://localhost:9009/auth/callback".to_owned()],
        }],
        audience: "http://localhost:9009/mcp".to_owned(),
    })
    .expect("a provider");
    let stop = CancellationToken::new();
    let server = tokio::spawn(idp.serve(listener, stop.clone()));
    let http = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none());
    let http = http.build().expect("a client");

    for user in USERS {
        let mut browser = Browser::with_policy(config(&issuer), ClaimPolicy::default()).await;
        browser.stop_the_clock();
        let away = browser.get(CONSOLE, "/auth/login?return=/here").await;
        let page = http
            .get(away.location())
            .send()
            .await
            .expect("a page")
            .text()
            .await;
        let page = page.expect("text");
        let sealed = page
            .split("name=\"request\" value=\"")
            .nth(1)
            .expect("the form");
        let sealed = sealed.split('"').next().expect("its value");
        let form = [("request", sealed), ("user", user.sub)];
        let answer = http
            .post(format!("{issuer}/sign-in"))
            .form(&form)
            .send()
            .await;
        let answer = answer.expect("an answer");
        let back = answer.headers()["location"].to_str().expect("ASCII");
        assert_eq!(
            browser.get(CONSOLE, &path_of(back)).await.location(),
            "/here"
        );
        let found = browser.session(CONSOLE).expect("a session");
        assert_eq!(found.caller.sub, user.sub);
        assert_eq!(found.caller.roles, user.roles);
        let wanted = match user.sub {
            "admin" => Role::Admin,
            "vera" => Role::Viewer,
            _ => Role::User,
        };
        assert_eq!(found.caller.role, wanted, "{}", user.sub);
        // It gives refresh tokens, and takes each once.
        for round in 1..=3 {
            browser.wait(600);
            let token = browser.token(CONSOLE);
            let answers = browser.renew(&[(CONSOLE, &token)]).await;
            let [
                Answer::Renewed {
                    token,
                    fresh_until,
                    ends,
                },
            ] = &answers[..]
            else {
                panic!("{} after {round}: {answers:?}", user.sub)
            };
            // A quarter of an hour from when the provider was asked, which was now.
            let fresh = fresh_until - browser.now();
            assert!((890..=900).contains(&fresh), "{fresh}");
            assert!(ends - browser.now() > 11 * 3600, "{ends}");
            let cookies = browser.cookies.get_mut(CONSOLE).expect("cookies");
            cookies.insert("nogoo9".to_owned(), token.clone());
            let found = browser.session(CONSOLE).expect("a session");
            assert_eq!(found.caller.roles, user.roles);
        }
        let own = [("sec-fetch-site", "same-origin")];
        let out = browser.send("POST", CONSOLE, "/auth/logout", &own).await;
        let answer = http.get(out.location()).send().await.expect("an answer");
        assert_eq!(answer.headers()["location"], "http://localhost:9009/");
    }
    stop.cancel();
    server.await.expect("no panic").expect("served");
}
