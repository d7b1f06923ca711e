use serde_json::json;

use super::*;
use crate::test_values::{identical_nodes, index, machine};

#[test]
fn no_warning_if_some_node_offers_a_model() {
    let index = index([
        identical_nodes("new", 2, "Intel", &["Icelake-Server"]),
        identical_nodes("odd", 1, "AMD", &["EPYC"]),
    ]);
    let found = prospects(&index, &Policy::default(), &machine(json!({})));
    assert_eq!((found.nodes, found.without_model), (3, 1));
    assert_eq!(found.warning(), None);
}

#[test]
fn warning_if_no_node_offers_a_model() {
    let index = index([
        identical_nodes("intel", 1, "Intel", &["Icelake-Server"]),
        identical_nodes("amd", 1, "AMD", &["EPYC"]),
    ]);
    let found = prospects(&index, &Policy::default(), &machine(json!({})));
    assert_eq!((found.nodes, found.without_model), (2, 2));
    let warning = found.warning().unwrap();
    assert!(warning.contains("any of the 2 nodes"), "{warning}");
    assert!(warning.contains("no model has enough nodes"), "{warning}");
}

#[test]
fn warning_if_every_node_is_excluded() {
    let index = index([identical_nodes("intel", 3, "Intel", &["Icelake-Server"])]);
    let nowhere = machine(json!({ "nodeSelector": { "zone": "moon" } }));
    let found = prospects(&index, &Policy::default(), &nowhere);
    assert_eq!(found.nodes, 0);
    assert!(is_excluded_everywhere(&index, &Policy::default(), &nowhere));
    let anywhere = machine(json!({}));
    assert!(!is_excluded_everywhere(
        &index,
        &Policy::default(),
        &anywhere
    ));
    assert!(!is_excluded_everywhere(
        &Index::default(),
        &Policy::default(),
        &anywhere
    ));
    let warning = found.warning().unwrap();
    assert!(
        warning.contains("none of the 3 nodes can run the VM"),
        "{warning}"
    );
}

#[test]
fn no_warning_without_nodes() {
    let found = prospects(&Index::default(), &Policy::default(), &machine(json!({})));
    assert_eq!(found, Prospects::default());
    assert_eq!(found.warning(), None);
}
