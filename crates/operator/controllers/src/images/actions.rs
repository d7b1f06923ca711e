//! Carrying out what was decided: the [`Action`]s of the crate `golden`.
//!
//! ```text
//! Create --> refused if it is there          Patch --> refused if it is gone
//! Delete --> fine if it is gone; only the object that was looked at
//!   then: wait until the cache shows it
//! ```
//!
//! What is refused is no failure but a race: the error says so ([`Error::is_race`]), and what there
//! is now is looked at again.

use std::collections::BTreeSet;

use api::cdi::{DataImportCron, DataSource, DataVolume};
use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use golden_images::action::{Action, Kind, Named};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::{
    DeleteParams, DynamicObject, ObjectMeta, Patch, PatchParams, PostParams, Preconditions,
};
use kube::core::{GroupVersionKind, NamespaceResourceScope};
use kube::discovery::ApiResource;
use kube::{Api, Resource};
use runtime::{Absent as _, Cache, Error, Key, Manager};
use serde_json::{Value, json};

/// Actions under way at the same time: what each takes is waiting for a disk.
const AT_A_TIME: usize = 16;

/// Carries out actions in the name of one component.
#[derive(Clone)]
pub struct Actions {
    manager: Manager,
    component: &'static str,
}

/// Something to be done to an object.
enum Step<'a> {
    Create(&'a Value),
    Patch(&'a Value),
    Status(&'a Value),
    Delete,
}

impl Step<'_> {
    /// What it is called in errors.
    fn name(&self) -> &'static str {
        match self {
            Self::Create(_) => "creating",
            Self::Patch(_) => "changing",
            Self::Status(_) => "writing the status of",
            Self::Delete => "deleting",
        }
    }
}

impl Actions {
    /// Nothing is done yet. The component is the field manager of what is written.
    pub fn new(manager: &Manager, component: &'static str) -> Self {
        Self {
            manager: manager.clone(),
            component,
        }
    }

    /// Carries out all, in their order; neighbours that do the same to different objects of one kind, some
    /// at a time. When this returns, the caches of the manager show it.
    ///
    /// The first that cannot be carried out ends it; the next decision begins with what there is then.
    pub async fn carry_out(&self, actions: &[Action]) -> Result<(), Error> {
        let mut later = actions;
        while !later.is_empty() {
            let (now, rest) = later.split_at(alike(later));
            later = rest;
            let mut now = now.iter();
            let mut under_way = FuturesUnordered::new();
            let mut outcome = Ok(());
            loop {
                while outcome.is_ok()
                    && under_way.len() < AT_A_TIME
                    && let Some(action) = now.next()
                {
                    under_way.push(self.act(action));
                }
                // What has begun is seen to its end: half a request is worse than one too many.
                let Some(done) = under_way.next().await else {
                    break;
                };
                outcome = outcome.and(done);
            }
            outcome?;
        }
        Ok(())
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        let (kind, step) = match action {
            Action::Create { kind, object } => (*kind, Step::Create(object)),
            Action::Patch { kind, patch, .. } => (*kind, Step::Patch(patch)),
            Action::Delete { kind, .. } => (*kind, Step::Delete),
        };
        self.take(kind, &action.of(), step).await
    }

    /// Puts a status in the place of the one there is, wherever the definition of the kind has it.
    pub async fn write_status(
        &self,
        kind: Kind,
        of: &Named,
        status: &impl serde::Serialize,
    ) -> Result<(), Error> {
        let status = json!([{ "op": "add", "path": "/status", "value": status }]);
        self.take(kind, of, Step::Status(&status)).await
    }

    async fn take(&self, kind: Kind, of: &Named, step: Step<'_>) -> Result<(), Error> {
        match kind {
            Kind::DataImportCron => self.take_known::<DataImportCron>(kind, of, step).await,
            Kind::DataSource => self.take_known::<DataSource>(kind, of, step).await,
            Kind::DataVolume => self.take_known::<DataVolume>(kind, of, step).await,
            Kind::Claim => {
                self.take_known::<PersistentVolumeClaim>(kind, of, step)
                    .await
            }
            Kind::Snapshot | Kind::Template => {
                let of_kind = gvk(kind);
                let foreign = self.manager.foreign();
                let cache = foreign.open(&of_kind).await?;
                let api = foreign.api(&of_kind, Some(&of.namespace));
                let (Some(cache), Some(api)) = (cache, api) else {
                    return Err(Error::Invalid(format!(
                        "{} {}: the kind is not installed; its CustomResourceDefinition is needed",
                        step.name(),
                        title(kind, of),
                    )));
                };
                self.run(kind, of, step, api, &cache).await
            }
        }
    }

