//! The controller of DataSources.

use api::cdi::{DataSourceRef, Named, Source};
use golden_images::action::{Action, Kind, name_of};
use golden_images::cdi::data_source::{DataSourceInputs, Labels, decide};
use jiff::Timestamp;
use runtime::{Error, Key, Next, Reconcile};

use super::Context;

pub(super) struct Controller(pub(super) Context);

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        "medley-images-cdi-sources"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Self(context) = self;
        let view = &context.view;
        let Some(source) = view.sources.find(key) else {
            return Ok(Next::Wait);
        };
        if source.metadata.deletion_timestamp.is_some() {
            return Ok(Next::Wait);
        }
        let none = Labels::new();
        // Follows one pointer at most, as CDI does, and then its volume or snapshot.
        let target = source.spec.source.data_source.as_ref();
        let target = target.and_then(|to| view.sources.get(&key.namespace, &to.name));
        let stands_for = target.as_ref().unwrap_or(&source);
        let of = own_referent(&stands_for.spec.source, &key.namespace);
        let at = of.as_ref().map(|it| Key::new(&it.namespace, &it.name));
        let claim = at.as_ref().and_then(|at| view.claims.find(at));
        let volume = at.as_ref().and_then(|at| view.volumes.find(at));
        let snapshot = match &at {
            Some(at) => view.snapshot(at).await?,
            None => None,
        };
        let is = |name: &Named| of.as_ref() == Some(name);
        let decision = decide(&DataSourceInputs {
            source: &source,
            sources: &|name| {
                let target = target.as_deref();
                target.filter(|it| name_of(&it.metadata) == *name)
            },
            claims: &|name| {
                let claim = claim.as_ref().filter(|_| is(name))?;
                Some(claim.metadata.labels.as_ref().unwrap_or(&none))
            },
            imports: &|name| {
                let volume = volume.as_ref().filter(|_| is(name))?;
                let phase = volume.status.as_ref().and_then(|it| it.phase.as_deref());
                let labels = volume.metadata.labels.as_ref().unwrap_or(&none);
                Some((labels, phase.unwrap_or_default()))
            },
            snapshots: &|name| {
                let snapshot = snapshot.as_ref().filter(|_| is(name))?;
                let ready = snapshot.status.as_ref().and_then(|it| it.ready_to_use);
                let labels = snapshot.metadata.labels.as_ref().unwrap_or(&none);
                Some((labels, ready == Some(true)))
            },
            now: Timestamp::now(),
        });
        let of = name_of(&source.metadata);
        if let Some(patch) = decision.labels {
            let action = Action::Patch {
                kind: Kind::DataSource,
                of: of.clone(),
                patch,
                why: "its volume has labels",
            };
            context.actions.carry_out(&[action]).await?;
        }
        if decision.status_changed {
            let (kind, status) = (Kind::DataSource, &decision.status);
            context.actions.write_status(kind, &of, status).await?;
        }
        Ok(Next::Wait)
    }
}

/// The volume or snapshot that a source names itself.
fn own_referent(source: &Source, home: &str) -> Option<Named> {
    match source.which()? {
        DataSourceRef::Pvc(of) | DataSourceRef::Snapshot(of) => Some(of.or_in(home)),
        DataSourceRef::DataSource(_) => None,
    }
}
