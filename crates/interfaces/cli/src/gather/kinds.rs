//! Kinds that a bundle contains: those that controllers may read, and some that no controller
//! reads.

use std::collections::{BTreeMap, BTreeSet};

use controllers::Job;
use k8s_openapi::api::rbac::v1::PolicyRule;

/// How much of a kind is collected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extent {
    /// Every object.
    All,
    /// Only objects with these names.
    Named(BTreeSet<String>),
    /// Only metadata: the content is large or confidential.
    Outline,
}

/// Group and plural.
pub(super) type Resource = (String, String);

/// Never collected, whatever the permissions: secrets must not leave the cluster, and events are
/// collected separately.
const NEVER: [(&str, &str); 2] = [("", "secrets"), ("", "events")];

/// Metadata only. MachineConfigs hold files of nodes, including keys.
const OUTLINES: [(&str, &str); 2] = [
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("machineconfiguration.openshift.io", "machineconfigs"),
];

/// Kinds that only the command line reads.
const OTHERS: [(&str, &str); 12] = [
    ("", "nodes"),
    ("", "pods"),
    ("node.k8s.io", "runtimeclasses"),
    ("medley.dev", "placementpolicies"),
    ("config.openshift.io", "clusterversions"),
    ("config.openshift.io", "clusteroperators"),
    ("machineconfiguration.openshift.io", "machineconfigpools"),
    ("machineconfiguration.openshift.io", "machineconfigs"),
    ("kubevirt.io", "virtualmachines"),
    ("kubevirt.io", "virtualmachineinstancemigrations"),
    (
        "admissionregistration.k8s.io",
        "mutatingwebhookconfigurations",
    ),
    ("apiextensions.k8s.io", "customresourcedefinitions"),
];

/// Every kind that is collected.
pub(super) fn collected_kinds() -> anyhow::Result<BTreeMap<Resource, Extent>> {
    let registry = edits::registry()?;
    let rules = Job::ALL.iter().flat_map(|job| job.rules(&registry));
    let mut kinds = of_rules(rules);
    for (group, plural) in OTHERS {
        kinds.insert((group.to_owned(), plural.to_owned()), Extent::All);
    }
    for (group, plural) in NEVER {
        kinds.remove(&(group.to_owned(), plural.to_owned()));
    }
    for (group, plural) in OUTLINES {
        kinds.insert((group.to_owned(), plural.to_owned()), Extent::Outline);
    }
    Ok(kinds)
}

/// The resources that rules allow to list.
fn of_rules(rules: impl Iterator<Item = PolicyRule>) -> BTreeMap<Resource, Extent> {
    let mut kinds = BTreeMap::new();
    for rule in rules {
        if !rule
            .verbs
            .iter()
            .any(|verb| verb == "list" || verb == "get")
        {
            continue;
        }
        let groups = rule.api_groups.iter().flatten();
        for (group, plural) in
            groups.flat_map(|group| rule.resources.iter().flatten().map(move |it| (group, it)))
        {
            if plural.contains('/') || plural == "*" || group == "*" {
                continue;
            }
            let extent = match rule.resource_names.as_deref() {
                None | Some([]) => Extent::All,
                Some(names) => Extent::Named(names.iter().cloned().collect()),
            };
            let entry = kinds.entry((group.clone(), plural.clone()));
            let known = entry.or_insert_with(|| extent.clone());
            match (known, extent) {
                (Extent::Named(names), Extent::Named(more)) => names.extend(more),
                (known, Extent::All) => *known = Extent::All,
                _ => {}
            }
        }
    }
    kinds
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(group: &str, plural: &str) -> Option<Extent> {
        collected_kinds()
            .unwrap()
            .remove(&(group.to_owned(), plural.to_owned()))
    }

    #[test]
    fn kinds_of_every_job_are_collected_but_secrets() {
        for (group, plural) in [
            ("advisor.kubevirt.io", "virtplatformconfigs"),
            ("medley.dev", "goldenimagepolicies"),
            ("medley.dev", "cpumodelpolicies"),
            ("cdi.kubevirt.io", "dataimportcrons"),
            ("kubevirt.io", "virtualmachineinstances"),
            ("config.openshift.io", "clusteroperators"),
        ] {
            assert_eq!(has(group, plural), Some(Extent::All), "{plural}.{group}");
        }
        assert_eq!(has("", "secrets"), None);
        assert_eq!(
            has("machineconfiguration.openshift.io", "machineconfigs"),
            Some(Extent::Outline)
        );
    }

    #[test]
    fn rule_for_one_object_collects_only_that_object() {
        let rule = |names: &[&str]| PolicyRule {
            resource_names: Some(names.iter().map(|&it| it.to_owned()).collect()),
            ..api::rbac::rule("", &["configmaps", "configmaps/status"], &["get"])
        };
        let found = of_rules([rule(&["a"]), rule(&["b"])].into_iter());
        let names = ["a", "b"].map(str::to_owned).into();
        let key = (String::new(), "configmaps".to_owned());
        assert_eq!(found, BTreeMap::from([(key, Extent::Named(names))]));
    }
}
