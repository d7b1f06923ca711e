//! Clones across namespaces: created next to the original by the storage, then rebound to the target claim.

use api::cdi::{DataVolume, Source};
use golden_images::action::{Action, Kind, name_of, named};
use golden_images::cdi::access;
use golden_images::cdi::clone::{self, Transfer};
use golden_images::cdi::data_volume::Claim;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use kube::Api;
use runtime::{Error, Key, Writer};

use super::COMPONENT;
use super::volume::Controller;

impl Controller {
    /// State of a clone in the namespace of its original.
    pub(super) async fn transfer(
        &self,
        volume: &DataVolume,
        own: Option<&PersistentVolumeClaim>,
        original: &Source,
        there: &str,
    ) -> Result<Transfer, Error> {
        let Self(context) = self;
        let view = &context.view;
        let interim = view.claims.get(there, &clone::interim_name(volume));
        let interim = interim.filter(|it| it.metadata.deletion_timestamp.is_none());
        let spec = interim.as_ref().and_then(|it| it.spec.as_ref());
        let name = spec.and_then(|it| it.volume_name.clone());
        let name = name.filter(|it| !it.is_empty());
        let found = name.as_ref().and_then(|it| view.persistent.get("", it));
        let holder = found.as_ref().and_then(|it| it.spec.as_ref());
        let holder = holder.and_then(|it| it.claim_ref.as_ref());
        let own = own.and_then(|it| it.metadata.uid.as_ref());
        // The access review is needed only before the first object is created.
        // Once the clone has begun, the permission was checked; a review in every reconcile
        // would be a request for each progress event.
        let denied = if interim.is_none() && own.is_none() {
            self.denied(volume, original, there).await?
        } else {
            None
        };
        Ok(Transfer {
            interim: self.state(volume, interim.as_deref(), true),
            // A PersistentVolume counts once a claim is bound to it.
            volume: name.filter(|_| holder.is_some()),
            is_handed_over: own.is_some() && holder.and_then(|it| it.uid.as_ref()) == own,
            denied,
        })
    }

    /// Why the service account of the namespace may not clone a source. Admission checks the user who creates a
    /// DataVolume, but it may have been bypassed.
    async fn denied(
        &self,
        volume: &DataVolume,
        original: &Source,
        there: &str,
    ) -> Result<Option<String>, Error> {
        let home = name_of(&volume.metadata).namespace;
        let who = access::service_account(&home, access::ACCOUNT);
        let client = self.0.view.manager.client();
        if runtime::access::is_allowed_any(&client, &who, access::permissions(original)).await? {
            return Ok(None);
        }
        let user = who.user.unwrap_or_default();
        Ok(Some(access::denial(&user, there)))
    }

    /// Binds a PersistentVolume to another claim, unless it changed since it was read.
    pub(super) async fn hand_over(
        &self,
        name: &str,
        claim: &PersistentVolumeClaim,
    ) -> Result<(), Error> {
        let view = &self.0.view;
        let Some(found) = view.persistent.get("", name) else {
            return Ok(());
        };
        let volumes: Api<PersistentVolume> = Api::all(view.manager.client());
        let writer = Writer::new(volumes, COMPONENT);
        let writer = writer.shown_by(&view.persistent);
        let patch = clone::hand_over(&claim.metadata);
        self.0.layer.permit().await?;
        // The binding controller of Kubernetes writes the same field (`claimRef`). The resource version lets one of
        // the two lose instead of binding a volume to two claims.
        writer.merge_into(&found.metadata, patch).await?;
        Ok(())
    }

    /// Deletes interim claims of an earlier DataVolume of this name.
    pub(super) async fn sweep(&self, key: &Key, volume: Option<&DataVolume>) -> Result<(), Error> {
        let Self(context) = self;
        let uid = volume.and_then(|it| it.metadata.uid.as_deref());
        let left = context.view.interim_of(key).into_iter().filter(|claim| {
            let of = clone::made_for(&claim.metadata).map(|(_, uid)| uid);
            of != uid && claim.metadata.deletion_timestamp.is_none()
        });
        let left: Vec<Action> = left.map(|it| delete(&it.metadata)).collect();
        context.actions.carry_out(&left).await
    }

    /// Deletes the interim claim of a clone.
    pub(super) async fn clean(&self, volume: &DataVolume, there: &str) -> Result<(), Error> {
        let action = Action::Delete {
            kind: Kind::Claim,
            of: named(there, &clone::interim_name(volume)),
            why: "its volume is bound to the target claim",
        };
        self.0.actions.carry_out(&[action]).await
    }
}

fn delete(meta: &kube::core::ObjectMeta) -> Action {
    Action::Delete {
        kind: Kind::Claim,
        of: name_of(meta),
        why: "the clone is not needed any more",
    }
}

/// Whether to poll for permission to clone: RBAC changes cause no watch event.
pub(super) fn awaits_permission(transfer: Option<&Transfer>) -> bool {
    transfer.is_some_and(|it| it.denied.is_some() && it.interim == Claim::Missing)
}
