use serde_json::json;

use super::*;

#[test]
fn reporting_operators_are_counted() {
    let operator = |versions: &[&str]| {
        let versions: Vec<_> = versions
            .iter()
            .map(|name| json!({ "name": name, "version": "x" }))
            .collect();
        let object = json!({ "metadata": {}, "spec": {}, "status": { "versions": versions } });
        serde_json::from_value::<ClusterOperator>(object).unwrap()
    };
    let reporting = operator(&["operator", "operator-image"]);
    let operand_only = operator(&["operator", "coredns-image"]);
    let adoption = Adoption::of([
        ("mco", &reporting),
        ("dns", &operand_only),
        ("a", &reporting),
    ]);
    assert_eq!(adoption.reporting, ["a", "mco"]);
    assert_eq!(adoption.silent, ["dns"]);
    assert_eq!(
        adoption.to_string(),
        "2 of 3 operators report images; completion is only exact for these"
    );
    let all = Adoption::of([("mco", &reporting)]);
    assert_eq!(all.to_string(), "all 1 operators report images");
}
