use super::*;
use crate::test_values::{hosted, identical_nodes, node};

#[test]
fn matrix_counts_support_by_class_and_model() {
    let rome = identical_nodes("rome", 2, "AMD", &["EPYC", "EPYC-Rome"]);
    let rome = rome.into_iter().map(|node| hosted(node, "EPYC-Rome"));
    let naples = hosted(node("naples", "AMD", &["EPYC", "Novel"]), "EPYC");
    let index = Index::new(rome.chain([naples, node("intel", "Intel", &["Haswell"])]));
    let all = matrices(&index, &Policy::default());
    let vendors: Vec<String> = all
        .iter()
        .filter_map(|it| it.vendor.as_ref().map(ToString::to_string))
        .collect();
    assert_eq!(vendors, ["AMD", "Intel"]);
    let amd = &all[0];
    let columns: Vec<(&str, usize, bool)> = amd
        .models
        .iter()
        .map(|it| (it.model.as_str(), it.nodes, it.choosable))
        .collect();
    assert_eq!(
        columns,
        [
            ("EPYC-Rome", 2, true),
            ("EPYC", 3, true),
            ("Novel", 1, false)
        ]
    );
    assert_eq!(amd.models[0].year, Some(2019));
    let rows: Vec<(Option<&str>, &[usize])> = amd
        .rows
        .iter()
        .map(|it| (it.host_model.as_deref(), it.support.as_slice()))
        .collect();
    assert_eq!(
        rows,
        [
            (Some("EPYC-Rome"), &[2, 2, 0][..]),
            (Some("EPYC"), &[0, 1, 1]),
        ]
    );
    assert_eq!(amd.rows[0].nodes, ["rome0", "rome1"]);
}
