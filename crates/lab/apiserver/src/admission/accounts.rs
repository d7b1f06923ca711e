//! The service accounts of new pods: the `ServiceAccount` admission plugin.

use std::time::Duration;

use machinery::status::Status;
use serde_json::Value;

use super::{Attributes, Operation};
use crate::builtin::pod_identity;
use crate::resource::Resource;
use crate::server::State;

/// Number of lookups of the account `default`: its controller creates it shortly after the
/// namespace.
// Ten attempts, 100 to 200 ms apart, as `plugin/pkg/admission/serviceaccount/admission.go`. Only
// for `default`: another account that is missing has not been created by its user.
const MAX_LOOKUPS: usize = 10;
/// Minimum wait between lookups, in milliseconds; jitter adds up to as much again.
const MIN_WAIT_MS: u64 = 100;

/// Sets the service account of a new pod, its token volume and its pull secrets, or rejects the
/// pod.
pub(super) async fn admit(attributes: &Attributes<'_>, object: &mut Value) -> Result<(), Status> {
    let Some(resource) = attributes.target.resource else {
        return Ok(());
    };
    let state = &attributes.context.state;
    let is_new_pod = attributes.operation == Operation::Create
        && attributes.target.subresource.is_empty()
        && resource.info.gvk.group.is_empty()
        && resource.info.gvk.kind == "Pod";
    if !state.service_accounts || !is_new_pod {
        return Ok(());
    }
    let admitted = admit_pod(state, attributes.namespace, object).await;
    admitted.map_err(|why| {
        let name = Resource::display_name(object);
        Status::forbidden(Some(&resource.group_resource()), &name, &why)
    })
}

async fn admit_pod(state: &State, namespace: &str, pod: &mut Value) -> Result<(), String> {
    let Some(name) = pod_identity::required_account(pod)? else {
        return Ok(());
    };
    let account = find(state, namespace, &name).await.ok_or_else(|| {
        format!(
            "error looking up service account {namespace}/{name}: serviceaccount \"{name}\" not found"
        )
    })?;
    pod_identity::admit(pod, &name, &account, || state.random())
}

async fn find(state: &State, namespace: &str, name: &str) -> Option<Value> {
    let key = format!("/registry/serviceaccounts/{namespace}/{name}");
    let tries = if name == pod_identity::DEFAULT {
        MAX_LOOKUPS
    } else {
        1
    };
    for attempt in 0..tries {
        if attempt > 0 {
            let wait = Duration::from_millis(MIN_WAIT_MS + state.random_below(MIN_WAIT_MS));
            tokio::time::sleep(wait).await;
        }
        if let Some(entry) = state.store.get(&key) {
            return entry.object().ok().map(|account| (*account).clone());
        }
    }
    None
}
