//! Turns the state of a cluster into findings.

mod running;

#[cfg(test)]
mod tests;

use machinery::json::settle_numbers;
use manifests::{HOME, Job, OLDEST_KUBERNETES};
use serde::Serialize;
use serde_json::Value;

use super::inputs::{CheckInputs, Observed};

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum State {
    Ok,
    /// An optional component is not installed.
    Off,
    /// The user should inspect this, or it could not be read.
    Warning,
    Failed,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Identifier of the check, stable in machine-readable output and documentation.
    pub(super) id: &'static str,
    /// Heading the finding is listed under.
    pub(super) group: &'static str,
    /// The expected state.
    pub(super) title: String,
    pub(super) state: State,
    /// The actual state.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    /// The next step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// Path of the documentation page.
    pub(super) docs: String,
}

impl Finding {
    fn new(id: &'static str, group: &'static str, title: impl Into<String>, state: State) -> Self {
        Self {
            id,
            group,
            title: title.into(),
            state,
            message: String::new(),
            hint: None,
            docs: format!("{HOME}/blob/main/docs/check.md#{id}"),
        }
    }

    fn with_message(self, message: impl Into<String>) -> Self {
        Self {
            message: message.into(),
            ..self
        }
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }

    /// Finding for state that could not be read: a warning, since it may be fine.
    fn unreadable(
        id: &'static str,
        group: &'static str,
        title: impl Into<String>,
        why: &str,
    ) -> Self {
        Self::new(id, group, title, State::Warning)
            .with_message(format!("it cannot be read: {why}"))
            .hint("run the check as a user who may read it, such as a cluster-admin")
    }
}

/// Every check, prerequisites first.
pub(super) fn decide(inputs: &CheckInputs) -> Vec<Finding> {
    let mut findings = kubernetes(inputs);
    if inputs.pre {
        findings.extend(installing(inputs));
    } else {
        findings.extend(kinds(inputs));
        findings.extend(running::permissions(inputs));
        findings.extend(running::operator(inputs));
        findings.extend(running::admission(inputs));
    }
    findings.extend(jobs(inputs));
    if !inputs.pre {
        findings.extend(policies(inputs));
    }
    findings.push(monitoring(inputs));
    findings
}

const KUBERNETES: &str = "Kubernetes";

fn kubernetes(inputs: &CheckInputs) -> Vec<Finding> {
    let (major, minor) = OLDEST_KUBERNETES;
    let api = Finding::new("api", KUBERNETES, "the API server responds", State::Ok);
    let title = format!("the version is {major}.{minor} or later");
    let version = |state| Finding::new("version", KUBERNETES, title.clone(), state);
    let version = match inputs.version.number {
        Some(number) if number >= OLDEST_KUBERNETES => version(State::Ok),
        Some((major, minor)) => version(State::Failed)
            .with_message(format!("it is {major}.{minor}"))
            .hint("upgrade the cluster: match conditions of webhooks and scheduling gates are missing"),
        None => version(State::Warning)
            .with_message("the version cannot be parsed")
            .hint("see `kubectl version`"),
    };
    vec![api.with_message(inputs.version.text.clone()), version]
}

const INSTALLING: &str = "Installing";

fn installing(inputs: &CheckInputs) -> Vec<Finding> {
    let title = "you may create everything that is installed";
    let permissions = match &inputs.cannot_install {
        Ok(missing) if missing.is_empty() => {
            Finding::new("install-rights", INSTALLING, title, State::Ok)
        }
        Ok(missing) => Finding::new("install-rights", INSTALLING, title, State::Failed)
            .with_message(format!("you may not {}", listed(missing)))
            .hint(
                "have a cluster-admin install: medley manifests | kubectl apply --server-side -f -",
            ),
        Err(why) => Finding::unreadable("install-rights", INSTALLING, title, why),
    };
    let title = "you may grant the required permissions";
    let granting = match &inputs.may_escalate {
        Ok(true) => Finding::new("install-grants", INSTALLING, title, State::Ok),
        Ok(false) => Finding::new("install-grants", INSTALLING, title, State::Warning)
            .with_message("you may only grant permissions that you have yourself")
            .hint("have a cluster-admin apply `medley manifests --only rbac`"),
        Err(why) => Finding::unreadable("install-grants", INSTALLING, title, why),
    };
    let title = format!("namespace {} does not exist yet", inputs.namespace);
    let namespace = match &inputs.namespace_exists {
        Ok(false) => Finding::new("install-namespace", INSTALLING, title, State::Ok),
        Ok(true) => Finding::new("install-namespace", INSTALLING, title, State::Off)
            .with_message("it exists, and will be used"),
        Err(why) => Finding::unreadable("install-namespace", INSTALLING, title, why),
    };
    let installed = inputs.definitions.values();
    let installed = installed.filter(|it| matches!(it, Ok(Some(_)))).count();
    let title = "the CRDs of Medley are not installed yet";
    let kinds = match installed {
        0 => Finding::new("install-kinds", INSTALLING, title, State::Ok),
        count => Finding::new("install-kinds", INSTALLING, title, State::Off).with_message(
            format!("{count} are installed, and will be upgraded; objects are kept"),
        ),
    };
    vec![permissions, granting, namespace, kinds]
}

const KINDS: &str = "Kinds";

