//! The service accounts of new pods: the `ServiceAccount` admission plugin.

use std::time::Duration;

use machinery::status::Status;
use serde_json::Value;

use super::{Attributes, Operation};
use crate::builtin::pod_identity::{self, Wants};
use crate::resource::Resource;
use crate::server::State;

/// How often the account `default` is looked for: its controller makes it a little after the
/// namespace.
const TRIES: usize = 10;
/// The shortest wait between looks, in milliseconds; as much comes on top by chance.
const WAIT: u64 = 100;

/// Gives a new pod its account, the token of it and its pull secrets, or refuses the pod.
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
    let name = match pod_identity::wants(pod)? {
        Wants::Nothing => return Ok(()),
        Wants::Account(name) => name,
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
        TRIES
    } else {
        1
    };
    for attempt in 0..tries {
        if attempt > 0 {
            let wait = Duration::from_millis(WAIT + state.random_below(WAIT));
            tokio::time::sleep(wait).await;
        }
        if let Some(entry) = state.store.get(&key) {
            return entry.object().ok().map(|account| (*account).clone());
        }
    }
    None
}
