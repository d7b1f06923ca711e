use serde_json::json;

use super::*;
use crate::test_values::{alike, index, machine};

#[test]
fn a_machine_that_some_model_will_do_for_is_not_warned_about() {
    let index = index([
        alike("new", 2, "Intel", &["Icelake-Server"]),
        alike("odd", 1, "AMD", &["EPYC"]),
    ]);
    let found = prospects(&index, &Policy::default(), &machine(json!({})));
    assert_eq!((found.nodes, found.without_model), (3, 1));
    assert_eq!(found.warning(), None);
}

#[test]
fn a_machine_that_no_model_will_do_for_is_warned_about() {
    let index = index([
        alike("intel", 1, "Intel", &["Icelake-Server"]),
        alike("amd", 1, "AMD", &["EPYC"]),
    ]);
    let found = prospects(&index, &Policy::default(), &machine(json!({})));
    assert_eq!((found.nodes, found.without_model), (2, 2));
    let warning = found.warning().unwrap();
    assert!(warning.contains("any of the 2 nodes"), "{warning}");
    assert!(warning.contains("no model has enough nodes"), "{warning}");
}

#[test]
fn nothing_is_said_where_there_are_no_nodes() {
    let found = prospects(&Index::default(), &Policy::default(), &machine(json!({})));
    assert_eq!(found, Prospects::default());
    assert_eq!(found.warning(), None);
}