fn kinds(inputs: &CheckInputs) -> Vec<Finding> {
    let apply = "medley manifests --only crds | kubectl apply --server-side -f -";
    let wanted = manifests::definitions();
    let mut findings = Vec::new();
    for definition in &wanted {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let title = format!("CRD {name} is installed in this version");
        let finding = |state| Finding::new("kinds", KINDS, title.clone(), state);
        findings.push(match inputs.definitions.get(&name) {
            None | Some(Ok(None)) => finding(State::Failed)
                .with_message("it is not installed")
                .hint(apply),
            Some(Err(why)) => Finding::unreadable("kinds", KINDS, title.clone(), why),
            Some(Ok(Some(there))) if !is_established(there) => finding(State::Failed)
                .with_message("it is not established: the API server does not serve it")
                .hint(format!("kubectl describe crd {name}")),
            Some(Ok(Some(there))) => {
                let ours = serde_json::to_value(&definition.spec.versions).unwrap_or_default();
                if contains(&there["spec"]["versions"], ours) {
                    finding(State::Ok)
                } else {
                    finding(State::Warning)
                        .with_message("it is from another version of Medley")
                        .hint(apply)
                }
            }
        });
    }
    findings
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition["status"]["conditions"].as_array();
    conditions
        .into_iter()
        .flatten()
        .any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

/// Whether the object on the server has every field of `ours`; the server may have defaulted
/// others.
fn contains(theirs: &Value, mut ours: Value) -> bool {
    fn within(theirs: &Value, ours: &Value) -> bool {
        match (theirs, ours) {
            (Value::Object(theirs), Value::Object(ours)) => ours
                .iter()
                .all(|(key, value)| theirs.get(key).is_some_and(|it| within(it, value))),
            (Value::Array(theirs), Value::Array(ours)) => {
                theirs.len() == ours.len()
                    && theirs
                        .iter()
                        .zip(ours)
                        .all(|(one, other)| within(one, other))
            }
            _ => theirs == ours,
        }
    }
    let mut theirs = theirs.clone();
    settle_numbers(&mut theirs);
    settle_numbers(&mut ours);
    within(&theirs, &ours)
}

const JOBS: &str = "Jobs";

/// CRDs that a job needs and Medley does not install, each with the project that provides it.
fn foreign(job: Job) -> &'static [(&'static str, &'static str)] {
    match job {
        Job::Governance | Job::Placement | Job::RuntimeClasses => &[],
        Job::ImagesHco => &[(
            "hyperconvergeds.hco.kubevirt.io",
            "the HyperConverged Cluster Operator",
        )],
        Job::ImagesSsp => &[
            ("ssps.ssp.kubevirt.io", "the SSP Operator"),
            ("dataimportcrons.cdi.kubevirt.io", "CDI"),
        ],
        Job::ImagesCdi => &[("dataimportcrons.cdi.kubevirt.io", "CDI")],
        Job::ImagesVm => &[("virtualmachines.kubevirt.io", "KubeVirt")],
        Job::CpuModels => &[("virtualmachineinstances.kubevirt.io", "KubeVirt")],
        Job::Release => &[("clusterversions.config.openshift.io", "OpenShift")],
    }
}

fn jobs(inputs: &CheckInputs) -> Vec<Finding> {
    let mut findings = Vec::new();
    for job in &inputs.jobs {
        let title = format!("{job} has its prerequisites");
        let kinds = match &inputs.kinds {
            Ok(kinds) => kinds,
            Err(why) => {
                findings.push(Finding::unreadable("jobs", JOBS, title, why));
                continue;
            }
        };
        let missing = foreign(*job)
            .iter()
            .filter(|(kind, _)| !kinds.contains(*kind));
        let missing: Vec<String> = missing
            .map(|(kind, owner)| format!("{kind}, which {owner} installs"))
            .collect();
        findings.push(if missing.is_empty() {
            Finding::new("jobs", JOBS, title, State::Ok)
        } else {
            Finding::new("jobs", JOBS, title, State::Off).with_message(format!(
                "there is no {}; it is picked up when installed",
                missing.join(", and no ")
            ))
        });
    }
    findings
}

const POLICIES: &str = "Policies";

fn policies(inputs: &CheckInputs) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in &inputs.policies {
        findings.push(match policy {
            Err(why) => Finding::unreadable("policies", POLICIES, "policies are valid", why),
            Ok(policy) => {
                let title = format!("{} makes sense", policy.name);
                match &policy.invalid {
                    None => Finding::new("policies", POLICIES, title, State::Ok),
                    Some(why) => Finding::new("policies", POLICIES, title, State::Failed)
                        .with_message(why.clone())
                        .hint(
                            "correct the policy; until then the previous one is in force, or none",
                        ),
                }
            }
        });
    }
    if findings.is_empty() {
        let title = "there are policies";
        findings.push(
            Finding::new("policies", POLICIES, title, State::Off)
                .with_message("there is none: the defaults are in force"),
        );
    }
    findings
}

fn monitoring(inputs: &CheckInputs) -> Finding {
    let group = "Monitoring";
    let title = "Prometheus scrapes metrics and evaluates alerts";
    let finding = |state| Finding::new("monitoring", group, title, state);
    let has = |kinds: &Observed<std::collections::BTreeSet<String>>| {
        let kinds = kinds.as_ref().ok();
        kinds.is_some_and(|it| {
            it.contains("servicemonitors.monitoring.coreos.com")
                && it.contains("prometheusrules.monitoring.coreos.com")
        })
    };
    match &inputs.monitored {
        _ if !has(&inputs.kinds) => finding(State::Off)
            .with_message("the CRDs of the Prometheus Operator are not installed"),
        _ if inputs.pre => finding(State::Off)
            .with_message("the CRDs of the Prometheus Operator are installed")
            .hint("install with `medley manifests --monitoring`"),
        Ok(true) => finding(State::Ok),
        Ok(false) => finding(State::Off)
            .with_message("there is no ServiceMonitor")
            .hint("medley manifests --only monitoring | kubectl apply --server-side -f -"),
        Err(why) => Finding::unreadable("monitoring", group, title, why),
    }
}

/// The first entries of a long list, so that a finding stays on one line.
fn listed(all: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    match all.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}
