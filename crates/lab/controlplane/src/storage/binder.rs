//! The binder of claims and volumes.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ObjectReference, PersistentVolume, PersistentVolumeClaim};
use runtime::{Error, Events, Key, Manager, Next, Queue, Reconcile};

use super::claims::{self, ClaimInputs};
use super::volumes::{self, Reclaim};
use super::{
    BETA_PROVISIONER, BIND_COMPLETED, BOUND_BY_CONTROLLER, Caches, PROVISIONER, SELECTED_NODE,
    WORKERS, annotation, claim_class, claim_of, claim_ref, matching, node_name, of_class,
    volume_of, volume_phase,
};

/// State shared by both controllers.
struct Binder {
    caches: Caches,
    events: Events,
    claims: Queue<Key>,
}

/// Reconciles claims.
struct Claims(Arc<Binder>);
/// Reconciles volumes.
struct Volumes(Arc<Binder>);

pub(super) fn start(manager: &Manager, caches: Caches, claims: &Queue<Key>, volumes: &Queue<Key>) {
    let binder = Arc::new(Binder {
        caches,
        events: manager.events("persistentvolume-controller"),
        claims: claims.clone(),
    });
    manager.start(Claims(Arc::clone(&binder)), claims, WORKERS);
    manager.start(Volumes(binder), volumes, WORKERS);
}

impl Reconcile for Claims {
    fn name(&self) -> &'static str {
        "persistentvolume-claims"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let binder = &self.0;
        let Some(claim) = binder.caches.claims.find(key) else {
            return Ok(Next::Wait);
        };
        match binder.decide(key, &claim) {
            claims::Step::Bind(volume) => binder.bind(&volume, &claim).await?,
            claims::Step::Assign(class) => {
                let mut claim = claim.as_ref().clone();
                claim.spec.get_or_insert_default().storage_class_name = Some(class);
                binder.caches.claim_writer.replace(&claim).await?;
            }
            claims::Step::Provision(provisioner) => binder.provision(&claim, provisioner).await?,
            claims::Step::Pend(note) => {
                if let Some(note) = &note {
                    note.emit(&binder.events, claim.as_ref());
                }
                binder.write_claim_status(&claim, "Pending", None).await?;
            }
            claims::Step::Refuse(note) => note.emit(&binder.events, claim.as_ref()),
            claims::Step::Lose(note) => {
                if claim_phase(&claim) != Some("Lost") {
                    binder.write_claim_status(&claim, "Lost", None).await?;
                    note.emit(&binder.events, claim.as_ref());
                }
            }
        }
        Ok(Next::Wait)
    }
}

impl Reconcile for Volumes {
    fn name(&self) -> &'static str {
        "persistentvolume-volumes"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let binder = &self.0;
        let Some(volume) = binder.caches.volumes.find(key) else {
            return Ok(Next::Wait);
        };
        let claim = binder.claim_for(&volume).await?;
        match volumes::decide(&volume, claim.as_deref()) {
            volumes::Step::Phase(phase) => {
                binder.write_phase(&volume, phase, None).await?;
            }
            volumes::Step::Reclaim(then) => binder.reclaim(&volume, then).await?,
            volumes::Step::Unbind => binder.unbind(&volume).await?,
            volumes::Step::AskClaim => binder
                .claims
                .add(claim_of(&volume).unwrap_or_else(|| key.clone())),
            volumes::Step::Mismatch(of_volume, of_claim) => {
                of_volume.emit(&binder.events, volume.as_ref());
                if let Some(claim) = claim {
                    of_claim.emit(&binder.events, claim.as_ref());
                }
            }
        }
        Ok(Next::Wait)
    }
}

