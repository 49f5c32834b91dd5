//! Filters as data: what is decided, why, and what is refused.

use proptest::prelude::*;

use super::*;

fn check(filter: Value, data: Value, starts: bool, reason: &str) {
    let decision = Filter::parse(&filter).unwrap().decide(&data);
    assert_eq!((decision.starts, decision.reason.as_str()), (starts, reason), "{filter} with {data}");
}

/// Each mistake is begun by its text.
fn check_mistakes(filter: Value, wanted: &[&str]) {
    let mistakes = Filter::parse(&filter).unwrap_err();
    assert_eq!(mistakes.len(), wanted.len(), "{filter}: {mistakes:#?}");
    for (mistake, part) in mistakes.iter().zip(wanted) {
        assert!(mistake.contains(part), "{filter}: {mistake} should say {part}");
    }
}

fn order() -> Value {
    json!({
        "order": {"total": 12, "lines": [{"sku": "EU-1"}, {"sku": "US-2"}], "note": null, "at": "2025-03-01"},
        "status": "paid",
        "tags": ["new", 3],
        "allow": "yes",
        "odd key": 1.0
    })
}

#[test]
fn what_was_sent_has_a_key_or_none() {
    let check = |source: &str, wanted: Result<Option<&str>, &str>| {
        let found = Dedupe::parse(source).and_then(|dedupe| dedupe.key(&order()));
        match wanted {
            Ok(key) => assert_eq!(found, Ok(key.map(str::to_owned)), "{source}"),
            Err(part) => assert!(found.clone().is_err_and(|error| error.contains(part)), "{source}: {found:?}"),
        }
    };
    check("event.data.status", Ok(Some("paid")));
    check("event.data.order.total", Ok(Some("12")));
    check("event.data.status ~ '-' ~ event.data.order.total", Ok(Some("paid-12")));
    check("event.data.order.note", Ok(None));
    check("event.data.order.id", Ok(None));
    check("event.data.order", Err("a key is a text or a number"));
    check("'x' * 3", Err("`dedupe`"));
    check("input.order", Err("`dedupe` reads `event.data`, what was sent; it does not know `input.order`"));
    check("event.data.", Err(""));
    let long = Dedupe::parse("event.data").unwrap().key(&json!("x".repeat(MAX_KEY_BYTES + 1)));
    assert!(long.is_err_and(|error| error.contains("more than 255 bytes")));
}

