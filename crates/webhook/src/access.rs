//! Whether a user may approve, by the rules of the cluster.

use std::time::Duration;

use api::advisor::{GROUP, PLURAL, VERSION};
use governance::admission::APPROVE_VERB;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::review::User;

/// How long the cluster may take to say; the API server waits ten seconds for the whole answer.
const PATIENCE: Duration = Duration::from_secs(8);

/// Whether a user may approve a VirtPlatformConfig; the error says why that is not known.
pub(crate) async fn may_approve(client: &Client, user: &User, name: &str) -> Result<bool, String> {
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            user: Some(user.username.clone()),
            uid: Some(user.uid.clone()).filter(|uid| !uid.is_empty()),
            groups: Some(user.groups.clone()),
            extra: Some(user.extra.clone()),
            resource_attributes: Some(ResourceAttributes {
                group: Some(GROUP.to_owned()),
                version: Some(VERSION.to_owned()),
                resource: Some(PLURAL.to_owned()),
                verb: Some(APPROVE_VERB.to_owned()),
                name: Some(name.to_owned()),
                ..ResourceAttributes::default()
            }),
            ..SubjectAccessReviewSpec::default()
        },
        ..SubjectAccessReview::default()
    };
    let api: Api<SubjectAccessReview> = Api::all(client.clone());
    let operation = format!(
        "asking whether user {:?} may {APPROVE_VERB} {PLURAL}.{GROUP} {name:?}",
        user.username
    );
    let params = PostParams::default();
    let asked = tokio::time::timeout(PATIENCE, api.create(&params, &review)).await;
    let Ok(answer) = asked else {
        return Err(format!("{operation}: no answer in {PATIENCE:?}"));
    };
    let answer = answer.map_err(|error| chassis::Error::api(operation)(error).to_string())?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
