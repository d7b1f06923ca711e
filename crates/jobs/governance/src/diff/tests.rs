//! Contents of diffs, and masking.

use machinery::json::decode_yaml;
use proptest::prelude::*;
use rstest::rstest;
use serde_json::json;

use super::*;
use crate::test_values::any_object;

fn descheduler(total: u32) -> Value {
    json!({
        "apiVersion": "operator.openshift.io/v1",
        "kind": "KubeDescheduler",
        "metadata": {"name": "cluster"},
        "spec": {
            "evictionLimits": {"total": total},
            "mode": "Automatic",
            "profiles": ["AffinityAndTaints", "LongLifecycle"],
        },
    })
}

#[test]
fn server_metadata_is_no_change() {
    let mut object = json!({
        "metadata": {
            "name": "x", "managedFields": [], "resourceVersion": "1", "generation": 2,
            "creationTimestamp": "2026-01-01T00:00:00Z", "uid": "u", "selfLink": "/x",
            "labels": {"a": "b"},
            "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "mine": "yes"},
        },
        "spec": {"generation": 1, "status": "kept"},
        "status": {"phase": "x"},
    });
    sanitize(&mut object);
    let expected = json!({
        "metadata": {"name": "x", "labels": {"a": "b"}, "annotations": {"mine": "yes"}},
        "spec": {"generation": 1, "status": "kept"},
    });
    assert_eq!(object, expected);
    sanitize(&mut object);
    assert_eq!(object, expected);
}

#[rstest]
#[case(json!({"kubectl.kubernetes.io/last-applied-configuration": "{}"}))]
#[case(json!({}))]
fn empty_annotations_are_removed(#[case] annotations: Value) {
    let mut object = json!({"metadata": {"name": "x", "annotations": annotations}});
    sanitize(&mut object);
    assert_eq!(object, json!({"metadata": {"name": "x"}}));
}

#[test]
fn update_shows_changes_in_context() {
    assert_eq!(
        unified(
            Some(&descheduler(5)),
            Some(&descheduler(9)),
            "cluster",
            "KubeDescheduler"
        ),
        "\
--- cluster (KubeDescheduler)
+++ cluster (KubeDescheduler)
@@ -4,7 +4,7 @@
   name: cluster
 spec:
   evictionLimits:
-    total: 5
+    total: 9
   mode: Automatic
   profiles:
   - AffinityAndTaints
"
    );
}

const LINES: [&str; 11] = [
    "apiVersion: operator.openshift.io/v1",
    "kind: KubeDescheduler",
    "metadata:",
    "  name: cluster",
    "spec:",
    "  evictionLimits:",
    "    total: 5",
    "  mode: Automatic",
    "  profiles:",
    "  - AffinityAndTaints",
    "  - LongLifecycle",
];

#[test]
fn creation_adds_every_line() {
    let body = format!("+{}\n", LINES.join("\n+"));
    assert_eq!(
        unified(None, Some(&descheduler(5)), "cluster", "KubeDescheduler"),
        format!("--- /dev/null\n+++ cluster (KubeDescheduler)\n@@ -0,0 +1,11 @@\n{body}")
    );
}

#[test]
fn deletion_removes_every_line() {
    let body = format!("-{}\n", LINES.join("\n-"));
    assert_eq!(
        unified(Some(&descheduler(5)), None, "cluster", "KubeDescheduler"),
        format!("--- cluster (KubeDescheduler)\n+++ /dev/null\n@@ -1,11 +0,0 @@\n{body}")
    );
}

#[test]
fn equal_objects_have_no_changes() {
    let mut other = descheduler(5);
    other["metadata"]["resourceVersion"] = json!("7");
    other["status"] = json!({"ready": true});
    other["spec"]["evictionLimits"]["total"] = json!(5.0);
    let diff = unified(
        Some(&descheduler(5)),
        Some(&other),
        "cluster",
        "KubeDescheduler",
    );
    assert_eq!(
        diff,
        "--- cluster (KubeDescheduler)\n+++ cluster (KubeDescheduler)\n(no changes)\n"
    );
    assert!(is_no_change(&diff));
}

#[rstest]
#[case("", true)]
#[case("--- a\n+++ a\n(no changes)", true)]
#[case("--- a\n+++ a\n", true)]
#[case("--- a\n+++ a\n@@ -1,2 +1,2 @@\n x\n y\n", true)]
#[case("--- a\n+++ a\n@@ -1 +1 @@\n-x\n", false)]
#[case("--- a\n+++ a\n@@ -1 +1 @@\n+x\n", false)]
#[case::text_of_an_object("--- a\n+++ a\n@@ -1 +1 @@\n+(no changes)\n", false)]
#[case::left_out("--- a\n+++ a\n+... left out here; `medley diff` shows it\n", false)]
#[case::a_removed_line_that_begins_with_dashes("--- a\n+++ a\n@@ -1 +0,0 @@\n--- x\n", false)]
fn no_change_is_recognised(#[case] diff: &str, #[case] expected: bool) {
    assert_eq!(is_no_change(diff), expected);
}

fn secret(data: &Value) -> Value {
    json!({
        "kind": "Secret",
        "metadata": {"name": "s", "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "hunter2",
        }},
        "data": data,
    })
}

