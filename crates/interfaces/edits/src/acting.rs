//! Whether a controller will act on a change: a change that no controller acts on should be refused, not reported as
//! done.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use api::golden::{GoldenImagePolicy, NAME};
use api::operator::{LEASE, RENEW_INTERVAL, RunningOperator};
use cluster_view::policies;
use golden_images::policy::status::MANAGING;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use manifests::Job;
use runtime::{Absent as _, Error};

/// How long a Lease is observed whose renewal looks old: the clocks may disagree. One renewal is sure to be among it.
const OBSERVATION: Duration = Duration::from_secs(RENEW_INTERVAL.as_secs().unsigned_abs() + 3);
/// The interval of reads during an observation.
const OBSERVATION_INTERVAL: Duration = Duration::from_secs(1);

/// The operators whose Leases were found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operators {
    /// Those that renew their Lease.
    pub running: Vec<RunningOperator>,
    /// Those that do not.
    pub gone: Vec<RunningOperator>,
    /// Why others may exist that were not found: the error of a read.
    pub unreadable: Option<String>,
}

/// Which controller acts on a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acting {
    /// A controller of this operator.
    Operator(Job, RunningOperator),
    /// A controller of another project.
    Other {
        /// Its name, for people.
        name: String,
        /// Its Deployment: `namespace/name`.
        deployment: String,
    },
    /// The current user may not read what would tell.
    Unknown(String),
}

impl std::fmt::Display for Acting {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Operator(job, operator) => write!(
                f,
                "controller {job} of the operator in namespace {}",
                operator.namespace
            ),
            Self::Other { name, deployment } => write!(f, "{name} (Deployment {deployment})"),
            Self::Unknown(why) => write!(f, "unknown: {why}"),
        }
    }
}

/// Finds operators: in the given namespace, otherwise in all namespaces.
pub async fn operators(client: &Client, namespace: &str) -> Operators {
    let mut found = Operators::default();
    let api: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let expected = match api.get(LEASE).await.not_found_as_none() {
        Ok(lease) => lease,
        Err(error) => {
            found.unreadable = Some(why(namespace, error));
            None
        }
    };
    let mut leases: Vec<Lease> = expected.into_iter().collect();
    if leases.is_empty() {
        // Only now: most users may not list the Leases of a cluster.
        let all: Api<Lease> = Api::all(client.clone());
        let named = ListParams::default().fields(&format!("metadata.name={LEASE}"));
        match all.list(&named).await {
            Ok(list) => {
                leases = list.items;
                found.unreadable = None;
            }
            // The read in the namespace was answered: there is none where it was expected.
            Err(_) if found.unreadable.is_none() => {}
            Err(error) => found.unreadable = Some(why(namespace, error)),
        }
    }
    for lease in leases {
        let operator = RunningOperator::read(&lease);
        if operator.is_fresh(Timestamp::now()) || is_renewed(client, &operator).await {
            found.running.push(operator);
        } else {
            found.gone.push(operator);
        }
    }
    found
}

fn why(namespace: &str, error: kube::Error) -> String {
    Error::api(format!("reading Lease {LEASE} in namespace {namespace}"))(error).to_string()
}

/// Whether a Lease is renewed while it is observed.
async fn is_renewed(client: &Client, seen: &RunningOperator) -> bool {
    let api: Api<Lease> = Api::namespaced(client.clone(), &seen.namespace);
    let observing = async {
        loop {
            tokio::time::sleep(OBSERVATION_INTERVAL).await;
            // An unreadable or deleted Lease is not renewed.
            let lease = api.get(LEASE).await.ok()?;
            if RunningOperator::read(&lease).renewed != seen.renewed {
                return Some(());
            }
        }
    };
    let observed = tokio::time::timeout(OBSERVATION, observing).await;
    observed.is_ok_and(|renewed| renewed.is_some())
}

