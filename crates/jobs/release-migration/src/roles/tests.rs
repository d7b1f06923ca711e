use super::*;

#[test]
fn observer_writes_no_openshift_objects() {
    for rule in operator_rules() {
        let groups = rule.api_groups.unwrap_or_default();
        if groups.iter().any(|it| it.ends_with("openshift.io")) {
            assert_eq!(rule.verbs, READ);
        }
        let resources = rule.resources.unwrap_or_default();
        let hidden = ["secrets", "configmaps"];
        assert!(!resources.iter().any(|it| hidden.contains(&it.as_str())));
    }
    let [rule] = payload_rules().try_into().unwrap();
    assert_eq!(rule.resources.unwrap_or_default(), ["configmaps"]);
    assert_eq!(rule.verbs, READ);
}

#[test]
fn maintainer_writes_only_the_status() {
    let [rule] = owner_rules().try_into().unwrap();
    assert_eq!(
        rule.resources.unwrap_or_default(),
        ["clusterversions/status"]
    );
    assert_eq!(rule.resource_names.unwrap_or_default(), ["version"]);
    assert_eq!(rule.verbs, ["patch"]);
}
