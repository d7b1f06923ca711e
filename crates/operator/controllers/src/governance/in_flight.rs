//! Live reads of the objects that in-flight gates depend on.
//!
//! Listed when a disruptive item is about to start, and not watched: gates matter for minutes in a month, and a watch of
//! all migrations of a cluster would cost memory all the time.

use std::sync::Arc;

use governance::in_flight::{Matcher, Probe, Reading, schema};
use governance::snapshot::whole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, pinned_kind};
use kube::{Api, Client, ResourceExt as _};
use runtime::{Absent as _, Error, OptionalKinds};

/// Objects of one response; the list of a kind is read in parts.
const PAGE: u32 = 500;

/// A kind that is served, and its CRD, if it has one.
type Located = (ApiResource, Option<Arc<CustomResourceDefinition>>);

/// Reads what gates depend on. Whatever goes wrong is part of the reading, which then holds the item.
pub(super) async fn read(client: &Client, kinds: &OptionalKinds, probes: &[Probe]) -> Vec<Reading> {
    let mut readings = Vec::new();
    for probe in probes {
        readings.push(Reading {
            gate: probe.gate.clone(),
            kind: probe.kind.clone(),
            found: read_kind(client, kinds, probe).await,
        });
    }
    readings
}

async fn read_kind(
    client: &Client,
    kinds: &OptionalKinds,
    probe: &Probe,
) -> Result<Vec<(String, String)>, String> {
    let located = locate(client, kinds, probe).await;
    let Some((resource, definition)) = located.map_err(|error| error.to_string())? else {
        if probe.optional {
            return Ok(Vec::new());
        }
        return Err(format!(
            "kind {} of group \"{}\" is not served in version {}",
            probe.kind,
            probe.group,
            probe.versions.join(" or ")
        ));
    };
    let schema = definition.and_then(|definition| schema(&definition, &resource.version));
    let matcher = probe.compile(schema.as_ref())?;
    list(client, &resource, matcher).await
}

/// How the kind of a probe is served; `None` if it is not.
async fn locate(
    client: &Client,
    kinds: &OptionalKinds,
    probe: &Probe,
) -> Result<Option<Located>, Error> {
    if let Some(installed) = kinds.kind(&probe.group, &probe.kind) {
        let mut versions = probe.versions.iter();
        let version = versions.find(|version| installed.serves(version));
        return Ok(version.map(|version| {
            let kind = GroupVersionKind::gvk(&probe.group, version, &probe.kind);
            let resource = ApiResource::from_gvk_with_plural(&kind, &installed.plural);
            (resource, Some(Arc::clone(&installed.definition)))
        }));
    }
    // A kind of a preset that has no CRD is not installed.
    let Some(version) = probe.versions.first().filter(|_| !probe.optional) else {
        return Ok(None);
    };
    let kind = GroupVersionKind::gvk(&probe.group, version, &probe.kind);
    let operation = format!("looking up kind {} of {}", kind.kind, kind.api_version());
    match pinned_kind(client, &kind).await.not_found_as_none() {
        Ok(found) => Ok(found.map(|(resource, _)| (resource, None))),
        // The group is served, and the kind is not.
        Err(kube::Error::Discovery(_)) => Ok(None),
        Err(error) => Err(Error::api(operation)(error)),
    }
}

async fn list(
    client: &Client,
    resource: &ApiResource,
    mut matcher: Matcher,
) -> Result<Vec<(String, String)>, String> {
    let api: Api<DynamicObject> = Api::all_with(client.clone(), resource);
    let mut page = ListParams::default().limit(PAGE);
    let mut found = Vec::new();
    loop {
        let listed = api.list(&page).await;
        let operation = format!("listing {}", resource.plural);
        let listed = listed.map_err(|error| Error::api(operation)(error).to_string())?;
        for object in &listed.items {
            let named = (object.namespace().unwrap_or_default(), object.name_any());
            let in_flight = matcher.is_in_flight(&whole(object));
            let (kind, name) = (&resource.kind, &named.1);
            if in_flight.map_err(|why| format!("{kind} {name}: {why}"))? {
                found.push(named);
            }
        }
        match listed.metadata.continue_.filter(|next| !next.is_empty()) {
            Some(next) => page = page.continue_token(&next),
            None => return Ok(found),
        }
    }
}
