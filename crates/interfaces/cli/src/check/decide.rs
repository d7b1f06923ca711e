//! Turns the state of a cluster into findings.

mod ownership;
mod rivals;
mod running;

#[cfg(test)]
pub(super) mod tests;

use machinery::json::settle_numbers;
use manifests::{HOME, Job, OLDEST_KUBERNETES};
use serde::Serialize;
use serde_json::Value;

use super::inputs::CheckInputs;
use super::network;
use super::openshift;

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

/// A check before its result is known.
#[derive(Clone)]
pub(super) struct Check {
    id: &'static str,
    group: &'static str,
    title: String,
}

impl Check {
    pub(super) fn new(id: &'static str, group: &'static str, title: impl Into<String>) -> Self {
        let title = title.into();
        Self { id, group, title }
    }

    fn finding(self, state: State, message: impl Into<String>) -> Finding {
        Finding {
            id: self.id,
            group: self.group,
            title: self.title,
            state,
            message: message.into(),
            hint: None,
            docs: format!("{HOME}/blob/main/docs/check.md#{}", self.id),
        }
    }

    pub(super) fn ok(self) -> Finding {
        self.finding(State::Ok, "")
    }

    pub(super) fn off(self, message: impl Into<String>) -> Finding {
        self.finding(State::Off, message)
    }

    pub(super) fn warning(self, message: impl Into<String>) -> Finding {
        self.finding(State::Warning, message)
    }

    pub(super) fn failed(self, message: impl Into<String>) -> Finding {
        self.finding(State::Failed, message)
    }

    /// State that could not be read: a warning, since it may be fine.
    pub(super) fn unreadable(self, why: &str) -> Finding {
        self.warning(format!("it cannot be read: {why}"))
            .hint("run the check as a user who may read it, such as a cluster-admin")
    }
}

impl Finding {
    fn is_ok(&self) -> bool {
        self.state == State::Ok
    }

    pub(super) fn hint(self, hint: impl Into<String>) -> Self {
        Self {
            hint: Some(hint.into()),
            ..self
        }
    }
}

/// Every check, prerequisites first.
pub(super) fn decide(inputs: &CheckInputs) -> Vec<Finding> {
    let mut findings = kubernetes(inputs);
    if inputs.pre {
        findings.extend(installing(inputs));
        findings.extend(ownership::rivals(inputs));
    } else {
        findings.extend(kinds(inputs));
        findings.extend(running::permissions(inputs));
        findings.extend(running::operator(inputs));
        findings.extend(running::admission(inputs));
    }
    findings.extend(openshift::decide(inputs));
    findings.extend(jobs(inputs));
    findings.extend(network::decide(inputs));
    findings.extend(rivals::rivals(inputs));
    if !inputs.pre {
        findings.extend(ownership::modes(inputs));
        findings.extend(policies(inputs));
    }
    findings.push(monitoring(inputs));
    findings
}

const KUBERNETES: &str = "Kubernetes";

fn kubernetes(inputs: &CheckInputs) -> Vec<Finding> {
    let (major, minor) = OLDEST_KUBERNETES;
    let api = Check::new("api", KUBERNETES, "the API server responds");
    let title = format!("the version is {major}.{minor} or later");
    let check = Check::new("version", KUBERNETES, title);
    let version = match inputs.version.number {
        Some(number) if number >= OLDEST_KUBERNETES => check.ok(),
        Some((major, minor)) => check.failed(format!("it is {major}.{minor}")).hint(
            "upgrade the cluster: it lacks match conditions of webhooks and scheduling gates",
        ),
        None => check
            .warning("the version cannot be parsed")
            .hint("see `kubectl version`"),
    };
    vec![api.finding(State::Ok, inputs.version.text.clone()), version]
}

const INSTALLING: &str = "Installing";

