//! Permissions of a user, by SubjectAccessReview.

use std::time::Duration;

use api::advisor::{GROUP, PLURAL, VERSION};
use governance::admission::APPROVE_VERB;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use kube::Client;

use crate::review::User;

/// Timeout of the access review, below the ten seconds that the API server waits for the whole response.
const ACCESS_REVIEW_TIMEOUT: Duration = Duration::from_secs(8);

impl User {
    /// The user as the subject of an access review.
    pub(crate) fn subject(&self) -> SubjectAccessReviewSpec {
        SubjectAccessReviewSpec {
            user: Some(self.username.clone()),
            uid: Some(self.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(self.groups.clone()),
            extra: Some(self.extra.clone()),
            ..SubjectAccessReviewSpec::default()
        }
    }
}

/// Whether a user may approve a VirtPlatformConfig; the error explains why that is unknown.
pub(crate) async fn may_approve(client: &Client, user: &User, name: &str) -> Result<bool, String> {
    let what = ResourceAttributes {
        group: Some(GROUP.to_owned()),
        version: Some(VERSION.to_owned()),
        resource: Some(PLURAL.to_owned()),
        verb: Some(APPROVE_VERB.to_owned()),
        name: Some(name.to_owned()),
        ..ResourceAttributes::default()
    };
    let who = user.subject();
    let review = runtime::access::may(client, &who, what);
    match tokio::time::timeout(ACCESS_REVIEW_TIMEOUT, review).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "checking whether user {:?} may {APPROVE_VERB} {PLURAL}.{GROUP} {name:?}: no answer in {ACCESS_REVIEW_TIMEOUT:?}",
            user.username
        )),
    }
}
