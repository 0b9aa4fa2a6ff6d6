use super::*;

#[test]
fn a_name_may_occur_once_an_object() {
    for good in [
        "null",
        "7",
        "-1.5e3",
        "\"x\"",
        "[]",
        "{}",
        r#"{"a":1,"b":1}"#,
        r#"[{"a":1},{"a":1}]"#,
        r#"{"a":{"a":{"a":[true,false,null,18446744073709551615]}}}"#,
        r#"{"a":1,"A":1,"a ":1,"":1}"#,
    ] {
        assert!(is_unambiguous(good.as_bytes()), "{good}");
    }
    for bad in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"a":3}"#,
        r#"{"a":1,"\u0061":1}"#,
        r#"{"":1,"":1}"#,
        r#"{"x":{"a":1,"a":2}}"#,
        r#"[[{"a":1,"a":2}]]"#,
    ] {
        assert!(!is_unambiguous(bad.as_bytes()), "{bad}");
    }
    for not_json in ["", "{", "{}{}", "nul", "{\"a\":1,}", "\u{feff}{}"] {
        assert!(!is_unambiguous(not_json.as_bytes()), "{not_json}");
    }
    assert!(!is_unambiguous(&[0xff]));
    assert!(
        !is_unambiguous("[".repeat(100_000).as_bytes()),
        "depth is bounded"
    );
}
