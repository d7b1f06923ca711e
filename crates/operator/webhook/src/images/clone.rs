//! DataVolumes that clone from another namespace: the creator needs permission.

use api::cdi::{DataSource, DataVolume};
use golden_images::cdi::{access, clone};
use kube::Client;
use serde_json::Value;

use super::machine::get;
use super::{ImageRequest, read};
use crate::access::subject;
use crate::review::{Refusal, allowed, denied};

/// Denies a clone from another namespace that its creator may not make, with CDI's message.
///
/// A source that does not exist yet is checked later by the controller, for the service account of the namespace.
pub(super) async fn review(client: &Client, request: &ImageRequest) -> Result<Value, Refusal> {
    let passed = || Ok(allowed(Vec::new(), Vec::new()));
    if request.old.is_some() {
        return passed();
    }
    let volume: DataVolume = read(&request.new)?;
    if !clone::is_clone(&volume) {
        return passed();
    }
    let source = match clone::source_of(&volume) {
        Some(name) => get::<DataSource>(client, &name).await?,
        None => None,
    };
    // CDI does the same: a DataVolume may be created before its DataSource. The controller checks the service account
    // of the namespace once the source exists.
    let Ok(original) = clone::original(&volume, source.as_ref()) else {
        return passed();
    };
    let Some(there) = clone::elsewhere(&original, &volume) else {
        return passed();
    };
    let user = &request.user;
    let permissions = access::permissions(&original);
    let may = runtime::access::is_allowed_any(client, &subject(user), permissions).await;
    let may = may.map_err(|error| Refusal::later(error.to_string()))?;
    if may {
        return passed();
    }
    let username = user.username.as_deref().unwrap_or_default();
    Ok(denied(&access::denial(username, &there)))
}
