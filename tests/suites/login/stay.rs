//! Sessions that go on, or do not: control asks the provider again, by the refresh tokens that it gives.
//! Ten minutes pass in the record of a session, which is all that tells control of them.

use super::provider::Make;
use super::stand::Stand;
use anyhow::{Context as _, bail};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt as _;
use kube::api::{ListParams, PostParams};
use nogoo9_model::keys;
use nogoo9_model::renew::{Answer, Answers, Held, PATH, Question, VERSION};
use serde_json::Value;
use std::sync::Arc;

/// Where the record is in its Secret.
const DATA: &str = "session.json";
/// More than what lies between two questions to the provider, in seconds.
const AGE: i64 = 11 * 60;
/// How long a token counts by itself from when the provider has vouched for it, in seconds.
const FRESH: i64 = 15 * 60;

pub(super) async fn stay(stand: Arc<Stand>) -> anyhow::Result<()> {
    let report = stand.browse("login-stay.mjs", &[]).await?;
    let mut token = text(&report["token"]);
    // The second time by what the provider gave in place of the first.
    for round in 1..=2 {
        let before = only(age(&stand, "bob").await?);
        let answer = renew(&stand, &token).await?;
        let after = only(
            records(&stand, "bob")
                .await?
                .into_iter()
                .map(read)
                .collect(),
        );
        let Answer::Renewed {
            token: next,
            fresh_until,
            ends,
        } = answer
        else {
            bail!("round {round}: {answer:?}")
        };
        assert_ne!(after["refresh"], before["refresh"], "round {round}");
        assert_ne!(after["checked"], before["checked"], "round {round}");
        let fresh = after["checked"].as_i64().map(|checked| checked + FRESH);
        assert_eq!(Some(fresh_until), fresh, "round {round}: vouched for anew");
        assert_eq!(after["ends"].as_i64(), Some(ends), "round {round}");
        assert_eq!(after["ends"], before["ends"], "round {round}");
        token = next;
    }
    Ok(())
}

/// What becomes of a session of alice's whose provider has been away: where it kept nothing, as the
/// foreign ones do, it does not know her any more, and she is out.
pub(super) async fn after_a_loss(stand: &Stand, token: &str) -> anyhow::Result<()> {
    age(stand, "alice").await?;
    let answer = renew(stand, token).await?;
    let as_it_must = match stand.make {
        Make::Dev => matches!(answer, Answer::Renewed { .. }),
        Make::OidcProvider | Make::Zitadel => matches!(answer, Answer::Refused),
    };
    assert!(as_it_must, "{answer:?}");
    Ok(())
}

/// Lets the provider's last word on somebody's sessions be too old; returns their records.
async fn age(stand: &Stand, sub: &str) -> anyhow::Result<Vec<Value>> {
    let api = stand.site.cluster().await?.secrets_api();
    let mut aged = Vec::new();
    for mut secret in records(stand, sub).await? {
        let mut record = read(secret.clone());
        let checked = record["checked"].as_i64().context("checked")?;
        record["checked"] = (checked - AGE).into();
        let data = secret.data.as_mut().context("data")?;
        data.insert(DATA.to_owned(), ByteString(serde_json::to_vec(&record)?));
        api.replace(&secret.name_any(), &PostParams::default(), &secret)
            .await?;
        aged.push(record);
    }
    Ok(aged)
}

/// Records of somebody's sessions.
async fn records(stand: &Stand, sub: &str) -> anyhow::Result<Vec<Secret>> {
    let api = stand.site.cluster().await?.secrets_api();
    let params = ListParams::default().labels(&format!("{}={}", keys::KIND, keys::KIND_SESSION));
    let all = api.list(&params).await?;
    let theirs = |secret: &Secret| read(secret.clone())["sub"] == sub;
    Ok(all.items.into_iter().filter(theirs).collect())
}

fn read(secret: Secret) -> Value {
    let data = secret.data.unwrap_or_default();
    let record = data.get(DATA).map(|data| serde_json::from_slice(&data.0));
    record.and_then(Result::ok).unwrap_or_default()
}

/// The one that there is.
fn only(mut records: Vec<Value>) -> Value {
    assert_eq!(records.len(), 1, "sessions");
    records.remove(0)
}

/// Asks control about a session of the console as a proxy does.
async fn renew(stand: &Stand, token: &str) -> anyhow::Result<Answer> {
    let held = Held {
        host: stand.site.anonymous()?.console(),
        token: token.to_owned(),
    };
    let question = Question {
        version: VERSION,
        sessions: vec![held],
    };
    let request = reqwest::Client::new()
        .post(stand.control_url()?.join(PATH)?)
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&question)?);
    let answer = request.send().await?.error_for_status()?.bytes().await?;
    let answers: Answers = serde_json::from_slice(&answer)?;
    answers.answers.into_iter().next().context("no answer")
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
