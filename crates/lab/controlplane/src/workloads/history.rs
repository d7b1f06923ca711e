//! Template history of workloads, stored as ControllerRevisions.
//!
//! StatefulSets and DaemonSets keep earlier templates for `kubectl rollout undo`. A revision holds
//! a patch that restores its template; names and numbers are those of kube-controller-manager's
//! history package.

mod decide;

use std::collections::HashSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::ControllerRevision;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::runtime::RawExtension;
use runtime::{Cache, Error, Key, Manager};

use super::pods::{Claims, Namespaced, Selector, controller_reference, matches};
use crate::object::name;
use decide::Plan;
pub(super) use decide::{hash, surplus, template};

/// The workload of a history.
#[derive(Debug)]
pub(super) struct Owner<'a, O> {
    pub object: &'a O,
    /// Selector of its revisions.
    pub selector: &'a Selector,
    /// Its current template.
    pub template: &'a PodTemplateSpec,
    /// Label with the hash of a revision.
    pub hash_label: &'static str,
}

/// The revisions of all workloads.
#[derive(Clone)]
pub(super) struct History(Claims<ControllerRevision>);

impl History {
    /// Starts the cache of revisions.
    pub(super) fn new(manager: &Manager) -> Self {
        Self(Claims::new(manager))
    }

    pub(super) fn cache(&self) -> &Cache<ControllerRevision> {
        &self.0.cache
    }

    /// The revisions of a workload, oldest first. Matching ones without a controller are adopted
    /// first, unless the workload is being deleted.
    pub(super) async fn of<O: Namespaced>(
        &self,
        owner: &Owner<'_, O>,
    ) -> Result<Vec<Arc<ControllerRevision>>, Error> {
        let mut around = self.0.around(owner.object.meta());
        around.retain(|revision| matches(owner.selector, &revision.metadata));
        let claimed = self.0.claim(owner.object, owner.selector, around).await;
        let mut revisions = claimed?;
        decide::sort(&mut revisions);
        Ok(revisions)
    }

    /// The revision of the current template: the newest, an older one with a new number, or a new
    /// one. `collisions` counts names taken by other templates.
    pub(super) async fn current<O: Namespaced>(
        &self,
        owner: &Owner<'_, O>,
        revisions: &[Arc<ControllerRevision>],
        collisions: &mut i32,
    ) -> Result<Arc<ControllerRevision>, Error> {
        let current = match decide::plan(revisions, owner.template) {
            Plan::Keep(revision) => return Ok(revision),
            Plan::Renumber(revision, number) => {
                let mut renumbered = ControllerRevision::clone(&revision);
                renumbered.revision = number;
                self.0.writer.replace(&renumbered).await?
            }
            Plan::Create(number) => self.create(owner, number, collisions).await?,
        };
        Ok(Arc::new(current))
    }

    async fn create<O: Namespaced>(
        &self,
        owner: &Owner<'_, O>,
        number: i64,
        collisions: &mut i32,
    ) -> Result<ControllerRevision, Error> {
        loop {
            let fresh = render(owner, number, *collisions);
            if let Some(created) = self.0.writer.create_if_absent(&fresh).await? {
                return Ok(created);
            }
            // The name is taken: by an interrupted reconcile, or by another template.
            let known = self.0.writer.get(&Key::of(&fresh.metadata)).await?;
            if let Some(known) = known
                && template(&known).as_ref() == Some(owner.template)
            {
                self.0.cache.saw(&known).await;
                return Ok(known);
            }
            *collisions += 1;
        }
    }

    /// Deletes the oldest unused revisions beyond the limit.
    pub(super) async fn truncate(
        &self,
        revisions: &[Arc<ControllerRevision>],
        live: &HashSet<String>,
        limit: i32,
    ) -> Result<(), Error> {
        for revision in surplus(revisions, live, limit) {
            self.delete(revision).await?;
        }
        Ok(())
    }

    /// Deletes a revision; a missing one is no error.
    pub(super) async fn delete(&self, revision: &ControllerRevision) -> Result<(), Error> {
        self.0.writer.delete(&revision.metadata).await.map(drop)
    }
}

/// A new revision of the current template.
fn render<O: Namespaced>(owner: &Owner<'_, O>, number: i64, collisions: i32) -> ControllerRevision {
    let meta = owner.object.meta();
    let data = decide::data(owner.template);
    let hash = hash(&data, Some(collisions));
    let template = owner.template.metadata.clone();
    let mut labels = template.and_then(|it| it.labels).unwrap_or_default();
    labels.insert(owner.hash_label.to_owned(), hash.clone());
    let prefix = name(meta);
    ControllerRevision {
        metadata: ObjectMeta {
            // Names of workloads are ASCII; a longer one is truncated as upstream does.
            name: Some(format!("{}-{hash}", &prefix[..prefix.len().min(223)])),
            namespace: meta.namespace.clone(),
            labels: Some(labels),
            annotations: meta.annotations.clone(),
            owner_references: Some(vec![controller_reference(owner.object)]),
            ..ObjectMeta::default()
        },
        data: Some(RawExtension(data)),
        revision: number,
    }
}

#[cfg(test)]
mod tests;
