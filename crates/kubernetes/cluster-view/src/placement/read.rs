//! Reads of single objects within an admission request.

use std::fmt::Debug;

use kube::Api;
use serde::de::DeserializeOwned;

/// Reads an object, and retries once after a connection error: the server may have closed a pooled
/// connection just as it was used, and that should not fail the admission of a pod.
pub(crate) async fn read<K>(api: &Api<K>, name: &str) -> kube::Result<Option<K>>
where
    K: Clone + Debug + DeserializeOwned,
{
    match api.get_opt(name).await {
        Ok(found) => Ok(found),
        // An answer, even an error, is final: repeating it would double the load on an API server that is refusing
        // requests, within the ten seconds that an admission webhook has.
        Err(error @ kube::Error::Api(_)) => Err(error),
        Err(_) => api.get_opt(name).await,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Namespace;
    use kube::Client;
    use kube::client::Body;
    use serde_json::json;
    use tower::service_fn;

    use super::*;

    /// An API server that fails this many requests, and the number of attempts.
    fn after(failures: usize) -> (Api<Namespace>, Arc<AtomicUsize>) {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        let answer = service_fn(move |_: Request<Body>| {
            let lost = count.fetch_add(1, Ordering::SeqCst) < failures;
            async move {
                if lost {
                    return Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
                }
                let found = json!({ "metadata": { "name": "shop" } }).to_string();
                Ok(Response::new(Body::from(found.into_bytes())))
            }
        });
        (Api::all(Client::new(answer, "default")), asked)
    }

    #[tokio::test]
    async fn connection_error_is_retried_once() {
        let (api, asked) = after(1);
        let found = read(&api, "shop").await.unwrap().unwrap();
        assert_eq!(found.metadata.name.as_deref(), Some("shop"));
        assert_eq!(asked.load(Ordering::SeqCst), 2);
        let (api, asked) = after(9);
        assert!(read(&api, "shop").await.is_err());
        assert_eq!(asked.load(Ordering::SeqCst), 2);
    }
}
