//! Whether a controller will act on a change: a change that no controller acts on should be refused, not reported as
//! done.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::time::Duration;

use api::golden::GoldenImagePolicy;
use api::mode::reasons;
use api::operators::RunningOperator;
use api::published::{LEASE, PublishedOperator, RENEW_INTERVAL};
use cluster_view::operators::OperatorObjects;
use cluster_view::policies;
use golden_images::layers::{CDI, Layer};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::ListParams;
use kube::{Api, Client};
use manifests::Job;
use runtime::{Absent as _, Error};

/// How long a Lease is observed whose renewal looks old: the clocks may disagree. One renewal is sure to be among it.
const OBSERVATION: Duration = Duration::from_secs(RENEW_INTERVAL.as_secs().unsigned_abs() + 3);
/// The interval of reads during an observation.
const OBSERVATION_INTERVAL: Duration = Duration::from_secs(1);
/// The layer of golden images that imports and polls.
const LAYER: Layer = Layer::Cdi;

/// The operators whose Leases were found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Operators {
    /// Those that renew their Lease.
    pub running: Vec<PublishedOperator>,
    /// Those that do not.
    pub gone: Vec<PublishedOperator>,
    /// Why others may exist that were not found: the error of a read.
    pub unreadable: Option<String>,
}

/// Which controller acts on a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Acting {
    /// A controller of this operator.
    Operator(Job, PublishedOperator),
    /// The genuine operator of another project.
    Genuine(Box<RunningOperator>),
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
            Self::Genuine(operator) => {
                write!(f, "{} ({})", operator.operator.title, operator.found_by())
            }
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
        let operator = PublishedOperator::read(&lease);
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
async fn is_renewed(client: &Client, seen: &PublishedOperator) -> bool {
    let api: Api<Lease> = Api::namespaced(client.clone(), &seen.namespace);
    let observing = async {
        loop {
            tokio::time::sleep(OBSERVATION_INTERVAL).await;
            // An unreadable or deleted Lease is not renewed.
            let lease = api.get(LEASE).await.ok()?;
            if PublishedOperator::read(&lease).renewed != seen.renewed {
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

/// The controller that acts on a pin of a golden image. The error names the operator that imports the images instead.
pub async fn acting_on_pins(
    client: &Client,
    operators: &Operators,
    now: Timestamp,
) -> Result<Acting, Error> {
    if let Some(cdi) = running_cdi(client, now).await {
        // Not the advice to enable the controller: it only assists while CDI runs.
        return Err(Error::Invalid(format!(
            "no controller would act on this change: {} ({}) imports the images, and has no pins; {}",
            cdi.operator.title,
            cdi.found_by(),
            cdi.next_step(LAYER.component())
        )));
    }
    let acting = acting(operators, Job::ImagesCdi, now);
    let policy: Option<GoldenImagePolicy> = policies::read(client).await?;
    match not_managing(policy.as_ref()) {
        Some(message) => Err(Error::Invalid(format!(
            "no controller would act on this change: {message}"
        ))),
        None => acting,
    }
}

/// The controller that polls the source of an image. CDI does, too, and is named while it runs.
pub async fn acting_on_polls(
    client: &Client,
    operators: &Operators,
    now: Timestamp,
) -> Result<Acting, Error> {
    match running_cdi(client, now).await {
        Some(cdi) => Ok(Acting::Genuine(Box::new(cdi))),
        None => acting(operators, Job::ImagesCdi, now),
    }
}

/// Why the controller that imports images does not, by its own report: `spec.mode` may tell it not to.
fn not_managing(policy: Option<&GoldenImagePolicy>) -> Option<String> {
    let status = policy?.status.as_ref()?;
    let mut conditions = status.conditions.iter();
    let managing = conditions.find(|it| it.type_ == LAYER.condition())?;
    let is_disabled = managing.reason == reasons::NOT_ENABLED;
    (managing.status == "False" && !is_disabled).then(|| managing.message.clone())
}

/// CDI, if it runs. For a user who may not list Deployments and Leases, it does not: the controller's own report names it, too.
pub async fn running_cdi(client: &Client, now: Timestamp) -> Option<RunningOperator> {
    let found = OperatorObjects::read(client, [CDI]).await.ok()?;
    found.running(&CDI, now)
}
