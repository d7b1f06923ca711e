//! Default roles and bindings, reconciled at every start as in kube-apiserver
//! (`component-helpers/auth/rbac/reconciliation`): removed rules are restored, added ones kept; an
//! annotation on the object disables both.

mod reconcile;
mod table;
#[cfg(test)]
mod tests;

use machinery::gvk::split_api_version;
use machinery::meta;
use machinery::status::Status;
use serde_json::Value;

use self::reconcile::{Action, reconcile};
use super::recreate;
use crate::kind::Part;
use crate::resource::Resource;
use crate::rest::{Changed, Context, UpdateJob, create_internal, record_update, update_object};
use crate::server::Refused;

/// Creates missing objects and reconciles existing ones.
pub(super) async fn ensure(context: &Context) -> Result<(), Status> {
    let objects = table::read(table::TEXT).map_err(|why| Status::internal(&why))?;
    // Roles and bindings are independent, and written concurrently they cost one fsync.
    futures::future::try_join_all(objects.iter().map(|object| ensure_one(context, object))).await?;
    Ok(())
}

async fn ensure_one(context: &Context, expected: &Value) -> Result<(), Status> {
    let snapshot = context.state.registry.snapshot();
    let resource = split_api_version(meta::api_version(expected))
        .and_then(|(group, version)| snapshot.find_kind(group, version, meta::kind(expected)))
        .ok_or_else(Status::unknown_resource)?;
    let key = resource.key(meta::namespace(expected), meta::name(expected));
    let Some(entry) = context.state.store.get(&key) else {
        return create_internal(context, expected.clone()).await.map(|_| ());
    };
    if entry.damage().is_some() {
        return recreate(context, resource, &entry, expected).await;
    }
    let existing = resource.read(&entry)?;
    match reconcile(&existing, expected) {
        Action::Nothing => Ok(()),
        Action::Update(_) => update(context, resource, expected).await,
        Action::Recreate => {
            let removed = context
                .state
                .remove_object(resource, &entry, existing)
                .await;
            // A lost race means that another start removed it; creating it then decides.
            if let Err(Refused::Failed(status)) = removed {
                return Err(*status);
            }
            create_internal(context, expected.clone()).await.map(|_| ())
        }
    }
}

async fn update(context: &Context, resource: &Resource, expected: &Value) -> Result<(), Status> {
    let (namespace, name) = (meta::namespace(expected), meta::name(expected));
    let job = UpdateJob::new(resource, namespace, name, Part::Main, false);
    let change = |live: &Value| {
        let mut object = match reconcile(live, expected) {
            Action::Update(object) => object,
            Action::Nothing | Action::Recreate => live.clone(),
        };
        record_update(context, resource, Part::Main, live, &mut object);
        Ok(Changed { object })
    };
    update_object(context, &job, &change).await.map(|_| ())
}
