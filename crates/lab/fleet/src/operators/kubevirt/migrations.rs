//! virt-controller's part of a live migration: it launches a target pod and hands the instance over to the virt-handlers of
//! both nodes ([`super::handler::moves`]).

mod evacuation;
mod selectors;
mod step;

use std::sync::Arc;
use std::time::Duration;

use kube::api::DynamicObject;
use runtime::{Error, Index, Key, Manager, Next, Queue, Reconcile};
use serde_json::json;

use super::context::Context;
use super::labels::{
    DOMAIN, INSTANCE_OF_MIGRATION, MIGRATION_JOB, MIGRATION_JOB_NAME, MIGRATION_TARGET, NON_ROOT,
    TARGET_READY,
};
use super::launcher::{self, Launcher, current};
use super::object::{enter, is_final, is_leaving, phase, status, text};
use crate::names::{annotation, name_of, namespace_of};
use crate::operators::report::now;
use selectors::{lacking, target_selector};
use step::{MigrationInputs, MigrationStep, step};

/// Keeps a migration until it is final.
const FINALIZER: &str = "kubevirt.io/migrationJobFinalize";
/// Migrations reconciled concurrently.
const WORKERS: usize = 8;
/// Timeout for an unschedulable target pod.
// `defaultUnschedulablePendingTimeoutSeconds` and `defaultCatchAllPendingTimeoutSeconds` in
// KubeVirt's `pkg/virt-controller/watch/migration/migration.go`.
const UNSCHEDULABLE_TIMEOUT: Duration = Duration::from_mins(5);
/// Timeout for a pending target pod.
const PENDING_TIMEOUT: Duration = Duration::from_mins(15);

struct Migrations {
    context: Context,
    /// Migrations by instance.
    by_instance: Index<DynamicObject>,
    /// Migrations with a target, under [`ANYWHERE`].
    under_way: Index<DynamicObject>,
    launching: tokio::sync::Mutex<()>,
}

/// Index key of all migrations under way.
const ANYWHERE: &str = "";

/// Starts the migration controllers.
pub(super) fn start(manager: &Manager, context: &Context) {
    let queue: Queue<Key> = Queue::new();
    let by_instance = context.migrations.cache.index(|migration| {
        let namespace = namespace_of(&migration.metadata);
        vec![format!("{namespace}/{}", text(migration, "/spec/vmiName"))]
    });
    let under_way = context.migrations.cache.index(|migration| {
        let runs = matches!(
            phase(migration),
            "Scheduling" | "Scheduled" | "PreparingTarget" | "TargetReady" | "Running"
        );
        runs.then(|| ANYWHERE.to_owned()).into_iter().collect()
    });
    let waiting = context.migrations.cache.index(|migration| {
        let waits = phase(migration) == "Pending";
        waits.then(|| "Pending".to_owned()).into_iter().collect()
    });
    queue.enqueue_objects(&context.migrations.cache);
    // A migration that ends frees a slot for another one. One that is final from the start frees none,
    // and must not read the cache: it is locked while its objects are listed.
    queue.enqueue_mapped(&context.migrations.cache, move |change| {
        let ran = change.old.as_ref().is_some_and(|it| !is_final(it));
        let frees = ran && change.new.as_ref().is_none_or(|it| is_final(it));
        let waiting = frees.then(|| waiting.find("Pending"));
        keys(&waiting.unwrap_or_default())
    });
    let of_instance = by_instance.clone();
    queue.enqueue_mapped(&context.instances.cache, move |change| {
        let instance = change.object().map(|it| Key::of(&it.metadata));
        let found = instance.map(|it| of_instance.find(&it.to_string()));
        let mut found = found.unwrap_or_default();
        // Those that ended are deleted with their instance.
        found.retain(|migration| change.new.is_none() || !is_final(migration));
        keys(&found)
    });
    let of_instance = by_instance.clone();
    queue.enqueue_mapped(&context.pods, move |change| {
        let Some(pod) = change.object() else {
            return Vec::new();
        };
        let namespace = namespace_of(&pod.metadata);
        let migration = annotation(&pod.metadata, MIGRATION_JOB_NAME);
        // The next migration waits until the pod left by the previous one is gone.
        let instance = annotation(&pod.metadata, DOMAIN).filter(|_| change.new.is_none());
        let waiting = instance.map(|name| of_instance.find(&format!("{namespace}/{name}")));
        let mut all = keys(&waiting.unwrap_or_default());
        all.extend(migration.map(|name| Key::new(namespace, name)));
        all
    });
    evacuation::start(manager, context, &by_instance);
    let migrations = Migrations {
        context: context.clone(),
        by_instance,
        under_way,
        launching: tokio::sync::Mutex::default(),
    };
    manager.start(migrations, &queue, WORKERS);
}

