//! Checks on OpenShift: whether Medley was, or is to be, installed with what OpenShift needs.

use std::collections::BTreeSet;

use kube::api::DynamicObject;
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client};
use manifests::{IMPORTER_CONSTRAINTS, Job};

use super::decide::{Check, Finding};
use super::gather::observed;
use super::inputs::{CheckInputs, Observed};

const GROUP: &str = "OpenShift";
/// The API group by which OpenShift is recognised.
const SECURITY: &str = "security.openshift.io";
/// The flag that adds everything.
const FLAG: &str = "--openshift";

/// API groups, what Medley uses each for, and whether that is optional.
const PIECES: [(&str, &str); 3] = [
    (SECURITY, "SecurityContextConstraints of importer pods"),
    ("route.openshift.io", "a Route to the console"),
    ("console.openshift.io", "a menu entry for the console"),
];

/// What an OpenShift cluster has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct OpenShift {
    /// The API groups that it serves.
    pub(super) groups: BTreeSet<String>,
    /// Whether the constraints of importer pods exist.
    pub(super) constraints: Observed<bool>,
}

/// Reads it; `None` on other clusters.
pub(super) async fn gather(client: &Client) -> Observed<Option<OpenShift>> {
    let groups = observed(client.list_api_groups().await)?;
    let groups: BTreeSet<String> = groups.groups.into_iter().map(|it| it.name).collect();
    if !groups.contains(SECURITY) {
        return Ok(None);
    }
    let kind = GroupVersionKind::gvk(SECURITY, "v1", "SecurityContextConstraints");
    let kind = ApiResource::from_gvk_with_plural(&kind, "securitycontextconstraints");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &kind);
    let constraints = observed(api.get_opt(IMPORTER_CONSTRAINTS).await);
    Ok(Some(OpenShift {
        groups,
        constraints: constraints.map(|it| it.is_some()),
    }))
}

/// The findings; none on other clusters.
pub(super) fn decide(inputs: &CheckInputs) -> Vec<Finding> {
    let title = "the cluster is recognised as OpenShift or not";
    let found = match &inputs.openshift {
        Ok(None) => return Vec::new(),
        Ok(Some(found)) => found,
        Err(why) => return vec![Check::new("openshift", GROUP, title).unreadable(why)],
    };
    let mut findings = pieces(inputs, found);
    let imports = inputs.jobs.contains(&Job::ImagesCdi);
    if imports && !inputs.pre {
        findings.push(constraints(found));
    }
    findings
}

/// What the flag adds, and what the cluster lacks for it.
fn pieces(inputs: &CheckInputs, found: &OpenShift) -> Vec<Finding> {
    let (there, missing): (Vec<_>, Vec<_>) = PIECES
        .iter()
        .partition(|(group, _)| found.groups.contains(*group));
    let listed = |pieces: &[&(&str, &str)]| {
        let all = pieces
            .iter()
            .map(|(group, usage)| format!("{usage} ({group})"));
        all.collect::<Vec<_>>().join(", ")
    };
    let mut findings = Vec::new();
    if inputs.pre {
        let check = Check::new("openshift", GROUP, "what Medley uses of OpenShift is there");
        let message = format!("the cluster is OpenShift, and has {}", listed(&there));
        findings.push(
            check
                .off(message)
                .hint(format!("install with `medley manifests {FLAG}`")),
        );
    }
    if !missing.is_empty() {
        let check = Check::new("openshift", GROUP, "no part of OpenShift is missing");
        let message = format!("the cluster does not serve {}", listed(&missing));
        findings.push(check.off(message).hint(
            "without routes and the console of OpenShift, install without --console-host, and use an Ingress",
        ));
    }
    findings
}

fn constraints(found: &OpenShift) -> Finding {
    let title = format!("importer pods may use SecurityContextConstraints {IMPORTER_CONSTRAINTS}");
    let check = Check::new("openshift-constraints", GROUP, title);
    match &found.constraints {
        Ok(true) => check.ok(),
        Ok(false) => check
            .failed("it does not exist: OpenShift refuses importer pods, whose user 107 is outside of the range of their namespace")
            .hint(format!(
                "medley manifests {FLAG} --controllers ... --only rbac | kubectl apply --server-side -f -, with the controllers of the operator"
            )),
        Err(why) => check.unreadable(why),
    }
}

#[cfg(test)]
mod tests {
    use super::super::decide::State;
    use super::super::decide::tests::healthy;
    use super::*;

    fn cluster(groups: &[&str], constraints: bool) -> OpenShift {
        OpenShift {
            groups: groups.iter().map(|&it| it.to_owned()).collect(),
            constraints: Ok(constraints),
        }
    }

    fn found(inputs: &CheckInputs) -> Vec<(&'static str, State)> {
        decide(inputs).iter().map(|it| (it.id, it.state)).collect()
    }

    #[test]
    fn other_clusters_have_no_findings() {
        assert_eq!(found(&healthy()), []);
    }

    #[test]
    fn precheck_names_the_flag_and_what_is_missing() {
        let all = PIECES.map(|(group, _)| group);
        let inputs = CheckInputs {
            pre: true,
            openshift: Ok(Some(cluster(&all, false))),
            ..healthy()
        };
        assert_eq!(found(&inputs), [("openshift", State::Off)]);
        let hint = decide(&inputs)[0].hint.clone().unwrap_or_default();
        assert!(hint.contains("medley manifests --openshift"), "{hint}");
        // MicroShift has no console.
        let inputs = CheckInputs {
            openshift: Ok(Some(cluster(&all[..2], false))),
            ..inputs
        };
        let missing = decide(&inputs)[1].message.clone();
        assert!(missing.contains("console.openshift.io"), "{missing}");
    }

    #[test]
    fn missing_constraints_fail_only_where_images_are_imported() {
        let inputs = CheckInputs {
            openshift: Ok(Some(cluster(&PIECES.map(|(group, _)| group), false))),
            ..healthy()
        };
        assert_eq!(found(&inputs), []);
        let importing = CheckInputs {
            jobs: [Job::ImagesCdi].into(),
            ..inputs
        };
        assert_eq!(
            found(&importing),
            [("openshift-constraints", State::Failed)]
        );
    }
}
