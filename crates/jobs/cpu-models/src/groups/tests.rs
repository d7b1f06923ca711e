use serde_json::json;

use super::*;
use crate::test_values::{hosted, identical_nodes, node};

#[test]
fn nodes_are_grouped_by_class() {
    let rome = identical_nodes("rome", 2, "AMD", &["EPYC", "EPYC-Rome", "Penryn"]);
    let rome = rome.into_iter().map(|node| hosted(node, "EPYC-Rome"));
    let naples = hosted(node("naples", "AMD", &["EPYC", "Novel"]), "EPYC");
    let index = Index::new(rome.chain([naples, node("bare", "Intel", &[])]));
    let groups = groups(&index, &Policy::default());
    let actual = groups.iter().map(|group| {
        let models = group.models.iter();
        let models = models.map(|model| (model.model.as_str(), model.nodes));
        (
            group.host_model.as_deref(),
            group.nodes.len(),
            models.collect::<Vec<_>>(),
        )
    });
    let actual: Vec<_> = actual.collect();
    assert_eq!(
        actual,
        [
            (Some("EPYC-Rome"), 2, vec![("EPYC-Rome", 2), ("EPYC", 3)]),
            (Some("EPYC"), 1, vec![("EPYC", 3)]),
            (None, 1, vec![]),
        ]
    );
    assert_eq!(groups[0].supported, 3);
    assert_eq!(groups[0].nodes, ["rome0", "rome1"]);
    assert_eq!(groups[0].architecture.as_deref(), Some("amd64"));
    assert_eq!(unknown_models(&index, &Policy::default()), ["Novel"]);
    let known = json!({ "models": [{ "name": "Novel", "launchYear": 2030 }] });
    let (known, _) = Policy::read(&serde_json::from_value(known).unwrap());
    assert_eq!(unknown_models(&index, &known), Vec::<String>::new());
}