#[test]
fn each_operator_says_what_it_found() {
    for (rule, starts, reason) in [
        (json!({"status": "paid"}), true, r#"`status` is "paid", which equals "paid""#),
        (json!({"status": "open"}), false, r#"`status` is "paid", which does not equal "open""#),
        (json!({"status": {"equals": "paid"}}), true, r#"`status` is "paid", which equals "paid""#),
        (json!({"status": {"not": "test"}}), true, r#"`status` is "paid", which does not equal "test""#),
        (json!({"status": {"not": "paid"}}), false, r#"`status` is "paid", which equals "paid""#),
        (json!({"status": {"in": ["paid", "sent"]}}), true, r#"`status` is "paid", which is one of ["paid", "sent"]"#),
        (json!({"status": {"in": []}}), false, r#"`status` is "paid", which is not one of []"#),
        (json!({"status": {"not": {"in": ["paid"]}}}), false, r#"`status` is "paid", which is one of ["paid"]"#),
        (json!({"status": {"contains": "ai"}}), true, r#"`status` is "paid", which contains "ai""#),
        (json!({"tags": {"contains": 3.0}}), true, r#"`tags` is ["new", 3], which contains 3.0"#),
        (json!({"order": {"contains": "total"}}), true, "contains \"total\""),
        (json!({"status": {"regex": "^p.*d$"}}), true, r#"`status` is "paid", which matches `^p.*d$`"#),
        (json!({"status": {"regex": "x"}}), false, r#"`status` is "paid", which does not match `x`"#),
        (json!({"order.total": {"greater": 100}}), false, "`order.total` is 12, which is not greater than 100"),
        (json!({"order.total": {"less": 12.5}}), true, "`order.total` is 12, which is less than 12.5"),
        (json!({"order.total": {"not": {"less": 12}}}), true, "`order.total` is 12, which is not less than 12"),
        (
            json!({"order.at": {"greater": "2025-01-01"}}),
            true,
            "`order.at` is \"2025-03-01\", which is greater than \"2025-01-01\"",
        ),
        (json!({"order.lines[-1].sku": "US-2"}), true, r#"`order.lines[-1].sku` is "US-2", which equals "US-2""#),
        (json!({"order.note": null}), true, "`order.note` is null, which equals null"),
        (json!({"['odd key']": 1}), true, "`['odd key']` is 1.0, which equals 1"),
        (json!({"['allow']": "yes"}), true, r#"`allow` is "yes", which equals "yes""#),
    ] {
        let decision = Filter::parse(&rule).unwrap().decide(&order());
        assert_eq!(decision.starts, starts, "{rule}: {}", decision.reason);
        assert!(decision.reason.contains(reason), "{rule}: {}", decision.reason);
    }
}

#[test]
fn what_cannot_be_judged_does_not_hold_either_way() {
    let missing = "`order.sum` is missing: `order` has total, lines, note, at";
    check(json!({"order.sum": 1}), order(), false, missing);
    check(json!({"order.sum": {"not": 1}}), order(), false, missing);
    check(json!({"x": 1}), json!([1]), false, "`x` is missing: what was sent is a list of 1");
    let types = r#"`status` is a text "paid", which cannot be compared with a number 3"#;
    check(json!({"status": {"greater": 3}}), order(), false, types);
    check(json!({"status": {"not": {"greater": 3}}}), order(), false, types);
    let text = "`order.total` is a number 12, which cannot be matched with `1`: that takes a text";
    check(json!({"order.total": {"not": {"regex": "1"}}}), order(), false, text);
    let search = "`order.total` is a number 12, which cannot be searched for a number 1";
    check(json!({"order.total": {"contains": 1}}), order(), false, search);
}

#[test]
fn all_rules_must_hold_and_deny_wins() {
    let data = order();
    check(Value::Null, data.clone(), true, "there is no filter");
    check(json!({}), data.clone(), true, "there is no filter");
    let two = json!({"status": "paid", "order.total": {"greater": 1, "less": 20}});
    check(two, data.clone(), true, r#"all 3 rules hold; `status` is "paid", which equals "paid""#);
    let second = json!({"status": "paid", "order.total": {"greater": 1, "less": 2}});
    check(second, data.clone(), false, "`order.total` is 12, which is not less than 2");
    let both = json!({"allow": {"status": "paid"}, "deny": [{"status": "open"}, {"order.total": 12}]});
    check(both, data.clone(), false, "`deny` refuses it: `order.total` is 12, which equals 12");
    let allowed = json!({"allow": [{"status": "open"}, {"status": "paid"}], "deny": {"status": "open"}});
    check(allowed, data.clone(), true, r#"`allow` lets it through: `status` is "paid", which equals "paid""#);
    let unlisted = json!({"allow": [{"status": "open"}]});
    let reason = r#"no entry of `allow` holds: `status` is "paid", which does not equal "open""#;
    check(unlisted, data.clone(), false, reason);
    check(json!({"deny": {"absent": 1}}), data, true, "no rule of `deny` holds");
}

#[test]
fn an_expression_reads_the_data() {
    let data = order();
    check(json!("event.data.order.total > 10"), data.clone(), true, "`event.data.order.total > 10` is true");
    let is_open = r#"event.data.status == "open""#;
    check(json!(is_open), data.clone(), false, r#"`event.data.status == "open"` is false"#);
    let decision = Filter::parse(&json!("event.data.sum > 10")).unwrap().decide(&data);
    assert!(!decision.starts && decision.reason.contains("has no field `sum`"), "{}", decision.reason);
    check_mistakes(json!("event.data.x >"), &["`filter`: "]);
    check_mistakes(json!("input.x == 1 and event.type == 2"), &["not know `input.x`", "not know `event.type`"]);
    check_mistakes(json!("1 + ".repeat(5_000)), &["more than 10000 characters"]);
}

#[test]
fn every_mistake_has_its_place_and_the_right_word() {
    check_mistakes(json!([1]), &["`filter`: a filter is a map of rules"]);
    check_mistakes(
        json!({"order.total": {"grater": 1, "in": 3}, "deny": [{"status": {"regx": "x"}}], "a..b": 1}),
        &[
            "`filter['order.total'].grater`: there is no such operator; did you mean `greater`?",
            "`filter['order.total'].in`: `in` takes a list",
            "`filter.deny[0].status.regx`: there is no such operator; did you mean `regex`?",
            "`filter['a..b']`: `a..b` has an empty part",
        ],
    );
    check_mistakes(json!({"a": {"startswith": 1}}), &["the operators are equals, not, contains, in, regex"]);
    check_mistakes(json!({"a": [1], "b": {}, "": 1}), &["`{ in: [a, b] }`", "needs an operator", "needs the field"]);
    check_mistakes(json!({"allow": [], "deny": {}}), &["leave it out", "an entry is a map of rules"]);
    check_mistakes(json!({"allow": {"deny": {"a": 1}}}), &["is written ['deny']"]);
    check_mistakes(json!({"a": {"not": {"not": 1}}, "b": {"not": {}}}), &["inside `not`", "one operator"]);
    check_mistakes(json!({"a": {"greater": true}}), &["takes a number"]);
    check_mistakes(json!({"a": {"regex": "("}, "b": {"regex": 1}}), &["unclosed group", "takes a text"]);
    check_mistakes(json!({"a": {"regex": "\\w{500}{500}"}}), &["is no pattern"]);
    check_mistakes(json!({"a": {"regex": "x".repeat(2_000)}}), &["more than 1000 characters"]);
    check_mistakes(json!({"a": {"in": vec![1; 1_001]}}), &["more than 1000 values"]);
    let many: serde_json::Map<String, Value> = (0..300).map(|n| (format!("f{n}"), json!(n))).collect();
    check_mistakes(Value::Object(many), &["more than 200 rules"]);
    let wrong: serde_json::Map<String, Value> = (0..300).map(|n| (format!("f{n}"), json!([n]))).collect();
    assert_eq!(Filter::parse(&Value::Object(wrong)).unwrap_err().len(), 20);
}

#[test]
fn reasons_stay_short() {
    let long = "é".repeat(100_000);
    let filter = Filter::parse(&json!({"a": {"in": [long]}})).unwrap();
    let reason = filter.decide(&json!({"a": [long, long]})).reason;
    assert!(reason.chars().count() <= MAX_REASON_CHARS + 1, "{}", reason.len());
    let keys: serde_json::Map<String, Value> = (0..30).map(|n| (format!("{n}{long}"), json!(n))).collect();
    assert!(filter.decide(&Value::Object(keys)).reason.chars().count() <= MAX_REASON_CHARS + 1);
}

#[test]
fn fields_are_written_as_keys_that_read_the_same() {
    let key = |text: &str| Segment::Key(text.to_owned());
    for path in [vec![key("allow")], vec![key("deny"), key("0")], vec![key("a b"), key("")], vec![key("x")]] {
        assert_eq!(path::parse(&key_of(&path)).unwrap(), path);
        let rule = Value::Object([(key_of(&path), json!({"in": [1]}))].into_iter().collect());
        assert!(Filter::parse(&rule).is_ok(), "{rule}");
    }
}

/// Any JSON, with the words of filters among its keys so that all branches are met.
fn anything() -> impl Strategy<Value = Value> {
    let words = ["equals", "not", "contains", "in", "regex", "greater", "less", "allow", "deny", "a", "a.b[0]", "["];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~é]{0,12}".prop_map(Value::from),
        Just(json!("event.data.a == 1")),
    ];
    leaf.prop_recursive(5, 48, 6, move |inner| {
        let key = prop_oneof![4 => proptest::sample::select(words.to_vec()).prop_map(str::to_owned), 1 => ".{0,6}"];
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
            proptest::collection::vec((key, inner), 0..6).prop_map(|pairs| Value::Object(pairs.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any filter is refused with reasons or decides about any data with one.
    #[test]
    fn any_filter_meets_any_data(filter in anything(), data in anything()) {
        match Filter::parse(&filter) {
            Ok(filter) => prop_assert!(!filter.decide(&data).reason.is_empty()),
            Err(mistakes) => prop_assert!(!mistakes.is_empty() && mistakes.len() <= 20),
        }
    }
}
