//! The controller of DataImportCrons.

use std::collections::BTreeSet;

use api::cdi::{DataImportCron, Source, annotations, labels};
use golden_images::action::{Action, Kind, annotation, label, name_of};
use golden_images::cdi::access;
use golden_images::cdi::cron::{Claim, CronInputs, Decision, decide};
use golden_images::cdi::failure::Failure;
use golden_images::cdi::poll::{self, NextPoll, PollResult};
use jiff::Timestamp;
use runtime::{Error, Key, Next, Reconcile};
use serde_json::json;

use super::Context;
use super::polling::PollState;

/// Keeps a DataImportCron until its dependent objects are deleted.
// CDI's own finalizer, so that the two can replace each other: an object that CDI began to
// clean up is finished here, and the other way round.
const FINALIZER: &str = "cdi.kubevirt.io/dataImportCronFinalizer";

pub(super) struct Controller(pub(super) Context);

impl Reconcile for Controller {
    fn name(&self) -> &'static str {
        super::COMPONENT
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let Self(context) = self;
        let Some(cron) = context.view.crons.find(key) else {
            context.report.forget_cron(key);
            context.polling.forget(key);
            return Ok(Next::Wait);
        };
        let leaves = cron.metadata.deletion_timestamp.is_some();
        let holds = has_finalizer(&cron);
        if leaves && !holds {
            return Ok(Next::Wait);
        }
        if !leaves && cron.spec.cleans_up() && !holds {
            let mut all = cron.metadata.finalizers.clone().unwrap_or_default();
            all.push(FINALIZER.to_owned());
            // The watch event of this write requeues the object.
            return self.set_finalizers(&cron, &all).await;
        }
        let state = context.polling.state(&cron);
        let decision = self.decide(&cron, &state).await?;
        // Actions before the status: the status must never name a DataVolume that was not created. A crash in between
        // repeats the decision, which then finds the actions done.
        context.actions.carry_out(&decision.actions).await?;
        let of = name_of(&cron.metadata);
        if decision.status_changed && !leaves {
            let status = &decision.status;
            let kind = Kind::DataImportCron;
            context.actions.write_status(kind, &of, status).await?;
        }
        // After the status was written: the poller pod holds the only copy of its result until then.
        context.polling.acknowledge(&cron, &state).await?;
        context.report.cron(&cron, &decision);
        if decision.finished {
            let all = cron.metadata.finalizers.iter().flatten();
            let all: Vec<String> = all.filter(|it| *it != FINALIZER).cloned().collect();
            return self.set_finalizers(&cron, &all).await;
        }
        Ok(match decision.poll {
            NextPoll::Never => Next::Wait,
            NextPoll::Now => {
                context.polling.ask(&cron).await?;
                Next::Wait
            }
            NextPoll::At(then) => Next::at(then),
        })
    }
}

fn has_finalizer(cron: &DataImportCron) -> bool {
    let mut all = cron.metadata.finalizers.iter().flatten();
    all.any(|it| it == FINALIZER)
}

impl Controller {
    async fn set_finalizers(&self, cron: &DataImportCron, all: &[String]) -> Result<Next, Error> {
        let action = Action::Patch {
            kind: Kind::DataImportCron,
            of: name_of(&cron.metadata),
            // Other controllers may have added finalizers: fail if the object changed.
            patch: json!({ "metadata": {
                "finalizers": all,
                "resourceVersion": cron.metadata.resource_version,
            } }),
            why: "dependent objects have to be deleted first",
        };
        self.0.actions.carry_out(&[action]).await?;
        Ok(Next::Wait)
    }

    /// Gathers the inputs and decides.
    async fn decide(&self, cron: &DataImportCron, state: &PollState) -> Result<Decision, Error> {
        let view = &self.0.view;
        let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
        let name = cron.metadata.name.as_deref().unwrap_or_default();
        let managed = &cron.spec.managed_data_source;
        let own = |meta: &kube::core::ObjectMeta| {
            let named = meta.name.as_deref().unwrap_or_default();
            label(meta, labels::DATA_IMPORT_CRON) == Some(name)
                // Imports of CDI before it had the label are recognised by their name,
                // `<managedDataSource>-<digest>`; otherwise they would never be garbage collected.
                || named.starts_with(managed.as_str())
        };
        let imports = view.volumes.in_namespace(namespace).into_iter();
        let imports: Vec<_> = imports.filter(|it| own(&it.metadata)).collect();
        let imports: Vec<_> = imports.iter().map(|it| (**it).clone()).collect();
        let claims = view.claims.in_namespace(namespace).into_iter();
        let claims = claims.filter(|it| own(&it.metadata));
        let claims: Vec<Claim> = claims.map(|it| Claim::from(&*it)).collect();
        let mut snapshots = view.snapshots(namespace).await?;
        snapshots.retain(|it| own(&it.metadata));
        let metas = claims.iter().map(|it| &it.metadata);
        let metas = metas.chain(snapshots.iter().map(|it| &it.metadata));
        let busy: BTreeSet<String> = metas
            .filter_map(|meta| meta.name.clone())
            .filter(|it| view.is_busy(namespace, it))
            .collect();
        let source = view.sources.get(namespace, managed);
        let rival = source.as_ref().and_then(|source| {
            let named = label(&source.metadata, labels::DATA_IMPORT_CRON)?;
            let other = view.crons.get(namespace, named)?;
            let same = named != name && other.spec.managed_data_source == *managed;
            same.then(|| named.to_owned())
        });
        let polled = state.polled.as_ref().filter(|it| is_current(cron, it));
        let denied = self.denied(cron).await?;
        Ok(decide(&CronInputs {
            cron,
            polled,
            hindered: state.hindered.as_ref(),
            denied: denied.as_ref(),
            source: source.as_deref(),
            rival: rival.as_deref(),
            imports: &imports,
            claims: &claims,
            snapshots: &snapshots,
            storage: &view.storage(cron),
            nodes: &view.architectures(),
            busy: &busy,
            policy: &view.policy().await?,
            seed: view.seed,
            now: Timestamp::now(),
        }))
    }

    /// Why a volume of another namespace may not be copied, if it is one and RBAC forbids it.
    async fn denied(&self, cron: &DataImportCron) -> Result<Option<Failure>, Error> {
        let Some(of) = poll::elsewhere(cron) else {
            return Ok(None);
        };
        let namespace = cron.metadata.namespace.as_deref().unwrap_or_default();
        let account = cron.spec.service_account_name.as_deref();
        let account = account.filter(|it| !it.is_empty());
        let who = access::service_account(namespace, account.unwrap_or(access::ACCOUNT));
        let client = self.0.view.manager.client();
        let permissions = access::permissions(&Source::of_pvc(&of.namespace, &of.name));
        if runtime::access::is_allowed_any(&client, &who, permissions).await? {
            return Ok(None);
        }
        let user = who.user.unwrap_or_default();
        Ok(Some(poll::not_allowed(&user, &of)))
    }
}

/// Whether to use a result. Users remove the annotation with the time of the last poll to force a poll; results from
/// before do not count then.
fn is_current(cron: &DataImportCron, polled: &PollResult) -> bool {
    let written = annotation(&cron.metadata, annotations::LAST_CRON_TIME);
    let status = cron.status.as_ref();
    let last = status.and_then(|it| it.last_execution_timestamp.as_ref());
    written.is_some_and(|it| !it.is_empty())
        || last.is_none_or(|last| polled.at.as_second() > last.0.as_second())
}
