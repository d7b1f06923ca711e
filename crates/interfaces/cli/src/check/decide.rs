//! What is well, what is not, and what to do about it.

mod running;

#[cfg(test)]
mod tests;

use machinery::json::settle_numbers;
use manifests::{HOME, Job, OLDEST_KUBERNETES};
use serde::Serialize;
use serde_json::Value;

use super::facts::{Facts, Seen};

/// How a check went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) enum State {
    Ok,
    /// Something is not there, and need not be.
    Off,
    /// Somebody should look, or it could not be seen.
    Warning,
    Failed,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// What the check is called, in data and in the documentation.
    pub(super) id: &'static str,
    /// What it is about.
    pub(super) group: &'static str,
    /// What should be so.
    pub(super) title: String,
    pub(super) state: State,
    /// What is so.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    /// What to do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
    /// Where more is written.
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

    fn says(self, message: impl Into<String>) -> Self {
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

    /// Something that could not be seen: nobody knows.
    fn unseen(id: &'static str, group: &'static str, title: impl Into<String>, why: &str) -> Self {
        Self::new(id, group, title, State::Warning)
            .says(format!("it cannot be seen: {why}"))
            .hint("ask somebody who may look, such as a cluster-admin")
    }
}

/// Every check, in the order in which one thing needs another.
pub(super) fn decide(facts: &Facts) -> Vec<Finding> {
    let mut findings = kubernetes(facts);
    if facts.pre {
        findings.extend(installing(facts));
    } else {
        findings.extend(kinds(facts));
        findings.extend(running::rights(facts));
        findings.extend(running::operator(facts));
        findings.extend(running::admission(facts));
    }
    findings.extend(jobs(facts));
    if !facts.pre {
        findings.extend(policies(facts));
    }
    findings.push(monitoring(facts));
    findings
}

const KUBERNETES: &str = "Kubernetes";

fn kubernetes(facts: &Facts) -> Vec<Finding> {
    let (major, minor) = OLDEST_KUBERNETES;
    let api = Finding::new("api", KUBERNETES, "the API answers", State::Ok);
    let title = format!("the version is {major}.{minor} or later");
    let version = |state| Finding::new("version", KUBERNETES, title.clone(), state);
    let version = match facts.version.number {
        Some(number) if number >= OLDEST_KUBERNETES => version(State::Ok),
        Some((major, minor)) => version(State::Failed)
            .says(format!("it is {major}.{minor}"))
            .hint("upgrade the cluster: conditions of webhooks and scheduling gates are missing"),
        None => version(State::Warning)
            .says("the number cannot be read")
            .hint("see `kubectl version`"),
    };
    vec![api.says(facts.version.text.clone()), version]
}

const INSTALLING: &str = "Installing";

fn installing(facts: &Facts) -> Vec<Finding> {
    let title = "you may make everything that is installed";
    let rights = match &facts.cannot_install {
        Ok(missing) if missing.is_empty() => {
            Finding::new("install-rights", INSTALLING, title, State::Ok)
        }
        Ok(missing) => Finding::new("install-rights", INSTALLING, title, State::Failed)
            .says(format!("you may not {}", listed(missing)))
            .hint(
                "have a cluster-admin install: medley manifests | kubectl apply --server-side -f -",
            ),
        Err(why) => Finding::unseen("install-rights", INSTALLING, title, why),
    };
    let title = "you may grant the rights that are needed";
    let granting = match &facts.may_escalate {
        Ok(true) => Finding::new("install-grants", INSTALLING, title, State::Ok),
        Ok(false) => Finding::new("install-grants", INSTALLING, title, State::Warning)
            .says("you may only grant what you may do yourself")
            .hint("have a cluster-admin apply `medley manifests --only rbac`"),
        Err(why) => Finding::unseen("install-grants", INSTALLING, title, why),
    };
    let title = format!("namespace {} is free", facts.namespace);
    let namespace = match &facts.namespace_exists {
        Ok(false) => Finding::new("install-namespace", INSTALLING, title, State::Ok),
        Ok(true) => Finding::new("install-namespace", INSTALLING, title, State::Off)
            .says("it is there, and will be used"),
        Err(why) => Finding::unseen("install-namespace", INSTALLING, title, why),
    };
    let installed = facts.definitions.values();
    let installed = installed.filter(|it| matches!(it, Ok(Some(_)))).count();
    let title = "our kinds are not there yet";
    let kinds = match installed {
        0 => Finding::new("install-kinds", INSTALLING, title, State::Ok),
        count => Finding::new("install-kinds", INSTALLING, title, State::Off)
            .says(format!("{count} are, and will be upgraded; objects stay")),
    };
    vec![rights, granting, namespace, kinds]
}