impl Binder {
    fn decide(&self, key: &Key, claim: &PersistentVolumeClaim) -> claims::Step {
        let mut candidates = self.caches.volumes_by_use.find(&key.to_string());
        if let Some(name) = volume_of(claim) {
            candidates.extend(self.caches.volumes.get("", name));
        } else {
            let free = of_class(claim_class(claim));
            candidates.extend(self.caches.volumes_by_use.find(&free));
        }
        let class = self.caches.classes.get("", claim_class(claim));
        let default_class = claims::default_class(&self.caches.classes.list());
        let selected = annotation(&claim.metadata, SELECTED_NODE);
        let node = selected.and_then(|name| self.caches.nodes.get("", name));
        let pods = self.caches.pods_by_claim.find(&key.to_string());
        let waiting: Vec<String> = pods
            .iter()
            .filter(|pod| node_name(pod).is_none())
            .filter_map(|pod| pod.metadata.name.clone())
            .collect();
        let around = ClaimInputs {
            volumes: &candidates,
            class: class.as_deref(),
            default_class: default_class.as_deref(),
            node: node.as_deref(),
            waiting_pods: &waiting,
        };
        claims::decide(claim, &around)
    }

    /// The claim a volume references. Its absence leads to deletion of the volume, so it is
    /// verified with the API server.
    async fn claim_for(
        &self,
        volume: &PersistentVolume,
    ) -> Result<Option<Arc<PersistentVolumeClaim>>, Error> {
        let Some(key) = claim_of(volume) else {
            return Ok(None);
        };
        let cached = self.caches.claims.find(&key);
        let done = matches!(volume_phase(volume), Some("Released" | "Failed"));
        let meant = |claim: &Arc<_>| matching::is_meant_for(volume, claim);
        if done || cached.as_ref().is_some_and(meant) {
            return Ok(cached);
        }
        Ok(self.caches.claim_writer.get(&key).await?.map(Arc::new))
    }

    async fn bind(
        &self,
        volume: &Arc<PersistentVolume>,
        claim: &Arc<PersistentVolumeClaim>,
    ) -> Result<(), Error> {
        // The volume first, with its resource version: two claims that want it conflict here,
        // before either of them refers to it.
        let volume = self.bind_volume(volume, claim).await?;
        let volume = self.write_phase(&volume, "Bound", None).await?;
        let claim = self.bind_claim(claim, &volume).await?;
        self.write_claim_status(&claim, "Bound", Some(&volume))
            .await
    }

