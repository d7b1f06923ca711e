//! Writing the status of a ClusterOperator.

use api::openshift::{ClusterOperator, ClusterOperatorSpec, ObjectReference, OperandVersion};
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::status::{State, next};
use crate::versions::Versions;

/// Attempts of a write that conflicts.
const MAX_WRITE_ATTEMPTS: usize = 10;

/// Writes one ClusterOperator.
#[derive(Clone)]
pub struct Reporter {
    client: Client,
    name: String,
    related: Vec<ObjectReference>,
}

/// Result of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// The status is current.
    Unchanged,
    /// The status was written.
    Changed {
        /// The versions before, which may be the same.
        from: Vec<OperandVersion>,
        /// The object after the write.
        object: Box<ClusterOperator>,
    },
    /// ClusterOperators are not served: not an OpenShift cluster.
    NotInstalled,
}

impl Written {
    /// Message of an event if the versions changed; its reason is `OperatorVersionChanged` by convention.
    pub fn event(&self, name: &str) -> Option<String> {
        let Self::Changed { from, object } = self else {
            return None;
        };
        let to = object.versions();
        (from != to).then(|| {
            format!(
                "clusteroperator/{name} version changed from {} to {}",
                listed(from),
                listed(to)
            )
        })
    }
}

/// The format of OpenShift's operators: `[{operator 4.18.0}]`.
pub(crate) fn listed(versions: &[OperandVersion]) -> String {
    let all = versions.iter();
    let all: Vec<String> = all
        .map(|it| format!("{{{} {}}}", it.name, it.version))
        .collect();
    format!("[{}]", all.join(" "))
}

/// Why the ClusterOperator was not written.
#[derive(Debug, thiserror::Error)]
#[error("{operation} ClusterOperator {name}: {}", message(cause))]
pub struct WriteError {
    operation: &'static str,
    name: String,
    cause: Box<kube::Error>,
}

fn message(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

fn code(error: &kube::Error) -> Option<u16> {
    match error {
        kube::Error::Api(status) => Some(status.code),
        _ => None,
    }
}

// The crate is a library for other operators, so it writes with kube alone: Medley's runtime, whose Writer the
// controllers use, would bring its caches, metrics and leader election along.
impl Reporter {
    /// Writes to the ClusterOperator of this name, and creates it if it does not exist.
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Self {
            client,
            name: name.into(),
            related: Vec::new(),
        }
    }

    /// Sets `relatedObjects` of a ClusterOperator that has none.
    #[must_use]
    pub fn with_related(mut self, related: Vec<ObjectReference>) -> Self {
        self.related = related;
        self
    }

    /// Name of the ClusterOperator.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Writes versions and conditions in one status update, unless they are current.
    pub async fn report(&self, versions: &Versions, state: &State) -> Result<Written, WriteError> {
        let api: Api<ClusterOperator> = Api::all(self.client.clone());
        let mut tries = 0;
        loop {
            let Some(mut object) = self.find(&api).await? else {
                return Ok(Written::NotInstalled);
            };
            let old = object.status.take().unwrap_or_default();
            let mut wanted = next(&old, versions, state, now());
            if wanted.related_objects.is_empty() {
                wanted.related_objects.clone_from(&self.related);
            }
            if wanted == old {
                return Ok(Written::Unchanged);
            }
            let from = old.versions;
            object.status = Some(wanted);
            let written = api
                .replace_status(&self.name, &PostParams::default(), &object)
                .await;
            tries += 1;
            match written {
                Ok(object) => {
                    let object = Box::new(object);
                    return Ok(Written::Changed { from, object });
                }
                // Another client modified or deleted the object: read it again.
                Err(error)
                    if matches!(code(&error), Some(404 | 409)) && tries < MAX_WRITE_ATTEMPTS => {}
                Err(error) => return Err(self.failed("writing the status of", error)),
            }
        }
    }

    /// Reads the object, or creates it; `None` if the kind is not served.
    async fn find(
        &self,
        api: &Api<ClusterOperator>,
    ) -> Result<Option<ClusterOperator>, WriteError> {
        // A 404 has two causes; the create tells them apart: it fails with 404 only if the kind is not served.
        match api.get(&self.name).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) if code(&error) == Some(404) => {}
            Err(error) => return Err(self.failed("reading", error)),
        }
        let object = ClusterOperator::new(&self.name, ClusterOperatorSpec::default());
        match api.create(&PostParams::default(), &object).await {
            Ok(made) => Ok(Some(made)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            // Another client created it meanwhile.
            Err(error) if code(&error) == Some(409) => match api.get(&self.name).await {
                Ok(found) => Ok(Some(found)),
                Err(error) => Err(self.failed("reading", error)),
            },
            Err(error) => Err(self.failed("creating", error)),
        }
    }

    fn failed(&self, operation: &'static str, cause: kube::Error) -> WriteError {
        WriteError {
            operation,
            name: self.name.clone(),
            cause: Box::new(cause),
        }
    }
}

/// The current time in whole seconds, as the API keeps it: otherwise a status would differ from the one read back.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
