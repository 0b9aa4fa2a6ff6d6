//! Selector tables, and properties of the parser.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::apiserver::registry;

fn labels(selector: &str, labels: &Value) -> bool {
    Labels::parse(selector)
        .unwrap()
        .matches(&json!({"metadata": {"labels": labels}}))
}

#[test]
fn label_terms() {
    let pod = json!({"app": "web", "tier": "front", "n": "5", "empty": ""});
    for (selector, expected) in [
        ("", true),
        ("app", true),
        ("app=web", true),
        ("app==web", true),
        (" app = web , tier = front ", true),
        ("app=db", false),
        ("app=web,tier=back", false),
        ("app!=web", false),
        ("app!=db", true),
        ("missing!=db", true),
        ("missing", false),
        ("!missing", true),
        ("!app", false),
        ("app in (web, db)", true),
        ("app in (db)", false),
        ("app in (web),tier notin (back,middle)", true),
        ("missing notin (x)", true),
        ("missing in (x)", false),
        ("empty=", true),
        ("app=", false),
        ("n>4", true),
        ("n>5", false),
        ("n<6", true),
        ("app<6", false),
    ] {
        assert_eq!(labels(selector, &pod), expected, "{selector}");
    }
}

#[test]
fn malformed_label_selectors() {
    for selector in [
        "=x",
        "a b",
        "a in",
        "a in (x",
        "a within (x)",
        "a=b=c",
        "a=b c",
        "-a=b",
        "a/b/c=d",
        "a>x",
    ] {
        let failure = Labels::parse(selector).unwrap_err();
        assert_eq!(failure.code(), 400, "{selector}");
    }
}

fn fields(group: &str, plural: &str, selector: &str, object: &Value) -> Result<bool, u16> {
    let served = registry::find(group, "v1", plural).unwrap();
    Fields::parse(served, selector)
        .map(|f| f.matches(object))
        .map_err(|f| f.code())
}

#[test]
fn field_terms() {
    let pod = json!({
        "metadata": {"name": "p", "namespace": "a"},
        "spec": {"nodeName": "local"},
        "status": {"phase": "Running"},
    });
    for (selector, expected) in [
        ("", Ok(true)),
        ("metadata.name=p", Ok(true)),
        ("metadata.name==p,metadata.namespace=a", Ok(true)),
        ("metadata.name!=p", Ok(false)),
        ("spec.nodeName=local,status.phase!=Failed", Ok(true)),
        ("spec.nodeName=", Ok(false)),
        ("status.podIP=", Ok(true)),
        ("spec.unknown=x", Err(400)),
        ("metadata.name", Err(400)),
    ] {
        assert_eq!(fields("", "pods", selector, &pod), expected, "{selector}");
    }
}

#[test]
fn fields_of_other_kinds() {
    let event = json!({
        "involvedObject": {"name": "p,1", "uid": "u"}, "type": "Normal",
        "source": {"component": "kubelet"},
    });
    for (group, selector, expected) in [
        (
            "",
            "involvedObject.name=p\\,1,involvedObject.uid=u",
            Ok(true),
        ),
        ("", "source=kubelet,type!=Warning", Ok(true)),
        ("events.k8s.io", "regarding.uid=u", Ok(true)),
        ("events.k8s.io", "regarding.uid=v", Ok(false)),
    ] {
        assert_eq!(
            fields(group, "events", selector, &event),
            expected,
            "{selector}"
        );
    }
    let node = json!({"metadata": {"name": "n"}});
    assert_eq!(
        fields("", "nodes", "spec.unschedulable=false", &node),
        Ok(true)
    );
    assert_eq!(fields("", "nodes", "status.phase=x", &node), Err(400));
}

fn key() -> impl Strategy<Value = String> {
    "([a-z][a-z0-9.-]{0,8}[a-z0-9]/)?[A-Za-z0-9]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?"
        .prop_filter("a valid key", |key| validate::qualified_name(key).is_none())
        // `in` and `notin` stay keys in every position here; digits after < and > do not.
        .prop_map(|key| key)
}

fn value() -> impl Strategy<Value = String> {
    "([A-Za-z0-9]([A-Za-z0-9_.-]{0,8}[A-Za-z0-9])?)?"
}

fn values() -> impl Strategy<Value = Vec<String>> {
    prop::collection::btree_set(value(), 1..4).prop_map(|set| set.into_iter().collect())
}

fn terms() -> impl Strategy<Value = Vec<Term>> {
    let term = prop_oneof![
        key().prop_map(Term::Exists),
        key().prop_map(Term::Absent),
        (key(), values()).prop_map(|(k, v)| Term::In(k, v)),
        (key(), values()).prop_map(|(k, v)| Term::NotIn(k, v)),
        (key(), any::<i64>()).prop_map(|(k, n)| Term::Greater(k, n)),
        (key(), any::<i64>()).prop_map(|(k, n)| Term::Less(k, n)),
    ];
    prop::collection::vec(term, 0..5)
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(terms in terms()) {
        let selector = Labels(terms);
        let read = Labels::parse(&selector.to_string()).map_err(|f| TestCaseError::fail(format!("{f:?}")))?;
        prop_assert_eq!(read, selector);
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,60}") {
        match Labels::parse(&text) {
            // What was understood means the same when written out again.
            Ok(selector) => {
                let again = Labels::parse(&selector.to_string()).map_err(|f| TestCaseError::fail(format!("{f:?}")))?;
                prop_assert_eq!(again, selector);
            }
            Err(failure) => prop_assert_eq!(failure.code(), 400),
        }
    }
}
