use serde_json::json;

use super::*;
use crate::policy::Policy;
use crate::test_values::{alike, index, machine};

fn chosen(index: &Index, node: &str) -> String {
    let decision = decide(index, &Policy::default(), &machine(json!({})), node);
    decision.verdict.model().to_owned()
}

#[test]
fn mixed_generations_share_the_newest_model_that_enough_of_them_have() {
    let index = index([
        alike("old", 2, "Intel", &["Haswell-noTSX"]),
        alike("new", 2, "Intel", &["Haswell-noTSX", "Skylake-Server-IBRS"]),
        alike(
            "newest",
            1,
            "Intel",
            &["Haswell-noTSX", "Skylake-Server-IBRS", "Icelake-Server"],
        ),
    ]);
    assert_eq!(chosen(&index, "old0"), "Haswell-noTSX");
    assert_eq!(chosen(&index, "new0"), "Skylake-Server-IBRS");
    assert_eq!(chosen(&index, "newest0"), "Skylake-Server-IBRS");
    assert_eq!(chosen(&index, "gone"), "host-model");
}