    async fn bind_volume(
        &self,
        volume: &Arc<PersistentVolume>,
        claim: &PersistentVolumeClaim,
    ) -> Result<Arc<PersistentVolume>, Error> {
        let meant = matching::is_meant_for(volume, claim);
        if meant && claim_ref(volume).is_some_and(|has| has.uid == claim.metadata.uid) {
            return Ok(Arc::clone(volume));
        }
        let mut volume = volume.as_ref().clone();
        volume.spec.get_or_insert_default().claim_ref = Some(ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("PersistentVolumeClaim".to_owned()),
            namespace: claim.metadata.namespace.clone(),
            name: claim.metadata.name.clone(),
            uid: claim.metadata.uid.clone(),
            resource_version: claim.metadata.resource_version.clone(),
            field_path: None,
        });
        // Marks what this controller did, so that it may undo it: `unbind` leaves a reference that
        // a user has set.
        if !meant {
            mark(&mut volume.metadata.annotations, BOUND_BY_CONTROLLER);
        }
        let written = self.caches.volume_writer.replace(&volume).await;
        written.map(Arc::new)
    }

    async fn bind_claim(
        &self,
        claim: &Arc<PersistentVolumeClaim>,
        volume: &PersistentVolume,
    ) -> Result<Arc<PersistentVolumeClaim>, Error> {
        let named = volume_of(claim) == volume.metadata.name.as_deref();
        if named && annotation(&claim.metadata, BIND_COMPLETED).is_some() {
            return Ok(Arc::clone(claim));
        }
        let mut claim = claim.as_ref().clone();
        if !named {
            let name = &mut claim.spec.get_or_insert_default().volume_name;
            name.clone_from(&volume.metadata.name);
            mark(&mut claim.metadata.annotations, BOUND_BY_CONTROLLER);
        }
        mark(&mut claim.metadata.annotations, BIND_COMPLETED);
        let written = self.caches.claim_writer.replace(&claim).await;
        written.map(Arc::new)
    }

    async fn provision(
        &self,
        claim: &PersistentVolumeClaim,
        provisioner: String,
    ) -> Result<(), Error> {
        let message = format!(
            "Waiting for a volume to be created either by the external provisioner '{provisioner}' \
             or manually by the system administrator. If volume creation is delayed, please verify \
             that the provisioner is running and correctly registered."
        );
        if annotation(&claim.metadata, PROVISIONER) != Some(&provisioner) {
            let mut claim = claim.clone();
            let annotations = claim.metadata.annotations.get_or_insert_default();
            annotations.insert(BETA_PROVISIONER.to_owned(), provisioner.clone());
            annotations.insert(PROVISIONER.to_owned(), provisioner);
            self.caches.claim_writer.replace(&claim).await?;
        }
        self.events.normal(claim, "ExternalProvisioning", message);
        Ok(())
    }

    async fn reclaim(&self, volume: &Arc<PersistentVolume>, then: Reclaim) -> Result<(), Error> {
        let mut volume = Arc::clone(volume);
        if !matches!(volume_phase(&volume), Some("Released" | "Failed")) {
            // Before it is deleted: a crash in between leaves a Released volume, which no other
            // claim gets, and never an Available one with old data.
            volume = self.write_phase(&volume, "Released", None).await?;
        }
        match then {
            Reclaim::Delete if volume.metadata.deletion_timestamp.is_none() => {
                self.caches.volume_writer.delete(&volume.metadata).await?;
            }
            Reclaim::Fail(note) if volume_phase(&volume) != Some("Failed") => {
                self.write_phase(&volume, "Failed", Some(note.message.clone()))
                    .await?;
                note.emit(&self.events, volume.as_ref());
            }
            Reclaim::Leave | Reclaim::Delete | Reclaim::Fail(_) => {}
        }
        Ok(())
    }

    /// Removes a binding whose other half is bound elsewhere.
    async fn unbind(&self, volume: &PersistentVolume) -> Result<(), Error> {
        let mut volume = volume.clone();
        let ours = annotation(&volume.metadata, BOUND_BY_CONTROLLER).is_some();
        if let Some(spec) = &mut volume.spec {
            if ours {
                spec.claim_ref = None;
            } else if let Some(claim) = &mut spec.claim_ref {
                claim.uid = None;
            }
        }
        if let Some(annotations) = &mut volume.metadata.annotations {
            annotations.remove(BOUND_BY_CONTROLLER);
        }
        let volume = self.caches.volume_writer.replace(&volume).await?;
        self.write_phase(&Arc::new(volume), "Available", None)
            .await?;
        Ok(())
    }

    async fn write_phase(
        &self,
        volume: &Arc<PersistentVolume>,
        phase: &str,
        message: Option<String>,
    ) -> Result<Arc<PersistentVolume>, Error> {
        if volume_phase(volume) == Some(phase) {
            return Ok(Arc::clone(volume));
        }
        let mut status = volume.status.clone().unwrap_or_default();
        status.phase = Some(phase.to_owned());
        status.message = message;
        let writer = &self.caches.volume_writer;
        let written = writer.replace_status(&volume.metadata, &status).await?;
        Ok(Arc::new(written))
    }

    async fn write_claim_status(
        &self,
        claim: &PersistentVolumeClaim,
        phase: &str,
        volume: Option<&PersistentVolume>,
    ) -> Result<(), Error> {
        let status = claims::status(claim, phase, volume);
        if claim.status.as_ref() != Some(&status) {
            let writer = &self.caches.claim_writer;
            writer.replace_status(&claim.metadata, &status).await?;
        }
        Ok(())
    }
}

fn mark(annotations: &mut Option<std::collections::BTreeMap<String, String>>, key: &str) {
    let annotations = annotations.get_or_insert_default();
    annotations.insert(key.to_owned(), "yes".to_owned());
}

fn claim_phase(claim: &PersistentVolumeClaim) -> Option<&str> {
    claim.status.as_ref()?.phase.as_deref()
}