fn keys(objects: &[Arc<DynamicObject>]) -> Vec<Key> {
    objects.iter().map(|it| Key::of(&it.metadata)).collect()
}

/// Timer key of a pending target pod.
fn pending(migration: &DynamicObject) -> String {
    let uid = migration.metadata.uid.as_deref().unwrap_or_default();
    format!("target of {uid} is pending")
}

/// Timer key of an unschedulable target pod.
fn unschedulable(migration: &DynamicObject) -> String {
    let uid = migration.metadata.uid.as_deref().unwrap_or_default();
    format!("target of {uid} is unschedulable")
}

impl Reconcile for Migrations {
    fn name(&self) -> &'static str {
        "virt-controller-migrations"
    }

    async fn reconcile(&self, key: &Key) -> Result<Next, Error> {
        let context = &self.context;
        loop {
            let Some(migration) = context.migrations.cache.find(key) else {
                return Ok(Next::Wait);
            };
            if self.admit(&migration).await?
                || context
                    .mark_observed(&context.migrations, &migration)
                    .await?
            {
                continue;
            }
            let of = Key::new(key.namespace.clone(), text(&migration, "/spec/vmiName"));
            let instance = context.instances.cache.find(&of);
            // A new one of a virtual machine is not what was to move.
            let instance = instance.filter(|it| !is_younger(it, &migration));
            let launchers = instance
                .as_ref()
                .map(|it| context.launchers(&it.metadata))
                .unwrap_or_default();
            let inputs = MigrationInputs {
                migration: &migration,
                instance: instance.as_deref(),
                launchers: &launchers,
                overtaken: self.is_overtaken(&migration, &of),
                has_capacity: self.has_capacity(instance.as_deref()),
            };
            match (step(&inputs), instance.clone()) {
                (MigrationStep::Enter(phase), instance) => {
                    self.enter(&migration, phase, instance.as_deref(), &launchers)
                        .await?;
                }
                (MigrationStep::Launch(source), Some(instance)) => {
                    // Launches are serialized, so that each one sees the current number of
                    // migrations.
                    let _turn = self.launching.lock().await;
                    // Asked again: the decision was made before this reconcile got the lock.
                    if !self.has_capacity(Some(&instance)) {
                        return Ok(Next::Wait);
                    }
                    // The pod before the phase. After a crash in between the pod is found by its
                    // label and the phase follows; the other order would leave a migration that
                    // waits for a pod which nothing creates.
                    self.launch(&migration, &instance, source).await?;
                    self.enter(&migration, "Scheduling", Some(&instance), &launchers)
                        .await?;
                }
                (MigrationStep::Await(target), Some(instance)) => {
                    if let Some(next) = self.wait(&migration, &instance, target).await? {
                        return Ok(next);
                    }
                }
                (MigrationStep::HandOver(target), Some(instance)) => {
                    self.hand_over(&migration, &instance, target).await?;
                }
                (MigrationStep::Mark(target), Some(instance)) => {
                    let ran = ran_since(&instance);
                    let annotation = (TARGET_READY, ran.as_str());
                    let namespace = &key.namespace;
                    context.annotate_pod(namespace, target, annotation).await?;
                }
                (MigrationStep::Fail(why), instance) => {
                    self.fail(&migration, instance.as_deref(), why).await?;
                }
                (MigrationStep::Clean(target), _) => {
                    context.delete_pod(&key.namespace, target).await?;
                }
                (MigrationStep::Delete, _) => {
                    let writer = &context.migrations.writer;
                    writer.delete(&migration.metadata).await?;
                    return Ok(Next::Wait);
                }
                (MigrationStep::Release, _) => {
                    let migrations = &context.migrations;
                    migrations
                        .set_finalizer(&migration, FINALIZER, false)
                        .await?;
                    return Ok(Next::Wait);
                }
                // All other steps require an instance.
                (MigrationStep::Nothing, _) | (_, None) => return Ok(Next::Wait),
            }
        }
    }
}

/// Whether an instance was created after a migration.
fn is_younger(instance: &DynamicObject, migration: &DynamicObject) -> bool {
    let created = |it: &DynamicObject| it.metadata.creation_timestamp.as_ref().map(|at| at.0);
    created(instance) > created(migration)
}

/// Since when the guest runs on its target, as Go prints it.
fn ran_since(instance: &DynamicObject) -> String {
    let at = text(
        instance,
        "/status/migrationState/targetNodeDomainReadyTimestamp",
    );
    at.replace('T', " ").replace('Z', " +0000 UTC")
}

