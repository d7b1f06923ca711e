//! The virtual machines of a fleet file: each is created once.

use std::collections::BTreeSet;

use kube::Client;
use kube::api::DynamicObject;
use runtime::{Error, Key, Writer};

use crate::memory::CreatedNames;
use crate::model::{Fleet, Machine};
use crate::operators::{self, virtual_machine};

/// Key in the fleet's ConfigMap.
const ENTRY: &str = "machines";

/// Creates the virtual machines of a fleet that were never created before. Requires the
/// VirtualMachine kind to be served.
pub(crate) async fn register(client: &Client, fleet: &Fleet) -> Result<(), Error> {
    if fleet.virtual_machines.is_empty() {
        return Ok(());
    }
    let mut memory = CreatedNames::read(client, ENTRY).await?;
    let before = memory.known.len();
    let mut namespaces = BTreeSet::new();
    let writer = Writer::dynamic(client.clone(), &virtual_machine());
    for object in fleet.virtual_machines.iter().flat_map(Machine::objects) {
        let machine: DynamicObject = serde_json::from_value(object)
            .map_err(|error| Error::Invalid(format!("virtual machine of the fleet: {error}")))?;
        let key = Key::of(&machine.metadata);
        if !memory.known.insert(key.to_string()) {
            continue;
        }
        if namespaces.insert(key.namespace.clone()) {
            operators::namespace(client, &key.namespace).await?;
        }
        writer.create_if_absent(&machine).await?;
    }
    if memory.known.len() == before {
        return Ok(());
    }
    memory.write().await
}