const KINDS: &str = "Kinds";

fn kinds(facts: &Facts) -> Vec<Finding> {
    let apply = "medley manifests --only crds | kubectl apply --server-side -f -";
    let wanted = manifests::definitions();
    let mut findings = Vec::new();
    for definition in &wanted {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let title = format!("{name} is there, as this version has it");
        let finding = |state| Finding::new("kinds", KINDS, title.clone(), state);
        findings.push(match facts.definitions.get(&name) {
            None | Some(Ok(None)) => finding(State::Failed)
                .says("it is not installed")
                .hint(apply),
            Some(Err(why)) => Finding::unseen("kinds", KINDS, title.clone(), why),
            Some(Ok(Some(there))) if !is_established(there) => finding(State::Failed)
                .says("it is not established: the API server does not serve it")
                .hint(format!("kubectl describe crd {name}")),
            Some(Ok(Some(there))) => {
                let ours = serde_json::to_value(&definition.spec.versions).unwrap_or_default();
                if contains(&there["spec"]["versions"], ours) {
                    finding(State::Ok)
                } else {
                    finding(State::Warning)
                        .says("it is of another version of Medley")
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

/// Whether everything of `ours` is in what a server has, which may have added to it.
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

/// What others have to install for a job to have something to do, and who.
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

fn jobs(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for job in &facts.jobs {
        let title = format!("{job} has what it is about");
        let kinds = match &facts.kinds {
            Ok(kinds) => kinds,
            Err(why) => {
                findings.push(Finding::unseen("jobs", JOBS, title, why));
                continue;
            }
        };
        let missing = foreign(*job)
            .iter()
            .filter(|(kind, _)| !kinds.contains(*kind));
        let missing: Vec<String> = missing
            .map(|(kind, owner)| format!("{kind}, which comes with {owner}"))
            .collect();
        findings.push(if missing.is_empty() {
            Finding::new("jobs", JOBS, title, State::Ok)
        } else {
            Finding::new("jobs", JOBS, title, State::Off).says(format!(
                "there is no {}; it is picked up when it is installed",
                missing.join(", and no ")
            ))
        });
    }
    findings
}

const POLICIES: &str = "Policies";

fn policies(facts: &Facts) -> Vec<Finding> {
    let mut findings = Vec::new();
    for policy in &facts.policies {
        findings.push(match policy {
            Err(why) => Finding::unseen("policies", POLICIES, "policies make sense", why),
            Ok(policy) => {
                let title = format!("{} makes sense", policy.name);
                match &policy.invalid {
                    None => Finding::new("policies", POLICIES, title, State::Ok),
                    Some(why) => Finding::new("policies", POLICIES, title, State::Failed)
                        .says(why.clone())
                        .hint("correct the policy; until then the one before is in force, or none"),
                }
            }
        });
    }
    if findings.is_empty() {
        let title = "there are policies";
        findings.push(
            Finding::new("policies", POLICIES, title, State::Off)
                .says("there is none: the defaults are in force"),
        );
    }
    findings
}

fn monitoring(facts: &Facts) -> Finding {
    let group = "Monitoring";
    let title = "Prometheus is told of metrics and alerts";
    let finding = |state| Finding::new("monitoring", group, title, state);
    let has = |kinds: &Seen<std::collections::BTreeSet<String>>| {
        let kinds = kinds.as_ref().ok();
        kinds.is_some_and(|it| {
            it.contains("servicemonitors.monitoring.coreos.com")
                && it.contains("prometheusrules.monitoring.coreos.com")
        })
    };
    match &facts.monitored {
        _ if !has(&facts.kinds) => {
            finding(State::Off).says("the kinds of the Prometheus Operator are not installed")
        }
        _ if facts.pre => finding(State::Off)
            .says("the kinds of the Prometheus Operator are there")
            .hint("install with `medley manifests --monitoring`"),
        Ok(true) => finding(State::Ok),
        Ok(false) => finding(State::Off)
            .says("it is not")
            .hint("medley manifests --only monitoring | kubectl apply --server-side -f -"),
        Err(why) => Finding::unseen("monitoring", group, title, why),
    }
}

/// Some of many, so that a line stays a line.
fn listed(all: &[String]) -> String {
    const SHOWN: usize = 5;
    let shown = all.iter().take(SHOWN).cloned().collect::<Vec<_>>();
    match all.len().saturating_sub(SHOWN) {
        0 => shown.join(", "),
        more => format!("{}, and {more} more", shown.join(", ")),
    }
}
