//! Live objects of the kinds that a profile uses.

use std::collections::BTreeMap;
use std::sync::Arc;

use governance::Registry;
use governance::profile::KindUse;
use governance::snapshot::{Kind, Snapshot};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DynamicObject, ListParams};
use kube::core::GroupVersionKind;
use kube::discovery::ApiResource;
use kube::{Api, Client, ResourceExt as _};
use runtime::{Cache, Change, Error, Manager, OptionalKinds};

use super::target::TargetWrite;

/// The objects of built-in kinds that profiles read by name: reading all Deployments of a cluster for one of them would
/// cost memory and permissions.
#[derive(Clone, Default)]
pub(super) struct NamedObjects {
    caches: Vec<(KindUse, Cache<DynamicObject>)>,
}

impl NamedObjects {
    /// Starts watching the objects that any of the profiles names.
    pub(super) fn watch(manager: &Manager, registry: &Registry) -> Self {
        let mut named = Self::default();
        for uses in registry.iter().flat_map(|profile| profile.uses()) {
            let (Some(name), Some(version)) = (uses.named, uses.versions.first()) else {
                continue;
            };
            if named.cache(uses).is_some() {
                continue;
            }
            let api = Api::all_with(manager.client(), &resource(uses, version));
            let (cache, reflector) = Cache::follow_named(api, name);
            manager.spawn(reflector);
            named.caches.push((*uses, cache));
        }
        named
    }

    /// Waits until all objects are listed, or the server has rejected that.
    pub(super) async fn answered(&self) {
        for (_, cache) in &self.caches {
            cache.answered().await;
        }
    }

    /// Calls `notify` with the kind of every object that changes.
    pub(super) fn on_change(&self, notify: impl Fn(&KindUse) + Clone + Send + Sync + 'static) {
        for (uses, cache) in &self.caches {
            let (notify, uses) = (notify.clone(), *uses);
            cache.on_change(move |_: &Change<DynamicObject>| notify(&uses));
        }
    }

    fn cache(&self, uses: &KindUse) -> Option<&Cache<DynamicObject>> {
        let mut caches = self.caches.iter();
        let found = caches.find(|(of, _)| of.of == uses.of && of.named == uses.named);
        found.map(|(_, cache)| cache)
    }
}

fn resource(uses: &KindUse, version: &str) -> ApiResource {
    let kind = GroupVersionKind::gvk(uses.of.group, version, uses.of.kind);
    ApiResource::from_gvk_with_plural(&kind, uses.plural)
}

/// Whether a group is part of Kubernetes: a CRD has to have a group with a dot.
fn is_built_in(group: &str) -> bool {
    !group.contains('.')
}

/// The preferred version of a kind among those that are served.
fn version(foreign: &OptionalKinds, uses: &KindUse) -> Option<GroupVersionKind> {
    let kind = |version: &str| GroupVersionKind::gvk(uses.of.group, version, uses.of.kind);
    match foreign.kind(uses.of.group, uses.of.kind) {
        Some(installed) => {
            let mut versions = uses.versions.iter();
            versions
                .find(|version| installed.serves(version))
                .map(|version| kind(version))
        }
        // Built-in kinds have no CRD. For a kind that is not installed, `OptionalKinds` opens no cache.
        None => uses.versions.first().map(|version| kind(version)),
    }
}

/// Starts watching kinds; those that are not installed yet are watched as soon as they are.
pub(super) fn follow(foreign: &OptionalKinds, uses: &[KindUse]) {
    for one in uses.iter().filter(|one| one.named.is_none()) {
        if let Some(kind) = version(foreign, one) {
            foreign.follow(&kind);
        }
    }
}

/// The current objects, from caches.
pub(super) async fn gather(
    foreign: &OptionalKinds,
    named: &NamedObjects,
    uses: &[KindUse],
) -> Result<Snapshot, Error> {
    let mut snapshot = Snapshot::default();
    for one in uses {
        if let (Some(cache), Some(version)) = (named.cache(one), one.versions.first()) {
            if let Some(why) = cache.rejection().filter(|_| !cache.is_synced()) {
                snapshot.insert_unreadable(one.of, why);
                continue;
            }
            let objects = cache.list().into_iter();
            let kind = Kind {
                version: (*version).to_owned(),
                plural: one.plural.to_owned(),
                definition: None,
                objects: objects.map(|object| (key(&object), object)).collect(),
            };
            snapshot.insert(one.of, kind);
            continue;
        }
        let Some(kind) = version(foreign, one) else {
            continue;
        };
        // Before `open`, which waits for a list that may never come. A kind is reported, and not an error of the
        // reconcile: nothing else of the configuration depends on it, and the status has to name it.
        if let Some(why) = foreign.rejection(&kind) {
            snapshot.insert_unreadable(one.of, why);
            continue;
        }
        let cache = match foreign.open(&kind).await {
            Ok(Some(cache)) => cache,
            Ok(None) => continue,
            Err(late) => {
                snapshot.insert_unreadable(one.of, late.to_string());
                continue;
            }
        };
        let objects = cache
            .list()
            .into_iter()
            .map(|object| (key(&object), object))
            .collect();
        // After the list was taken: a cache is marked as ended before it is emptied, so the empty list of a removed
        // kind is always recognised here.
        if cache.has_ended() {
            // An empty list would look like deleted targets; the retry sees whether the CRD is gone.
            return Err(Error::Late(format!(
                "listing {} ({}): the kind is no longer served",
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

/// The current objects, listed from the API server: for the CLI, and before disruptive items.
pub async fn look(client: &Client, uses: &[KindUse]) -> Result<Snapshot, Error> {
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
        // Profiles name no aggregated kinds: a group of another operator without a CRD is one that is not installed.
        if definition.is_none() && !is_built_in(one.of.group) {
            continue;
        }
        let Some(version) = one.versions.iter().copied().find(serves) else {
            continue;
        };
        let kind = GroupVersionKind::gvk(one.of.group, version, one.of.kind);
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &resource(one, version));
        let params = match one.named {
            Some(name) => ListParams::default().fields(&format!("metadata.name={name}")),
            None => ListParams::default(),
        };
        let listed = api.list(&params).await;
        let objects = match listed.map_err(Error::api(format!("listing {}", one.plural))) {
            Ok(objects) => objects,
            // An answer of the server, such as a missing permission.
            Err(error) if error.code().is_some() => {
                snapshot.insert_unreadable(one.of, error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        let objects: BTreeMap<_, _> = objects
            .items
            .into_iter()
            .map(|mut object| {
                // Items of a list carry no apiVersion and kind.
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

/// Waits until the cache shows a write.
pub(super) async fn wait_for_cache(foreign: &OptionalKinds, written: &TargetWrite) {
    let Some(cache) = foreign.cache(&written.kind) else {
        return;
    };
    match &written.object {
        Some(object) => cache.saw(object).await,
        None => cache.wait_for_deletion(&written.meta).await,
    }
}