impl Migrations {
    /// Adds what virt-api adds to a new migration. Returns whether it lacked that.
    async fn admit(&self, migration: &DynamicObject) -> Result<bool, Error> {
        let mut finalizers = migration.metadata.finalizers.clone().unwrap_or_default();
        if is_leaving(migration)
            || !phase(migration).is_empty()
            || finalizers.iter().any(|one| one == FINALIZER)
        {
            return Ok(false);
        }
        finalizers.push(FINALIZER.to_owned());
        let metadata = json!({
            "finalizers": finalizers,
            "labels": { INSTANCE_OF_MIGRATION: text(migration, "/spec/vmiName") },
        });
        self.context.admit_migration(migration, metadata).await?;
        Ok(true)
    }

    /// Whether another migration of the same instance has started.
    fn is_overtaken(&self, migration: &DynamicObject, of: &Key) -> bool {
        let all = self.by_instance.find(&of.to_string());
        all.iter().any(|other| {
            other.metadata.uid != migration.metadata.uid
                && !is_final(other)
                && !phase(other).is_empty()
        })
    }

    /// Whether the limits of concurrent migrations, cluster-wide and per source node, allow one
    /// more.
    fn has_capacity(&self, instance: Option<&DynamicObject>) -> bool {
        let (all, outbound) = self.context.config().parallel_migrations();
        let node = instance.map_or("", |it| text(it, "/status/nodeName"));
        let under_way = self.under_way.find(ANYWHERE);
        let leaves = |migration: &&Arc<DynamicObject>| {
            let namespace = namespace_of(&migration.metadata);
            let of = Key::new(namespace, text(migration, "/spec/vmiName"));
            let instance = self.context.instances.cache.find(&of);
            instance.is_some_and(|it| text(&it, "/status/nodeName") == node)
        };
        under_way.len() < all && under_way.iter().filter(leaves).count() < outbound
    }

    /// Sets the phase of the migration; a final one copies the migration state of the instance.
    async fn enter(
        &self,
        migration: &DynamicObject,
        phase: &str,
        instance: Option<&DynamicObject>,
        launchers: &[Launcher],
    ) -> Result<(), Error> {
        let mut changed = migration.clone();
        if phase == "Pending" {
            let source = instance.and_then(|it| current(it, launchers));
            if let Some(source) = source {
                status(&mut changed)["migrationState"] = json!({ "sourcePod": source.name });
            }
        }
        if matches!(phase, "Scheduled" | "Failed") {
            self.context.pace.forget(&pending(migration));
            self.context.pace.forget(&unschedulable(migration));
        }
        enter(&mut changed, phase, &now());
        if matches!(phase, "Succeeded" | "Failed")
            && let Some(state) = instance.and_then(|it| it.data.pointer("/status/migrationState"))
            && Some(state["migrationUid"].as_str().unwrap_or_default())
                == migration.metadata.uid.as_deref()
        {
            status(&mut changed)["migrationState"] = state.clone();
        }
        if phase == "Succeeded" {
            let events = &self.context.controller;
            let kind = &self.context.migrations.kind;
            let text = "Source node reported migration succeeded";
            events.normal_of_kind(migration, kind, "SuccessfulMigration", text);
        }
        let status = changed.data["status"].take();
        let migrations = &self.context.migrations;
        migrations.report(migration, status).await.map(drop)
    }

    /// Creates the target pod.
    async fn launch(
        &self,
        migration: &DynamicObject,
        instance: &DynamicObject,
        source: &Launcher,
    ) -> Result<(), Error> {
        let context = &self.context;
        let key = Key::of(&migration.metadata);
        let (events, kind) = (&context.controller, &context.migrations.kind);
        let mut prepared = instance.clone();
        let annotations = prepared.metadata.annotations.get_or_insert_default();
        annotations.insert(NON_ROOT.to_owned(), "true".to_owned());
        if prepared != *instance {
            context.update_instance(&prepared).await?;
        }
        let instance = &prepared;
        let mut pod = launcher::render(instance, &context.config());
        let node = context.nodes.get("", text(instance, "/status/nodeName"));
        let labels = node.and_then(|node| node.metadata.labels.clone());
        let labels = labels.unwrap_or_default();
        let selector = target_selector(migration, instance, &pod, source, &labels)
            .map_err(|why| Error::Invalid(format!("launch a target for migration {key}: {why}")))?;
        pod["spec"]["nodeSelector"] = json!(selector);
        selectors::keep_apart(&mut pod, instance);
        let meta = &mut pod["metadata"];
        meta["labels"][MIGRATION_JOB] = json!(migration.metadata.uid);
        meta["annotations"][MIGRATION_JOB_NAME] = json!(key.name);
        let made = context.create_pod(&key.namespace, pod).await?;
        let text = format!("Created migration target pod {}", name_of(&made.metadata));
        events.normal_of_kind(migration, kind, "SuccessfulCreate", text);
        Ok(())
    }

