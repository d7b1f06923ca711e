//! Template history of workloads, stored as ControllerRevisions.
//!
//! StatefulSets and DaemonSets keep earlier templates for `kubectl rollout undo`. A revision holds
//! a patch that restores its template; names and numbers are those of kube-controller-manager's
//! history package.

mod decide;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use runtime::{Absent, Cache, Error, Index, Manager};
use serde_json::json;

use super::pods::{Selector, controller_of, matches};
use decide::Plan;
pub(super) use decide::{hash, surplus, template};

/// The workload of a history.
#[derive(Debug)]
pub(super) struct Owner<'a> {
    /// Its metadata.
    pub meta: &'a ObjectMeta,
    /// The owner reference in its revisions.
    pub reference: OwnerReference,
    /// Selector of its revisions.
    pub selector: &'a Selector,
    /// Its current template.
    pub template: &'a PodTemplateSpec,
    /// Label with the hash of a revision.
    pub hash_label: &'static str,
}

/// The revisions of all workloads.
#[derive(Clone)]
pub(super) struct History {
    client: Client,
    revisions: Cache<ControllerRevision>,
    orphans: Index<ControllerRevision>,
}

impl History {
    /// Starts the cache of revisions.
    pub(super) fn new(manager: &Manager) -> Self {
        let revisions = manager.cache::<ControllerRevision>();
        let orphans = revisions.index(|revision| {
            let owned = controller_of(&revision.metadata).is_some();
            let namespace = (!owned).then(|| revision.namespace().unwrap_or_default());
            namespace.into_iter().collect()
        });
        Self {
            client: manager.client(),
            revisions,
            orphans,
        }
    }

    /// Waits until the cache has synced.
    pub(super) async fn synced(&self) {
        self.revisions.synced().await;
    }

    /// The revisions of a workload, oldest first. Matching ones without a controller are adopted
    /// first, unless the workload is being deleted.
    pub(super) async fn of(
        &self,
        owner: &Owner<'_>,
    ) -> Result<Vec<Arc<ControllerRevision>>, Error> {
        let namespace = owner.meta.namespace.as_deref().unwrap_or_default();
        let uid = owner.meta.uid.as_deref().unwrap_or_default();
        let ours = |revision: &Arc<ControllerRevision>| matches(owner.selector, &revision.metadata);
        let mut revisions = self.revisions.controlled_by(uid);
        revisions.retain(&ours);
        if owner.meta.deletion_timestamp.is_none() {
            for orphan in self.orphans.find(namespace).iter().filter(|one| ours(one)) {
                if orphan.metadata.deletion_timestamp.is_none() {
                    revisions.extend(self.adopt(owner, orphan).await?);
                }
            }
        }
        decide::sort(&mut revisions);
        Ok(revisions)
    }