/// The controller that acts on a change, or an error that says how to enable it.
pub fn acting(operators: &Operators, job: Job, now: Timestamp) -> Result<Acting, Error> {
    let mut running = operators.running.iter();
    if let Some(operator) = running.find(|it| it.runs(job.name())) {
        return Ok(Acting::Operator(job, operator.clone()));
    }
    if let Some(why) = &operators.unreadable {
        return Ok(Acting::Unknown(why.clone()));
    }
    let refused = |why: String, enabled: BTreeSet<&str>| {
        let mut wanted: BTreeSet<&str> = enabled;
        wanted.insert(job.name());
        let wanted: Vec<&str> = wanted.into_iter().collect();
        let wanted = wanted.join(",");
        Err(Error::Invalid(format!(
            "no controller would act on this change: {why}. Enable controller {job}: `medley manifests --controllers={wanted} | kubectl apply --server-side -f -`, \
             or `medley run --controllers={wanted}`"
        )))
    };
    if let Some(operator) = operators.running.first() {
        let enabled: BTreeSet<&str> = operator.controllers.iter().map(String::as_str).collect();
        let why = format!(
            "the operator in namespace {} ({}) runs {}, but not {job}",
            operator.namespace,
            operator.version,
            operator.controllers.join(", ")
        );
        return refused(why, enabled);
    }
    let standard = || Job::STANDARD.iter().map(|job| job.name()).collect();
    let gone = operators.gone.iter();
    match gone.max_by_key(|it| it.runs(job.name())) {
        Some(operator) if operator.runs(job.name()) => {
            let namespace = &operator.namespace;
            let age = operator.renewed.map_or_else(String::new, |renewed| {
                let age = machinery::time::human_duration(now.duration_since(renewed));
                format!(" for {age}")
            });
            Err(Error::Invalid(format!(
                "no controller would act on this change: the operator in namespace {namespace} ran {job}, but is gone; it has not \
                 renewed its Lease {LEASE}{age}. Look at it: `kubectl -n {namespace} get deployments,pods`, `medley check --namespace {namespace}`"
            )))
        }
        _ => refused(
            format!("no operator of Medley is running (no Lease {LEASE})"),
            standard(),
        ),
    }
}

/// The controller that acts on a pin of a golden image. The error names the operator that manages the images instead.
pub async fn acting_on_pins(
    client: &Client,
    operators: &Operators,
    now: Timestamp,
) -> Result<Acting, Error> {
    let refused = match acting(operators, Job::ImagesCdi, now) {
        Ok(acting) => return Ok(acting),
        Err(refused) => refused,
    };
    if let Some(cdi) = cdi(client).await {
        // Not the advice to enable the controller: the two would work against each other.
        return Err(Error::Invalid(format!(
            "no controller would act on this change: {cdi} imports the images, and has no pins; controller {} of Medley acts on \
             pins, and replaces it",
            Job::ImagesCdi
        )));
    }
    let policy: Option<GoldenImagePolicy> = policies::read(client).await?;
    Err(match managed_elsewhere(policy.as_ref()) {
        Some(message) => Error::Invalid(format!(
            "{refused}. GoldenImagePolicy {NAME} has the condition {MANAGING}=False: {message}"
        )),
        None => refused,
    })
}

/// The message of the condition by which the controllers report that another operator manages the images.
fn managed_elsewhere(policy: Option<&GoldenImagePolicy>) -> Option<String> {
    let status = policy?.status.as_ref()?;
    let mut conditions = status.conditions.iter();
    let managing = conditions.find(|it| it.type_ == MANAGING)?;
    (managing.status == "False").then(|| managing.message.clone())
}

/// CDI's own controller, if it runs: it polls the sources of DataImportCrons as well.
pub async fn cdi(client: &Client) -> Option<Acting> {
    const DEPLOYMENT: &str = "cdi-deployment";
    let api: Api<Deployment> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={DEPLOYMENT}"));
    // A user who may not list Deployments gets the error about Medley's controller, which names the next step as well.
    let found = api.list(&named).await.ok()?;
    let running = found.items.into_iter().find(|it| {
        let status = it.status.as_ref();
        status.and_then(|it| it.available_replicas) > Some(0)
    })?;
    Some(Acting::Other {
        name: "CDI".to_owned(),
        deployment: format!("{}/{DEPLOYMENT}", running.namespace().unwrap_or_default()),
    })
}
