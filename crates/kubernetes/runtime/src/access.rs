//! Access checks with SubjectAccessReviews.

mod endpoint_authorizer;

pub use endpoint_authorizer::{AccessVerdict, EndpointAuthorizer};

use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::PostParams;
use kube::{Api, Client};

use crate::Error;

/// Whether a user may perform an action. The client needs permission to create `subjectaccessreviews`.
pub async fn may(
    client: &Client,
    who: &SubjectAccessReviewSpec,
    what: ResourceAttributes,
) -> Result<bool, Error> {
    let operation = format!(
        "checking whether user {:?} may {}",
        who.user.as_deref().unwrap_or_default(),
        described(&what)
    );
    let review = SubjectAccessReview {
        spec: SubjectAccessReviewSpec {
            resource_attributes: Some(what),
            ..who.clone()
        },
        ..SubjectAccessReview::default()
    };
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let answer = reviews.create(&PostParams::default(), &review).await;
    let answer = answer.map_err(Error::api(operation))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// An action in the words of `kubectl auth can-i`: `get pods/log web`.
pub fn described(what: &ResourceAttributes) -> String {
    let after = |before: &str, part: &Option<String>| match part.as_deref() {
        None | Some("") => String::new(),
        Some(part) => format!("{before}{part}"),
    };
    [
        after("", &what.verb),
        after(" ", &what.resource),
        after("/", &what.subresource),
        after(".", &what.group),
        after(" ", &what.name),
    ]
    .concat()
}

/// Whether a user may perform every action of at least one list.
pub async fn is_allowed_any(
    client: &Client,
    who: &SubjectAccessReviewSpec,
    lists: Vec<Vec<ResourceAttributes>>,
) -> Result<bool, Error> {
    // The lists are alternatives (OR of ANDs), as with several RBAC rules that each would do. Reviews run one after
    // the other because the first list usually decides: a cluster admin costs one review, not all of them.
    for list in lists {
        let mut all = true;
        for what in list {
            all = all && may(client, who, what).await?;
        }
        if all {
            return Ok(true);
        }
    }
    Ok(false)
}
