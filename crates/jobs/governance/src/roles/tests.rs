use rstest::rstest;

use super::*;

/// Whether rules allow a verb on a resource of a group, for any name.
fn allow(rules: &[PolicyRule], verb: &str, group: &str, resource: &str) -> bool {
    let has = |list: &Option<Vec<String>>, wanted: &str| {
        list.iter().flatten().any(|one| one == wanted || one == "*")
    };
    rules.iter().any(|rule| {
        has(&rule.api_groups, group)
            && has(&rule.resources, resource)
            && rule.verbs.iter().any(|one| one == verb || one == "*")
    })
}

fn everything() -> Registry {
    Registry::standard(&["node-health-remediation"]).unwrap()
}

#[test]
fn operator_rules_match_declared_kinds() {
    let registry = everything();
    let rules = operator_rules(&registry);
    let uses = uses_of(&registry);
    for &(group, plural, _) in &uses {
        let same = uses.iter().filter(|one| (one.0, one.1) == (group, plural));
        let most = same.map(|one| one.2).max().unwrap_or_default();
        for (verb, needs) in [
            ("get", 0),
            ("list", 0),
            ("watch", 0),
            ("create", 1),
            ("patch", 1),
            ("delete", 2),
        ] {
            let may = allow(&rules, verb, group, plural);
            assert_eq!(may, most >= needs, "{verb} {plural}");
        }
    }
}

/// Group, plural, and declared access: 0 read, 1 apply, 2 delete.
fn uses_of(registry: &Registry) -> Vec<(&'static str, &'static str, u8)> {
    let profiles = registry.iter();
    profiles
        .flat_map(|profile| profile.uses())
        .map(|uses| {
            let most = match uses.access {
                Access::Read => 0,
                Access::Apply => 1,
                Access::ApplyAndDelete => 2,
            };
            (uses.of.group, uses.plural, most)
        })
        .collect()
}

#[test]
fn rules_have_no_wildcards() {
    let mut rules = operator_rules(&everything());
    rules.extend(operator_namespace_rules());
    rules.extend(webhook_rules());
    for one in &rules {
        for value in one
            .api_groups
            .iter()
            .chain(&one.resources)
            .flatten()
            .chain(&one.verbs)
        {
            assert!(!value.contains('*'), "{one:?}");
            // One Secret, by name: URLs and keys of the receivers of notifications.
            let receivers = only(notifications::SECRET, rule("", &["secrets"], &["get"]));
            assert!(value != "secrets" || *one == receivers, "{one:?}");
            assert_ne!(value, APPROVE_VERB, "{one:?}");
        }
    }
    // Targets are applied, never replaced.
    for (group, plural, _) in uses_of(&everything()) {
        assert!(!allow(&rules, "update", group, plural), "{plural}");
    }
}

#[rstest]
#[case("update", false)]
#[case("patch", false)]
#[case("delete", false)]
#[case("approve", false)]
#[case("create", true)]
#[case("watch", true)]
fn operator_has_only_its_own_verbs(#[case] verb: &str, #[case] may: bool) {
    let rules = operator_rules(&everything());
    assert_eq!(allow(&rules, verb, GROUP, PLURAL), may);
    assert!(allow(&rules, "update", GROUP, "virtplatformconfigs/status"));
}

#[rstest]
#[case(0, "list", true)]
#[case(0, "patch", false)]
#[case(0, "approve", false)]
#[case(1, "patch", true)]
#[case(1, "delete", true)]
#[case(1, "approve", false)]
#[case(2, "watch", true)]
#[case(2, "patch", true)]
#[case(2, "approve", true)]
fn user_roles_grant_their_verbs(#[case] role: usize, #[case] verb: &str, #[case] may: bool) {
    let roles = user_roles();
    let rules = roles[role].rules.as_deref().unwrap_or_default();
    assert_eq!(allow(rules, verb, GROUP, PLURAL), may);
    // None of them may write the status.
    assert!(!allow(rules, "patch", GROUP, "virtplatformconfigs/status"));
}

#[test]
fn metrics_reader_grants_nothing_else() {
    let role = metrics_reader();
    let rules = role.rules.unwrap();
    assert_eq!(rules.len(), 1);
    assert_eq!(
        rules[0].non_resource_urls,
        Some(vec!["/metrics".to_owned()])
    );
    assert_eq!(rules[0].verbs, ["get"]);
    assert_eq!(rules[0].resources, None);
}

#[rstest]
#[case("create", false)]
#[case("delete", false)]
// Every NodeHealthCheck is paused while nodes restart, including those of other managers.
#[case("patch", true)]
#[case("watch", true)]
fn disabled_profile_needs_no_rules(#[case] verb: &str, #[case] may: bool) {
    let off = operator_rules(&Registry::standard::<&str>(&[]).unwrap());
    let (group, plural) = ("remediation.medik8s.io", "nodehealthchecks");
    assert_eq!(allow(&off, verb, group, plural), may);
    assert!(allow(&operator_rules(&everything()), verb, group, plural));
}
