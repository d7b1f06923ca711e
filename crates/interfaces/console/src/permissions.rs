//! Permissions of a user, by SelfSubjectAccessReviews.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};
use parking_lot::Mutex;

/// How long an answer is cached. It only decides what is shown; the API server authorizes every
/// write.
const CACHE_LIFETIME: Duration = Duration::from_secs(15);

/// A permission.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Permission {
    /// The verb.
    pub(crate) verb: &'static str,
    /// The API group; empty for the core group.
    pub(crate) group: String,
    /// The plural name of the kind.
    pub(crate) resource: String,
    /// The namespace; all namespaces if `None`.
    pub(crate) namespace: Option<String>,
}

impl Permission {
    /// The permission for a verb on a kind.
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

/// Cached permissions of a user.
#[derive(Default)]
pub(crate) struct PermissionCache {
    known: Mutex<HashMap<Permission, (Instant, bool)>>,
}

impl PermissionCache {
    /// Whether the user has the permission.
    pub(crate) async fn may(
        &self,
        client: &Client,
        permission: &Permission,
    ) -> Result<bool, kube::Error> {
        if let Some((answered_at, may)) = self.known.lock().get(permission)
            && answered_at.elapsed() < CACHE_LIFETIME
        {
            return Ok(*may);
        }
        let review = SelfSubjectAccessReview {
            spec: SelfSubjectAccessReviewSpec {
                resource_attributes: Some(ResourceAttributes {
                    verb: Some(permission.verb.to_owned()),
                    group: Some(permission.group.clone()),
                    resource: Some(permission.resource.clone()),
                    namespace: permission.namespace.clone(),
                    ..ResourceAttributes::default()
                }),
                ..SelfSubjectAccessReviewSpec::default()
            },
            ..SelfSubjectAccessReview::default()
        };
        let reviews: Api<SelfSubjectAccessReview> = Api::all(client.clone());
        // Without a lock: concurrent requests may ask twice, which is cheaper than making all pages
        // wait for one review.
        let answer = reviews.create(&PostParams::default(), &review).await?;
        let may = answer.status.is_some_and(|status| status.allowed);
        let mut known = self.known.lock();
        known.insert(permission.clone(), (Instant::now(), may));
        Ok(may)
    }
}
