use serde_json::json;

use super::*;

fn entry(digest: &str, format: &str) -> Entry {
    Entry {
        digest: digest.to_owned(),
        name: format!("fedora-{digest}"),
        format: format.to_owned(),
        since: "2026-01-01T00:00:00Z".to_owned(),
        derived: false,
    }
}

fn source(text: &str) -> DataSource {
    serde_json::from_value(json!({
        "apiVersion": "cdi.kubevirt.io/v1beta1", "kind": "DataSource",
        "metadata": { "name": "a", "annotations": { HISTORY: text } }, "spec": { "source": {} },
    }))
    .unwrap()
}

#[test]
fn history_is_newest_first_and_bounded() {
    let mut entries = Vec::new();
    for digest in ["a", "b", "c", "d"] {
        entries = with(entries, entry(digest, "pvc"), 2);
    }
    entries = with(entries, entry("d", "snapshot"), 2);
    let known: Vec<_> = entries
        .iter()
        .map(|it| (it.digest.as_str(), it.format.as_str()))
        .collect();
    assert_eq!(known, [("d", "snapshot"), ("c", "pvc"), ("b", "pvc")]);
    assert_eq!(read(&source(&write(&entries))), entries);
    assert_eq!(back(&entries, 1).unwrap().digest, "c");
    assert_eq!(back(&entries, 2).unwrap().digest, "b");
    assert_eq!(back(&entries, 3), None);
    assert_eq!(back(&[], 1), None);
}

/// A second rollback does not return to the version that the first one left.
#[test]
fn versions_that_were_used_twice_count_once() {
    let entries = ["b", "c", "b", "a"].map(|digest| entry(digest, "pvc"));
    assert_eq!(back(&entries, 1).unwrap().digest, "c");
    assert_eq!(back(&entries, 2).unwrap().digest, "a");
}

#[test]
fn unreadable_history_is_empty() {
    assert_eq!(read(&source("{")), []);
    assert_eq!(read(&source("[1]")), []);
    assert_eq!(read(&source(&" ".repeat(MAX_ANNOTATION_BYTES + 1))), []);
}
