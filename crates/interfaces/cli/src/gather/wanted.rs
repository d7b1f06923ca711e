//! Which kinds are collected: those that jobs have the right to read, and those that nobody needs a right of
//! ours for.

use std::collections::{BTreeMap, BTreeSet};

use controllers::Job;
use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::governance::configs::registry;

/// What is wanted of a kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Extent {
    /// Every object.
    All,
    /// Only objects with these names.
    Named(BTreeSet<String>),
    /// Only names, labels and annotations: what is in them is large, or nobody's business.
    Outline,
}

/// Group and plural.
pub(super) type Resource = (String, String);

/// Never, whoever has the right to: what is in them is what must not leave the cluster.
const NEVER: [(&str, &str); 2] = [("", "secrets"), ("", "events")];

/// Of these an outline will do. Machine configurations hold files of nodes, with keys among them.
const OUTLINES: [(&str, &str); 2] = [
    ("apiextensions.k8s.io", "customresourcedefinitions"),
    ("machineconfiguration.openshift.io", "machineconfigs"),
];

/// What is looked at from the command line, or by jobs that watch nothing.
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
pub(super) fn wanted() -> anyhow::Result<BTreeMap<Resource, Extent>> {
    let registry = registry()?;
    let rules = Job::ALL.iter().flat_map(|job| job.rules(&registry));
    let mut wanted = of_rules(rules);
    for (group, plural) in OTHERS {
        wanted.insert((group.to_owned(), plural.to_owned()), Extent::All);
    }
    for (group, plural) in NEVER {
        wanted.remove(&(group.to_owned(), plural.to_owned()));
    }
    for (group, plural) in OUTLINES {
        wanted.insert((group.to_owned(), plural.to_owned()), Extent::Outline);
    }
    Ok(wanted)
}

/// What rules let somebody list.
fn of_rules(rules: impl Iterator<Item = PolicyRule>) -> BTreeMap<Resource, Extent> {
    let mut wanted = BTreeMap::new();
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
            let entry = wanted.entry((group.clone(), plural.clone()));
            let known = entry.or_insert_with(|| extent.clone());
            match (known, extent) {
                (Extent::Named(names), Extent::Named(more)) => names.extend(more),
                (known, Extent::All) => *known = Extent::All,
                _ => {}
            }
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(group: &str, plural: &str) -> Option<Extent> {
        wanted()
            .unwrap()
            .remove(&(group.to_owned(), plural.to_owned()))
    }

    #[test]
    fn every_job_is_looked_at_and_secrets_are_not() {
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
    fn a_right_to_one_object_wants_that_one() {
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
