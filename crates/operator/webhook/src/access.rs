//! What a review needs from the API server: permissions of a user, by SubjectAccessReview, and the profile of a
//! configuration.

use std::time::Duration;

use api::advisor::{GROUP, PLURAL, VERSION};
use api::profile::PlatformProfile;
use governance::admission::APPROVE_VERB;
use k8s_openapi::api::authentication::v1::UserInfo;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use kube::{Api, Client};
use runtime::Absent as _;

/// Timeout of the access review, below the ten seconds that the API server waits for the whole response.
const ACCESS_REVIEW_TIMEOUT: Duration = Duration::from_secs(8);

/// A user as the subject of an access review.
pub(crate) fn subject(user: &UserInfo) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: user.username.clone(),
        uid: user.uid.clone().filter(|uid| !uid.is_empty()),
        groups: user.groups.clone(),
        extra: user.extra.clone(),
        ..SubjectAccessReviewSpec::default()
    }
}

/// Whether a user may approve a VirtPlatformConfig; the error explains why that is unknown.
pub(crate) async fn may_approve(
    client: &Client,
    user: &UserInfo,
    name: &str,
) -> Result<bool, String> {
    let what = ResourceAttributes {
        group: Some(GROUP.to_owned()),
        version: Some(VERSION.to_owned()),
        resource: Some(PLURAL.to_owned()),
        verb: Some(APPROVE_VERB.to_owned()),
        name: Some(name.to_owned()),
        ..ResourceAttributes::default()
    };
    let who = subject(user);
    let review = runtime::access::may(client, &who, what);
    match tokio::time::timeout(ACCESS_REVIEW_TIMEOUT, review).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        // An error and not "may not": the API server then reports that the request failed and can be retried. A
        // denial would look like a missing RBAC rule.
        Err(_) => Err(format!(
            "checking whether user {:?} may {APPROVE_VERB} {PLURAL}.{GROUP} {name:?}: no answer in {ACCESS_REVIEW_TIMEOUT:?}",
            user.username.as_deref().unwrap_or_default()
        )),
    }
}

/// The PlatformProfile of this name, if it exists; the error explains why that is unknown.
pub(crate) async fn profile(
    client: &Client,
    name: &str,
) -> Result<Option<PlatformProfile>, String> {
    let api: Api<PlatformProfile> = Api::all(client.clone());
    let what = || format!("reading PlatformProfile {name:?}");
    match tokio::time::timeout(ACCESS_REVIEW_TIMEOUT, api.get(name)).await {
        // The API server answers 404 for a kind that is not installed, too.
        Ok(found) => found
            .not_found_as_none()
            .map_err(|error| format!("{}: {error}", what())),
        Err(_) => Err(format!(
            "{}: no answer in {ACCESS_REVIEW_TIMEOUT:?}",
            what()
        )),
    }
}