    /// Handles a target that is not ready: returns when to check again, or deletes it after its
    /// timeout.
    async fn wait(
        &self,
        migration: &DynamicObject,
        instance: &DynamicObject,
        target: &Launcher,
    ) -> Result<Option<Next>, Error> {
        let context = &self.context;
        let key = Key::of(&migration.metadata);
        let (events, kind) = (&context.controller, &context.migrations.kind);
        let mut left = context.pace.left(&pending(migration), PENDING_TIMEOUT);
        let mut why = "pending";
        if target.is_unschedulable() {
            self.alert(instance, target);
            let text = format!(
                "Migration target pod for VMI [{}] is currently unschedulable.",
                Key::of(&instance.metadata)
            );
            events.warning_of_kind(migration, kind, "migrationTargetPodUnschedulable", text);
            if left.is_some() {
                left = context
                    .pace
                    .left(&unschedulable(migration), UNSCHEDULABLE_TIMEOUT);
                why = "unschedulable";
            }
        }
        if let Some(left) = left {
            return Ok(Some(Next::After(left)));
        }
        let text = format!(
            "{why} pod {}/{} timeout period exceeded",
            key.namespace, target.name
        );
        context.delete_pod(&key.namespace, target).await?;
        events.normal_of_kind(migration, kind, "SuccessfulDelete", text);
        Ok(None)
    }

    /// Emits a warning event if no node but the source could run a host-model guest.
    fn alert(&self, instance: &DynamicObject, target: &Launcher) {
        let context = &self.context;
        if text(instance, "/spec/domain/cpu/model") != "host-model" {
            return;
        }
        let source = text(instance, "/status/nodeName");
        let nodes = context.nodes.list();
        let others = nodes
            .iter()
            .filter(|node| node.metadata.name.as_deref() != Some(source));
        if let Some(required) = lacking(target, others.map(Arc::as_ref)) {
            let text = format!(
                "Migration cannot proceed since no node is suitable to run the required CPU model / required features: {required}"
            );
            let (events, kind) = (&context.controller, &context.instances.kind);
            let reason = "NoSuitableNodesForHostModelMigration";
            events.warning_of_kind(instance, kind, reason, text);
        }
    }

    /// Records the target on the instance.
    async fn hand_over(
        &self,
        migration: &DynamicObject,
        instance: &DynamicObject,
        target: &Launcher,
    ) -> Result<(), Error> {
        let mut changed = instance.clone();
        let labels = changed.metadata.labels.get_or_insert_default();
        labels.insert(MIGRATION_TARGET.to_owned(), target.node.clone());
        status(&mut changed)["migrationState"] = json!({
            "migrationUid": migration.metadata.uid,
            "sourceNode": text(instance, "/status/nodeName"),
            "sourcePod": migration.data.pointer("/status/migrationState/sourcePod"),
            "targetNode": target.node,
            "targetPod": target.name,
            "migrationConfiguration": self.context.config().migrations(),
        });
        self.context.update_instance(&changed).await?;
        let (events, kind) = (&self.context.controller, &self.context.migrations.kind);
        let text = "Migration target pod is ready for preparation by virt-handler.";
        events.normal_of_kind(migration, kind, "SuccessfulHandOver", text);
        Ok(())
    }

    /// Marks the migration in the instance's status as failed.
    async fn give_up(&self, instance: &DynamicObject, why: &str) -> Result<(), Error> {
        let mut changed = instance.clone();
        let labels = changed.metadata.labels.get_or_insert_default();
        labels.remove(MIGRATION_TARGET);
        let state = &mut status(&mut changed)["migrationState"];
        state["failed"] = json!(true);
        state["completed"] = json!(true);
        state["failureReason"] = json!(why);
        state["endTimestamp"] = json!(now());
        self.context.update_instance(&changed).await
    }

    /// Fails the migration; its instance stays on the source.
    async fn fail(
        &self,
        migration: &DynamicObject,
        instance: Option<&DynamicObject>,
        why: &str,
    ) -> Result<(), Error> {
        if let Some(instance) = instance {
            let mine = text(instance, "/status/migrationState/migrationUid");
            let state = instance.data.pointer("/status/migrationState");
            let open = state.is_some_and(|state| state["completed"] != true);
            if open && Some(mine) == migration.metadata.uid.as_deref() {
                self.give_up(instance, why).await?;
                // The next reconcile acts on the written status.
                return Ok(());
            }
        }
        let (events, kind) = (&self.context.controller, &self.context.migrations.kind);
        events.warning_of_kind(migration, kind, "FailedMigration", why);
        self.enter(migration, "Failed", instance, &[]).await
    }
}
