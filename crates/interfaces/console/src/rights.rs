//! What a user may do, by the rules of the cluster.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;

/// How long an answer is believed. It decides what is shown; what is done is decided by the server
/// each time.
const BELIEVED: Duration = Duration::from_secs(15);

/// Something that somebody may or may not do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Right {
    /// The verb.
    pub(crate) verb: &'static str,
    /// The group of the kind; empty for the core.
    pub(crate) group: String,
    /// The plural name of the kind.
    pub(crate) resource: String,
    /// The namespace; everywhere, if there is none.
    pub(crate) namespace: Option<String>,
}

impl Right {
    /// To do something to the objects of a kind.
    pub(crate) fn to<K: kube::Resource<DynamicType = ()>>(
        verb: &'static str,
        namespace: Option<&str>,
    ) -> Self {
        Self {
            verb,
            group: K::group(&()).into_owned(),
            resource: K::plural(&()).into_owned(),
            namespace: namespace.map(str::to_owned),
        }
    }
}

/// What a user was told they may do, lately.
#[derive(Default)]
pub(crate) struct Rights {
    known: Mutex<HashMap<Right, (Instant, bool)>>,
}

impl Rights {
    /// Whether they may.
    pub(crate) async fn may(&self, client: &Client, right: &Right) -> Result<bool, kube::Error> {
        if let Some((asked, may)) = self.known.lock().get(right)
            && asked.elapsed() < BELIEVED
        {
            return Ok(*may);
        }
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(right.verb.to_owned()),
                    group: Some(right.group.clone()),
                    resource: Some(right.resource.clone()),
                    namespace: right.namespace.clone(),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let may = answer.status.is_some_and(|status| status.allowed);
        let mut known = self.known.lock();
        known.insert(right.clone(), (Instant::now(), may));
        Ok(may)
    }
}
