//! What there is in the cluster, of the kinds that a profile has to do with.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::advisor::TargetRef;
use governance::profile::Uses;
use governance::snapshot::{Kind, Snapshot};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use runtime::{Error, Foreign};

/// The version of a kind that is read: the best of those that are served.
fn version(foreign: &Foreign, uses: &Uses) -> Option<GroupVersionKind> {
    let kind = |version: &str| GroupVersionKind::gvk(uses.of.group, version, uses.of.kind);
    match foreign.kind(uses.of.group, uses.of.kind) {
        Some(installed) => {
            let mut versions = uses.versions.iter();
            versions
                .find(|version| installed.serves(version))
                .map(|version| kind(version))
        }
        // Built-in kinds have no definition; kinds that are not installed are found not to be there.
        None => uses.versions.first().map(|version| kind(version)),
    }
}

/// Declares interest in kinds: they are followed as soon as they are installed.
pub(super) fn follow(foreign: &Foreign, uses: &[Uses]) {
    for one in uses {
        if let Some(kind) = version(foreign, one) {
            foreign.follow(&kind);
        }
    }
}

/// What there is now, from caches.
pub(super) async fn gather(foreign: &Foreign, uses: &[Uses]) -> Result<Snapshot, Error> {
    let mut snapshot = Snapshot::default();
    for one in uses {
        let Some(kind) = version(foreign, one) else {
            continue;
        };
        let Some(cache) = foreign.open(&kind).await? else {
            continue;
        };
        let objects = cache
            .list()
            .into_iter()
            .map(|object| (key(&object), object))
            .collect();
        if cache.has_ended() {
            // Nothing is not what there was: the next look finds out what became of the kind.
            return Err(Error::Late(format!(
                "listing {} ({}): it ceased to be served meanwhile",
                kind.kind,
                kind.api_version()
            )));
        }
        let definition = foreign
            .kind(one.of.group, one.of.kind)
            .map(|installed| installed.definition);
        snapshot.insert(
            one.of,
            Kind {
                version: kind.version,
                plural: one.plural.to_owned(),
                definition,
                objects,
            },
        );
    }
    Ok(snapshot)
}

/// What there is now, asked for: for those who look once.
pub async fn look(client: &Client, uses: &[Uses]) -> Result<Snapshot, Error> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let listed = definitions
        .list(&ListParams::default())
        .await
        .map_err(Error::api("listing CustomResourceDefinitions"))?;
    let mut snapshot = Snapshot::default();
    for one in uses {
        let definition = listed.items.iter().find(|definition| {
            definition.spec.group == one.of.group && definition.spec.names.kind == one.of.kind
        });
        let serves = |version: &&str| {
            definition.is_none_or(|definition| {
                let mut versions = definition.spec.versions.iter();
                versions.any(|served| served.served && served.name == *version)
            })
        };
        if definition.is_none() && !one.of.group.is_empty() {
            continue;
        }
        let Some(version) = one.versions.iter().copied().find(serves) else {
            continue;
        };
        let kind = GroupVersionKind::gvk(one.of.group, version, one.of.kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, one.plural);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
        let objects = api
            .list(&ListParams::default())
            .await
            .map_err(Error::api(format!("listing {}", one.plural)))?;
        let objects: BTreeMap<_, _> = objects
            .items
            .into_iter()
            .map(|mut object| {
                // Lists leave out what all their items have in common.
                object.types = Some(kube::api::TypeMeta {
                    api_version: kind.api_version(),
                    kind: kind.kind.clone(),
                });
                (key(&object), Arc::new(object))
            })
            .collect();
        snapshot.insert(
            one.of,
            Kind {
                version: version.to_owned(),
                plural: one.plural.to_owned(),
                definition: definition.cloned().map(Arc::new),
                objects,
            },
        );
    }
    Ok(snapshot)
}

fn key(object: &DynamicObject) -> (String, String) {
    (object.namespace().unwrap_or_default(), object.name_any())
}

/// Waits until the caches show what was written.
pub(super) async fn saw(foreign: &Foreign, written: &Written) {
    let Some(cache) = foreign.cache(&written.kind) else {
        return;
    };
    match &written.object {
        Some(object) => cache.saw(object).await,
        None => cache.saw_deletion(&written.meta).await,
    }
}

/// Something that was written to a target.
#[derive(Debug)]
pub(super) struct Written {
    /// Its kind.
    pub(super) kind: GroupVersionKind,
    /// What it was, of what is known.
    pub(super) meta: kube::core::ObjectMeta,
    /// What it is; absent if it was deleted.
    pub(super) object: Option<DynamicObject>,
}

/// How the target of an item is reached.
pub(super) fn target(
    client: &Client,
    snapshot: &Snapshot,
    target: &TargetRef,
) -> Result<(Api<DynamicObject>, GroupVersionKind), Error> {
    let (group, version) = target
        .api_version
        .split_once('/')
        .unwrap_or(("", &target.api_version));
    let kind = GroupVersionKind::gvk(group, version, &target.kind);
    let Some(known) = snapshot.kind_of(target) else {
        return Err(Error::Invalid(format!(
            "reaching {target}: kind {} of {} is not installed",
            target.kind, target.api_version
        )));
    };
    let resource = ApiResource::from_gvk_with_plural(&kind, &known.plural);
    let api = match &target.namespace {
        Some(namespace) => Api::namespaced_with(client.clone(), namespace, &resource),
        None => Api::all_with(client.clone(), &resource),
    };
    Ok((api, kind))
}
