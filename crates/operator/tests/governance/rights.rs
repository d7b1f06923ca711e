//! Our operator has the rights that are shipped with it, and no others: every suite here proves that
//! they are enough.

use std::collections::BTreeSet;
use std::sync::Arc;

use anyhow::Context as _;
use governance::{Registry, roles};
use http::{Request, StatusCode};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use operator::{ACCOUNT, Job};
use parking_lot::Mutex;
use testkit::{TestCluster, wait_until};

use crate::stage::{NAMESPACE, PATIENCE};

/// Requests that were forbidden; there must be none. Looked at when it is dropped.
#[derive(Default)]
pub(crate) struct Forbidden(Arc<Mutex<Vec<String>>>);

impl Drop for Forbidden {
    fn drop(&mut self) {
        let forbidden = self.0.lock();
        if !std::thread::panicking() {
            assert!(
                forbidden.is_empty(),
                "the operator was forbidden {forbidden:?}"
            );
        }
    }
}

/// A client for our operator, when it has these jobs and these profiles.
pub(crate) async fn client(
    cluster: &TestCluster,
    jobs: &BTreeSet<Job>,
    registry: &Registry,
    forbidden: &Forbidden,
) -> anyhow::Result<Client> {
    operator::grant(&cluster.client(), NAMESPACE, registry, jobs).await?;
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let client = cluster.client_as(&user, &["system:serviceaccounts", "system:authenticated"])?;
    // A genuine server notices new rights a moment later.
    let everywhere: Vec<_> = jobs.iter().flat_map(|job| job.rules(registry)).collect();
    let at_home = roles::operator_namespace_rules();
    let rights = questions(&everywhere, None).chain(questions(&at_home, Some(NAMESPACE)));
    for right in rights {
        let what = format!("{ACCOUNT} has the right {right:?}");
        wait_until(&what, PATIENCE, async || {
            Ok(allowed(&client, &right).await?.then_some(()))
        })
        .await?;
    }
    let forbidden = Arc::clone(&forbidden.0);
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, forbidden) = (client.clone(), Arc::clone(&forbidden));
        async move {
            let asked = format!("{} {}", request.method(), request.uri());
            let answer = client.send(request).await;
            if let Ok(answer) = &answer
                && answer.status() == StatusCode::FORBIDDEN
            {
                forbidden.lock().push(asked);
            }
            answer
        }
    });
    Ok(Client::new(service, "default"))
}

/// Everything that rules allow, one by one.
fn questions<'a>(
    rules: &'a [PolicyRule],
    namespace: Option<&'a str>,
) -> impl Iterator<Item = ResourceAttributes> + 'a {
    rules.iter().flat_map(move |rule| {
        let groups = rule.api_groups.iter().flatten();
        groups.flat_map(move |group| {
            let resources = rule.resources.iter().flatten();
            resources.flat_map(move |resource| {
                let (resource, part) = match resource.split_once('/') {
                    Some((resource, part)) => (resource, Some(part.to_owned())),
                    None => (resource.as_str(), None),
                };
                // One of several names will do.
                let name = rule.resource_names.as_ref().and_then(|names| names.first());
                rule.verbs.iter().map(move |verb| ResourceAttributes {
                    name: name.cloned(),
                    group: Some(group.clone()),
                    resource: Some(resource.to_owned()),
                    subresource: part.clone(),
                    verb: Some(verb.clone()),
                    namespace: namespace.map(str::to_owned),
                    ..ResourceAttributes::default()
                })
            })
        })
    })
}

async fn allowed(client: &Client, question: &ResourceAttributes) -> anyhow::Result<bool> {
    let review = SelfSubjectAccessReview {
        spec: SelfSubjectAccessReviewSpec {
            resource_attributes: Some(question.clone()),
            ..SelfSubjectAccessReviewSpec::default()
        },
        ..SelfSubjectAccessReview::default()
    };
    let answer = Api::all(client.clone())
        .create(&PostParams::default(), &review)
        .await
        .with_context(|| format!("asking about {question:?}"))?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}