    async fn take_known<K>(&self, kind: Kind, of: &Named, step: Step<'_>) -> Result<(), Error>
    where
        K: runtime::Kind<DynamicType = ()> + Resource<Scope = NamespaceResourceScope>,
    {
        let resource = ApiResource::erase::<K>(&());
        let client = self.manager.client();
        let api = Api::namespaced_with(client, &of.namespace, &resource);
        self.run(kind, of, step, api, &self.manager.cache::<K>())
            .await
    }

    async fn run<K: runtime::Kind>(
        &self,
        kind: Kind,
        of: &Named,
        step: Step<'_>,
        api: Api<DynamicObject>,
        cache: &Cache<K>,
    ) -> Result<(), Error> {
        let failed = Error::api(format!("{} {}", step.name(), title(kind, of)));
        let params = PatchParams {
            field_manager: Some(self.component.to_owned()),
            ..PatchParams::default()
        };
        let written = match step {
            Step::Create(object) => {
                let mut object = object.clone();
                let (version, name) = kind.type_of();
                object["apiVersion"] = json!(version);
                object["kind"] = json!(name);
                let object = serde_json::from_value(object).map_err(|error| {
                    Error::Invalid(format!("creating {}: {error}", title(kind, of)))
                })?;
                let params = PostParams {
                    field_manager: Some(self.component.to_owned()),
                    ..PostParams::default()
                };
                api.create(&params, &object).await
            }
            Step::Patch(patch) => api.patch(&of.name, &params, &Patch::Merge(patch)).await,
            Step::Status(patch) => {
                let patch = serde_json::from_value(patch.clone()).map_err(|error| {
                    Error::Invalid(format!(
                        "writing the status of {}: {error}",
                        title(kind, of)
                    ))
                })?;
                let patch = Patch::Json::<()>(patch);
                if self.has_status(kind) {
                    api.patch_status(&of.name, &params, &patch).await
                } else {
                    api.patch(&of.name, &params, &patch).await
                }
            }
            Step::Delete => {
                let known = cache.find(&Key::new(&of.namespace, &of.name));
                let known: Option<ObjectMeta> = known.map(|it| it.meta().clone());
                let params = DeleteParams {
                    // Another one of the same name was not looked at.
                    preconditions: known.as_ref().map(|known| Preconditions {
                        uid: known.uid.clone(),
                        resource_version: None,
                    }),
                    ..DeleteParams::default()
                };
                api.delete(&of.name, &params)
                    .await
                    .or_absent()
                    .map_err(failed)?;
                if let Some(known) = known {
                    cache.saw_deletion(&known).await;
                }
                return Ok(());
            }
        };
        cache.saw(&written.map_err(failed)?).await;
        Ok(())
    }

    /// Whether the status of a kind is written apart from the rest. That of DataImportCrons and
    /// DataSources is not, as CDI defines them today.
    fn has_status(&self, kind: Kind) -> bool {
        let of_kind = gvk(kind);
        let installed = self.manager.foreign().kind(&of_kind.group, &of_kind.kind);
        installed.is_none_or(|installed| {
            let mut versions = installed.definition.spec.versions.iter();
            versions.any(|version| {
                let parts = version.subresources.as_ref();
                version.name == of_kind.version && parts.is_some_and(|it| it.status.is_some())
            })
        })
    }
}

/// How many of the first actions do the same to different objects of one kind: it does not matter which
/// of them comes first.
fn alike(actions: &[Action]) -> usize {
    let what = |action: &Action| match action {
        Action::Create { kind, .. } => (*kind, 0),
        Action::Patch { kind, .. } => (*kind, 1),
        Action::Delete { kind, .. } => (*kind, 2),
    };
    let first = actions.first().map(what);
    let mut objects = BTreeSet::new();
    let same = |it: &&Action| Some(what(it)) == first && objects.insert(it.of());
    actions.iter().take_while(same).count()
}

/// A kind as the API knows it.
pub fn gvk(kind: Kind) -> GroupVersionKind {
    let (version, name) = kind.type_of();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    GroupVersionKind::gvk(group, version, name)
}

fn title(kind: Kind, of: &Named) -> String {
    format!("{} {}/{}", kind.type_of().1, of.namespace, of.name)
}