fn installing(inputs: &CheckInputs) -> Vec<Finding> {
    let title = "you may create everything that is installed";
    let check = Check::new("install-rights", INSTALLING, title);
    let permissions = match &inputs.cannot_install {
        Ok(missing) if missing.is_empty() => check.ok(),
        Ok(missing) => check
            .failed(format!("you may not {}", listed(missing)))
            .hint(
                "have a cluster-admin install: medley manifests | kubectl apply --server-side -f -",
            ),
        Err(why) => check.unreadable(why),
    };
    let title = "you may grant the required permissions";
    let check = Check::new("install-grants", INSTALLING, title);
    let granting = match &inputs.may_escalate {
        Ok(true) => check.ok(),
        Ok(false) => check
            .warning("you may only grant permissions that you have yourself")
            .hint("have a cluster-admin apply `medley manifests --only rbac`"),
        Err(why) => check.unreadable(why),
    };
    let title = format!("namespace {} does not exist yet", inputs.namespace);
    let check = Check::new("install-namespace", INSTALLING, title);
    let namespace = match &inputs.namespace_exists {
        Ok(false) => check.ok(),
        Ok(true) => check.off("it exists, and will be used"),
        Err(why) => check.unreadable(why),
    };
    let installed = inputs.definitions.values();
    let installed = installed.filter(|it| matches!(it, Ok(Some(_)))).count();
    let title = "the CRDs of Medley are not installed yet";
    let check = Check::new("install-kinds", INSTALLING, title);
    let kinds = match installed {
        0 => check.ok(),
        count => check.off(format!(
            "{count} are installed, and will be upgraded; objects are kept"
        )),
    };
    vec![permissions, granting, namespace, kinds]
}

fn kinds(inputs: &CheckInputs) -> Vec<Finding> {
    let apply = "medley manifests --only crds | kubectl apply --server-side -f -";
    let mut findings = Vec::new();
    for definition in &manifests::definitions() {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let title = format!("CRD {name} is installed in this version");
        let check = Check::new("kinds", "Kinds", title);
        findings.push(match inputs.definitions.get(&name) {
            None | Some(Ok(None)) => check.failed("it is not installed").hint(apply),
            Some(Err(why)) => check.unreadable(why),
            Some(Ok(Some(there))) if !is_established(there) => check
                .failed("it is not established: the API server does not serve it")
                .hint(format!("kubectl describe crd {name}")),
            Some(Ok(Some(there))) => {
                let ours = serde_json::to_value(&definition.spec.versions).unwrap_or_default();
                if contains(&there["spec"]["versions"], ours) {
                    check.ok()
                } else {
                    check
                        .warning("it is from another version of Medley")
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
    // The API server writes `1.0` as `1`, and bounds in a schema are floats here.
    settle_numbers(&mut theirs);
    settle_numbers(&mut ours);
    within(&theirs, &ours)
}

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
        let check = Check::new("jobs", "Jobs", format!("{job} has its prerequisites"));
        let kinds = match &inputs.kinds {
            Ok(kinds) => kinds,
            Err(why) => {
                findings.push(check.unreadable(why));
                continue;
            }
        };
        let missing = foreign(*job).iter();
        let missing: Vec<String> = missing
            .filter(|(kind, _)| !kinds.contains(*kind))
            .map(|(kind, owner)| format!("{kind}, which {owner} installs"))
            .collect();
        // A missing CRD of another project is not a failure: the controllers wait for it, and not
        // every cluster has all of these projects.
        findings.push(if missing.is_empty() {
            check.ok()
        } else {
            let missing = missing.join(", and no ");
            check.off(format!(
                "there is no {missing}; it is picked up when installed"
            ))
        });
    }
    findings
}

const POLICIES: &str = "Policies";

fn policies(inputs: &CheckInputs) -> Vec<Finding> {
    let check = |title: &str| Check::new("policies", POLICIES, title);
    let mut findings = Vec::new();
    for policy in &inputs.policies {
        findings.push(match policy {
            Err(why) => check("policies are valid").unreadable(why),
            Ok(policy) => {
                let check = check(&format!("{} is valid", policy.name));
                match &policy.invalid {
                    None => check.ok(),
                    Some(why) => check.failed(why.clone()).hint(
                        "correct the policy; until then the previous one is in force, or none",
                    ),
                }
            }
        });
    }
    if findings.is_empty() {
        findings.push(check("there are policies").off("there is none: the defaults are in force"));
    }
    findings
}

fn monitoring(inputs: &CheckInputs) -> Finding {
    let title = "Prometheus scrapes metrics and evaluates alerts";
    let check = Check::new("monitoring", "Monitoring", title);
    let installed = inputs.kinds.as_ref().is_ok_and(|kinds| {
        kinds.contains("servicemonitors.monitoring.coreos.com")
            && kinds.contains("prometheusrules.monitoring.coreos.com")
    });
    match &inputs.monitored {
        _ if !installed => check.off("the CRDs of the Prometheus Operator are not installed"),
        _ if inputs.pre => check
            .off("the CRDs of the Prometheus Operator are installed")
            .hint("install with `medley manifests --monitoring`"),
        Ok(true) => check.ok(),
        Ok(false) => check
            .off("there is no ServiceMonitor")
            .hint("medley manifests --only monitoring | kubectl apply --server-side -f -"),
        Err(why) => check.unreadable(why),
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
