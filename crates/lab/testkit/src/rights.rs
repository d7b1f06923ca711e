//! A client with exactly the shipped RBAC rules, to verify that they suffice.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use api::rbac::questions;
use http::{Request, StatusCode};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SelfSubjectAccessReview, SelfSubjectAccessReviewSpec,
};
use k8s_openapi::api::rbac::v1::PolicyRule;
use kube::api::PostParams;
use kube::client::Body;
use kube::{Api, Client};
use parking_lot::Mutex;

use crate::{TestCluster, wait_until};

/// Timeout until the API server applies new RBAC rules.
const RBAC_TIMEOUT: Duration = Duration::from_mins(1);

/// Requests that were forbidden. Panics on drop if there are any.
#[derive(Default)]
pub struct Forbidden(Arc<Mutex<Vec<String>>>);

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

impl Forbidden {
    /// A client of a service account (`namespace`, `name`) with these rules: cluster-wide, and in
    /// its own namespace.
    pub async fn client(
        &self,
        cluster: &TestCluster,
        account: (&str, &str),
        everywhere: &[PolicyRule],
        at_home: &[PolicyRule],
    ) -> anyhow::Result<Client> {
        let (namespace, name) = account;
        let user = format!("system:serviceaccount:{namespace}:{name}");
        let client =
            cluster.client_as(&user, &["system:serviceaccounts", "system:authenticated"])?;
        // kube-apiserver applies new RBAC rules with a delay.
        let rights = questions(everywhere, None).chain(questions(at_home, Some(namespace)));
        for right in rights {
            let what = format!("{name} has the right {right:?}");
            wait_until(&what, RBAC_TIMEOUT, async || {
                Ok(allowed(&client, &right).await?.then_some(()))
            })
            .await?;
        }
        let forbidden = Arc::clone(&self.0);
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
