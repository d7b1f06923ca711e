//! The virtual machines of a fleet's file: each is made once.

use std::collections::BTreeSet;

use kube::api::{DynamicObject, PostParams};
use kube::{Api, Client};
use runtime::{Error, Key};

use crate::memory::Memory;
use crate::model::{Fleet, Machine};
use crate::operators::{self, virtual_machine};

/// The entry of what is remembered.
const ENTRY: &str = "machines";

/// Makes the machines of a fleet that have never been made. Their kind has to be served.
pub(crate) async fn register(client: &Client, fleet: &Fleet) -> Result<(), Error> {
    if fleet.virtual_machines.is_empty() {
        return Ok(());
    }
    let mut memory = Memory::read(client, ENTRY).await?;
    let before = memory.known.len();
    let mut namespaces = BTreeSet::new();
    for object in fleet.virtual_machines.iter().flat_map(Machine::objects) {
        let machine: DynamicObject = serde_json::from_value(object)
            .map_err(|error| Error::Invalid(format!("a machine of the fleet: {error}")))?;
        let key = Key::of(&machine.metadata);
        if !memory.known.insert(key.to_string()) {
            continue;
        }
        if namespaces.insert(key.namespace.clone()) {
            operators::namespace(client, &key.namespace).await?;
        }
        let api: Api<DynamicObject> =
            Api::namespaced_with(client.clone(), &key.namespace, &virtual_machine());
        match api.create(&PostParams::default(), &machine).await {
            Err(kube::Error::Api(status)) if status.code == 409 => {}
            made => {
                made.map_err(Error::api(format!("create machine {key}")))?;
            }
        }
    }
    if memory.known.len() == before {
        return Ok(());
    }
    memory.write().await
}
