//! DataVolumes that are copies of what is in another namespace: whoever makes one has to be allowed to.

use api::cdi::{DataSource, DataVolume};
use golden_images::cdi::{access, copy};
use kube::Client;
use serde_json::Value;

use super::machine::get;
use super::{Asked, read};
use crate::review::{Refusal, allowed, denied};

/// Refuses a copy from another namespace that its maker may not make, in the words of CDI.
///
/// What is not known yet is asked again by the operator, about the service account of the namespace.
pub(super) async fn review(client: &Client, asked: &Asked) -> Result<Value, Refusal> {
    let passed = || Ok(allowed(Vec::new(), Vec::new()));
    if asked.old.is_some() {
        return passed();
    }
    let volume: DataVolume = read(&asked.new)?;
    if !copy::is_copy(&volume) {
        return passed();
    }
    let source = match copy::source_of(&volume) {
        Some(name) => get::<DataSource>(client, &name).await?,
        None => None,
    };
    let Ok(original) = copy::original(&volume, source.as_ref()) else {
        return passed();
    };
    let Some(there) = copy::elsewhere(&original, &volume) else {
        return passed();
    };
    let user = &asked.user;
    let rights = access::rights(&original);
    let may = runtime::access::may_any(client, &user.subject(), rights).await;
    let may = may.map_err(|error| Refusal {
        code: 500,
        message: error.to_string(),
    })?;
    if may {
        return passed();
    }
    Ok(denied(&access::denial(&user.username, &there)))
}