    /// Adopts an orphan, with a precondition that it still is one.
    async fn adopt(
        &self,
        owner: &Owner<'_>,
        orphan: &ControllerRevision,
    ) -> Result<Option<Arc<ControllerRevision>>, Error> {
        let patch = json!({ "metadata": {
            "uid": orphan.metadata.uid,
            "resourceVersion": orphan.metadata.resource_version,
            "ownerReferences": [owner.reference],
        }});
        let name = orphan.name_any();
        let adopted = self
            .api(owner)
            .patch(&name, &PatchParams::default(), &Patch::Strategic(&patch))
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("adopt controllerrevision {name}")))?;
        if let Some(adopted) = &adopted {
            self.revisions.saw(adopted).await;
        }
        Ok(adopted.map(Arc::new))
    }

    /// The revision of the current template: the newest, an older one with a new number, or a new
    /// one. `collisions` counts names taken by other templates.
    pub(super) async fn current(
        &self,
        owner: &Owner<'_>,
        revisions: &[Arc<ControllerRevision>],
        collisions: &mut i32,
    ) -> Result<Arc<ControllerRevision>, Error> {
        match decide::plan(revisions, owner.template) {
            Plan::Keep(revision) => Ok(revision),
            Plan::Renumber(revision, number) => self.renumber(owner, &revision, number).await,
            Plan::Create(number) => self.create(owner, number, collisions).await,
        }
    }

    async fn renumber(
        &self,
        owner: &Owner<'_>,
        revision: &ControllerRevision,
        number: i64,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let name = revision.name_any();
        let renumbered = ControllerRevision {
            revision: number,
            ..revision.clone()
        };
        let renumbered = self
            .api(owner)
            .replace(&name, &PostParams::default(), &renumbered)
            .await
            .map_err(Error::api(format!("renumber controllerrevision {name}")))?;
        self.revisions.saw(&renumbered).await;
        Ok(Arc::new(renumbered))
    }

    async fn create(
        &self,
        owner: &Owner<'_>,
        number: i64,
        collisions: &mut i32,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let api = self.api(owner);
        loop {
            let fresh = render(owner, number, *collisions);
            let name = fresh.name_any();
            let operation = || Error::api(format!("create controllerrevision {name}"));
            match api.create(&PostParams::default(), &fresh).await {
                Ok(created) => {
                    self.revisions.saw(&created).await;
                    return Ok(Arc::new(created));
                }
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => return Err(operation()(error)),
            }
            // The name is taken: by an interrupted reconcile, or by another template.
            let known = api.get(&name).await.map_err(operation())?;
            if template(&known).as_ref() == Some(owner.template) {
                self.revisions.saw(&known).await;
                return Ok(Arc::new(known));
            }
            *collisions += 1;
        }
    }

    /// Deletes the oldest unused revisions beyond the limit.
    pub(super) async fn truncate(
        &self,
        owner: &Owner<'_>,
        revisions: &[Arc<ControllerRevision>],
        live: &HashSet<String>,
        limit: i32,
    ) -> Result<(), Error> {
        for revision in surplus(revisions, live, limit) {
            self.delete(owner, revision).await?;
        }
        Ok(())
    }

    /// Deletes a revision; a missing one is no error.
    pub(super) async fn delete(
        &self,
        owner: &Owner<'_>,
        revision: &ControllerRevision,
    ) -> Result<(), Error> {
        let name = revision.name_any();
        let this_very_one = DeleteParams::default().preconditions(Preconditions {
            uid: revision.metadata.uid.clone(),
            resource_version: None,
        });
        self.api(owner)
            .delete(&name, &this_very_one)
            .await
            .not_found_as_none()
            .map_err(Error::api(format!("delete controllerrevision {name}")))?;
        self.revisions.wait_for_deletion(&revision.metadata).await;
        Ok(())
    }

    fn api(&self, owner: &Owner<'_>) -> Api<ControllerRevision> {
        let namespace = owner.meta.namespace.as_deref().unwrap_or_default();
        Api::namespaced(self.client.clone(), namespace)
    }
}

/// A new revision of the current template.
fn render(owner: &Owner<'_>, number: i64, collisions: i32) -> ControllerRevision {
    let data = decide::data(owner.template);
    let hash = hash(&data, Some(collisions));
    let template = owner.template.metadata.as_ref();
    let mut labels: BTreeMap<String, String> = template
        .and_then(|meta| meta.labels.clone())
        .unwrap_or_default();
    labels.insert(owner.hash_label.to_owned(), hash.clone());
    let prefix = owner.meta.name.as_deref().unwrap_or_default();
    ControllerRevision {
        metadata: ObjectMeta {
            // Names of workloads are ASCII; a longer one is truncated as upstream does.
            name: Some(format!("{}-{hash}", &prefix[..prefix.len().min(223)])),
            namespace: owner.meta.namespace.clone(),
            labels: Some(labels),
            annotations: owner.meta.annotations.clone(),
            owner_references: Some(vec![owner.reference.clone()]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

#[cfg(test)]
mod tests;
