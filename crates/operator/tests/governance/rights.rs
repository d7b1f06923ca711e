//! Our operator has the rights that are shipped with it, and no others: every suite here proves that
//! they are enough.

use std::sync::Arc;

use governance::Registry;
use http::{Request, StatusCode};
use kube::Client;
use kube::client::Body;
use operator::ACCOUNT;
use parking_lot::Mutex;
use testkit::TestCluster;

use crate::stage::NAMESPACE;

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

/// A client for our operator, when it has these profiles.
pub(crate) async fn client(
    cluster: &TestCluster,
    registry: &Registry,
    forbidden: &Forbidden,
) -> anyhow::Result<Client> {
    operator::grant(&cluster.client(), NAMESPACE, registry).await?;
    let user = format!("system:serviceaccount:{NAMESPACE}:{ACCOUNT}");
    let client = cluster.client_as(&user, &["system:serviceaccounts", "system:authenticated"])?;
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
