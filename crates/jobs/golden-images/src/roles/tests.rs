use super::*;

/// All permissions of the rules, as group, resource and verb.
fn allowed(rules: &[PolicyRule]) -> Vec<(String, String, String)> {
    let mut all = Vec::new();
    for rule in rules {
        for group in rule.api_groups.iter().flatten() {
            for resource in rule.resources.iter().flatten() {
                for verb in &rule.verbs {
                    all.push((group.clone(), resource.clone(), verb.clone()));
                }
            }
        }
    }
    all
}

#[test]
fn rules_have_no_wildcards() {
    for rules in [hco_rules(), ssp_rules(), vm_rules()] {
        for (group, resource, verb) in allowed(&rules) {
            for part in [&group, &resource, &verb] {
                assert!(!part.contains('*'), "{group} {resource} {verb}");
            }
            assert_ne!(resource, "secrets");
        }
        let maps = rules.iter().find(|rule| {
            let mut resources = rule.resources.iter().flatten();
            resources.any(|it| it == "configmaps")
        });
        assert_eq!(
            maps.and_then(|rule| rule.resource_names.clone()),
            Some(vec![TEMPLATES.to_owned()])
        );
    }
}

#[test]
fn only_vm_layer_writes_vms() {
    let writes = |rules: &[PolicyRule]| {
        let mut all = allowed(rules).into_iter();
        all.any(|(group, _, verb)| group == "kubevirt.io" && verb == "patch")
    };
    assert!(!writes(&hco_rules()) && !writes(&ssp_rules()) && writes(&vm_rules()));
}
