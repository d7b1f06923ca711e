//! Whether a user may do something, by the rules of the cluster.

use std::time::Duration;

use api::advisor::{GROUP, PLURAL, VERSION};
use governance::admission::APPROVE_VERB;
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReviewSpec};
use kube::Client;

use crate::review::User;

/// How long the cluster may take to say; the API server waits ten seconds for the whole answer.
const PATIENCE: Duration = Duration::from_secs(8);

impl User {
    /// Who it is, as the cluster is asked about it.
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

/// Whether a user may approve a VirtPlatformConfig; the error says why that is not known.
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
    let asked = runtime::access::may(client, &who, what);
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(answer) => answer.map_err(|error| error.to_string()),
        Err(_) => Err(format!(
            "asking whether user {:?} may {APPROVE_VERB} {PLURAL}.{GROUP} {name:?}: no answer in {PATIENCE:?}",
            user.username
        )),
    }
}
