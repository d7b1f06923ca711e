//! Writing what an operator says.

use api::openshift::{ClusterOperator, ClusterOperatorSpec, ObjectReference, OperandVersion};
use jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client};

use crate::status::{State, next};
use crate::versions::Versions;

/// How often something is written again when somebody else was faster.
const TRIES: usize = 10;

/// Writes to one ClusterOperator.
#[derive(Clone)]
pub struct Reporter {
    client: Client,
    name: String,
    related: Vec<ObjectReference>,
}

/// What came of a report.
#[derive(Debug, Clone, PartialEq)]
pub enum Written {
    /// It was said already.
    Unchanged,
    /// It is said now.
    Changed {
        /// The versions before; often those of now.
        from: Vec<OperandVersion>,
        /// The ClusterOperator as it is now.
        object: Box<ClusterOperator>,
    },
    /// The cluster has no ClusterOperators.
    NotInstalled,
}

impl Written {
    /// What an event is to say if other versions are reported than before: its reason is usually
    /// `OperatorVersionChanged`.
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

/// As operators tell it: `[{operator 4.18.0}]`.
pub(crate) fn listed(versions: &[OperandVersion]) -> String {
    let all = versions.iter();
    let all: Vec<String> = all
        .map(|it| format!("{{{} {}}}", it.name, it.version))
        .collect();
    format!("[{}]", all.join(" "))
}

/// Why nothing was said.
#[derive(Debug, thiserror::Error)]
#[error("{operation} ClusterOperator {name}: {}", said(cause))]
pub struct WriteError {
    operation: &'static str,
    name: String,
    cause: Box<kube::Error>,
}

fn said(error: &kube::Error) -> String {
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

impl Reporter {
    /// Writes to the ClusterOperator of this name, and makes it if it is not there.
    pub fn new(client: Client, name: impl Into<String>) -> Self {
        Self {
            client,
            name: name.into(),
            related: Vec::new(),
        }
    }

    /// The same, with objects that tell more of the operator, for a ClusterOperator that names none.
    #[must_use]
    pub fn with_related(mut self, related: Vec<ObjectReference>) -> Self {
        self.related = related;
        self
    }

    /// The ClusterOperator that is written to.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Says this, in one write of the status, unless it is said already.
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
                // Somebody else was faster, or took the object away: what is there now counts.
                Err(error) if matches!(code(&error), Some(404 | 409)) && tries < TRIES => {}
                Err(error) => return Err(self.failed("writing the status of", error)),
            }
        }
    }

    /// The object, which is made if it is not there; none if the kind is not served.
    async fn find(
        &self,
        api: &Api<ClusterOperator>,
    ) -> Result<Option<ClusterOperator>, WriteError> {
        // A kind that nobody serves is answered with 404 as well, but not as an object is.
        match api.get(&self.name).await {
            Ok(found) => return Ok(Some(found)),
            Err(error) if code(&error) == Some(404) => {}
            Err(error) => return Err(self.failed("reading", error)),
        }
        let object = ClusterOperator::new(&self.name, ClusterOperatorSpec::default());
        match api.create(&PostParams::default(), &object).await {
            Ok(made) => Ok(Some(made)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            // Somebody else was faster.
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

/// The time, as precise as Kubernetes writes it: else a status would differ from what is read back.
fn now() -> Timestamp {
    let now = Timestamp::now();
    Timestamp::from_second(now.as_second()).unwrap_or(now)
}
