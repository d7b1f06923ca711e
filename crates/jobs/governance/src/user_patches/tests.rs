use serde_json::json;

use super::revision;
use crate::record::Record;

/// A history: revisions with the revision each rolls back to.
fn history(revisions: &[(i64, Option<i64>)]) -> Vec<Record> {
    revisions
        .iter()
        .map(|(revision, to)| {
            serde_json::from_value(json!({
                "revision": revision, "planDigest": "sha256:0", "rollbackTo": to, "impact": "Low",
                "operatorVersion": "v1", "items": [], "started": "2026-01-01T00:00:00Z",
            }))
            .unwrap()
        })
        .collect()
}

#[test]
fn latest_revision_in_force_is_undone() {
    for (revisions, expected) in [
        (vec![], None),
        (vec![(1, None)], Some(1)),
        (vec![(1, None), (2, None)], Some(2)),
        (vec![(1, None), (2, None), (3, Some(2))], Some(1)),
        (vec![(1, None), (2, None), (3, Some(1))], None),
        (vec![(1, None), (2, Some(1)), (3, None)], Some(3)),
    ] {
        let chosen = revision(&history(&revisions), None, "x");
        assert_eq!(chosen.ok(), expected, "{revisions:?}");
    }
}

#[test]
fn unknown_revision_error_lists_known_ones() {
    let records = history(&[(3, None), (4, None)]);
    assert_eq!(revision(&records, Some(3), "x").unwrap(), 3);
    let error = revision(&records, Some(1), "x").unwrap_err().to_string();
    assert!(error.contains("no revision 1; there are: 3, 4"), "{error}");
    let error = revision(&[], Some(1), "x").unwrap_err().to_string();
    assert!(error.contains("there are none"), "{error}");
}