#[test]
fn secret_data_is_masked() {
    let old = secret(&json!({"gone": "Z29uZQ==", "kept": "a2VwdA==", "changed": "b2xk"}));
    let new = secret(&json!({"come": "Y29tZQ==", "kept": "a2VwdA==", "changed": "bmV3"}));
    let diff = unified(Some(&old), Some(&new), "s", "Secret");
    assert_eq!(
        diff,
        "\
--- s (Secret)
+++ s (Secret)
@@ -1,6 +1,6 @@
 data:
-  changed: \"*** (before)\"
-  gone: \"***\"
+  changed: \"*** (after)\"
+  come: \"***\"
   kept: \"***\"
 kind: Secret
 metadata:
"
    );
}

#[rstest]
#[case(None, Some(json!({"a": "aGlkZGVu"})))]
#[case(Some(json!({"a": "aGlkZGVu"})), None)]
fn secret_data_is_masked_on_creation_and_deletion(
    #[case] old: Option<Value>,
    #[case] new: Option<Value>,
) {
    let (old, new) = (old.as_ref().map(secret), new.as_ref().map(secret));
    let diff = unified(old.as_ref(), new.as_ref(), "s", "Secret");
    assert!(diff.contains("***") && !diff.contains("aGlkZGVu"), "{diff}");
    let mut plain = new.or(old).unwrap();
    plain["stringData"] = json!({"b": "clear"});
    assert!(!unified(None, Some(&plain), "s", "Secret").contains("clear"));
}

#[test]
fn long_diff_is_truncated_with_a_note() {
    let script = "echo some line of a script\n".repeat(5000);
    let object = json!({"spec": {"script": script}});
    let all = whole(None, Some(&object), "x", "Thing");
    let diff = unified(None, Some(&object), "x", "Thing");
    assert!(all.len() > LIMIT && diff.len() <= LIMIT);
    let kept = diff.lines().count() - 1;
    let last = diff.lines().last().unwrap();
    assert_eq!(
        last,
        format!(
            "... {} more lines are left out here; `medley diff` shows all",
            all.lines().count() - kept
        )
    );
    assert!(all.starts_with(diff.strip_suffix(&format!("{last}\n")).unwrap()));
    assert!(!is_no_change(&diff));
}

#[test]
fn overlong_line_is_omitted() {
    let object = json!({"a": 1, "b": "x".repeat(2 * LIMIT), "c": 1});
    let diff = unified(None, Some(&object), "x", "Thing");
    assert!(diff.ends_with("+a: 1\n... 2 more lines are left out here; `medley diff` shows all\n"));
}

#[test]
fn yaml_is_formatted_like_kubectl() {
    let object = json!({
        "items": [{"name": "a", "args": ["x", "y"]}, "z", []],
        "script": "#!/bin/sh\nset -e\n",
        "long": "word ".repeat(40).trim_end(),
        "switch": "on",
        "number": "1",
        "empty": "",
        "map": {},
    });
    let long = format!("long: {}\n", "word ".repeat(40).trim_end());
    assert_eq!(
        yaml(&object),
        format!(
            "empty: \"\"\nitems:\n- args:\n  - x\n  - \"y\"\n  name: a\n- z\n- []\n{long}map: {{}}\n\
             number: \"1\"\nscript: |\n  #!/bin/sh\n  set -e\nswitch: \"on\"\n"
        )
    );
}

proptest! {
    #[test]
    fn yaml_round_trips(
        object in any_object(),
        key in "[ -~é\n\t]{0,12}",
        text in "[ -~é\r\n\t\u{85}\u{2028}]{0,40}",
    ) {
        let mut object = object;
        settle_numbers(&mut object);
        object["spec"][key] = Value::from(text.clone());
        object["list"] = json!([text, [text]]);
        let read = decode_yaml(yaml(&object).as_bytes());
        prop_assert_eq!(read.unwrap().value, object);
    }

    #[test]
    fn diff_is_empty_only_without_changes(a in any_object(), b in any_object()) {
        let diff = unified(Some(&a), Some(&b), "x", "Thing");
        prop_assert_eq!(is_no_change(&diff), machinery::apply::values_equal(&a, &b));
        prop_assert!(!is_no_change(&unified(None, Some(&b), "x", "Thing")));
    }
}

#[test]
fn omitted_diffs_still_count_as_changes() {
    let change = |text: &str| {
        let object = json!({"spec": {"text": text}});
        unified(None, Some(&object), "x", "Thing")
    };
    let large = format!(
        "--- /dev/null\n+++ x (Thing)\n@@ -0,0 +1 @@\n+{}\n",
        "x".repeat(TOTAL_LIMIT / 3)
    );
    let none = "--- a (Thing)\n+++ a (Thing)\n(no changes)\n";
    let mut diffs = vec![
        change("1"),
        large.clone(),
        large.clone(),
        large.clone(),
        none.to_owned(),
        change("2"),
    ];
    let before = diffs.clone();
    fit(&mut diffs);
    assert_eq!(diffs[..3], before[..3], "these fit");
    assert_eq!(
        diffs[3],
        "--- /dev/null\n+++ x (Thing)\n+... left out here; `medley diff` shows it\n"
    );
    assert!(!is_no_change(&diffs[3]));
    assert_eq!(diffs[4..], before[4..], "these fit, too");
    assert!(is_no_change(&diffs[4]));
    let all = diffs.clone();
    fit(&mut diffs);
    assert_eq!(diffs, all, "what fits is left alone");
}
