//! The CRD controller: accepts names, serves versions, removes the instances of deleted CRDs.

use std::collections::HashMap;
use std::ops::Bound;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use machinery::meta;
use machinery::schema::crd;
use machinery::status::Status;
use machinery::time::format_time;
use serde_json::{Value, json};
use serving::stopped;

use super::definition::resources_of;
use super::names::accept;
use crate::kind::Part;
use crate::request::DeleteOptions;
use crate::resource::Resource;
use crate::rest::{
    Changed, Context, Requested, UpdateJob, delete_object, record_update, update_object,
};
use crate::server::State;
use crate::store::StoreError;

/// Finalizer that keeps a CRD until its instances are gone.
const CLEANUP: &str = "customresourcecleanup.apiextensions.k8s.io";
/// Delay before a CRD whose instances have finalizers is processed again.
// Instances with finalizers are removed by their own controllers, whose writes are events of other
// kinds that this watch does not see; so it polls, and only while a CRD is terminating.
const CLEANUP_RETRY: Duration = Duration::from_millis(25);

/// Serves the existing CRDs, then follows their changes until the store closes.
pub(crate) async fn follow(state: Arc<State>) {
    let snapshot = state.registry.snapshot();
    let Some(resource) = snapshot
        .find("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        .cloned()
    else {
        return;
    };
    let mut compiled = Compiled::default();
    // The position before the first pass: a CRD written during it is seen twice rather than never.
    let from = state.store.revision();
    sync(&state, &resource, &mut compiled).await;
    tokio::spawn(run(state, resource, compiled, from));
}

async fn run(state: Arc<State>, resource: Arc<Resource>, mut compiled: Compiled, mut from: u64) {
    let mut stopping = state.stopping.subscribe();
    loop {
        // Compacted in the meantime; the pass below reads everything anyway.
        let Ok(mut watch) = state.store.watch(&resource.prefix, from) else {
            from = state.store.revision();
            continue;
        };
        let mut again = sync(&state, &resource, &mut compiled).await;
        loop {
            let wait = if again {
                CLEANUP_RETRY
            } else {
                // Only a bound for `select!`; nothing is due.
                Duration::from_hours(1)
            };
            tokio::select! {
                event = watch.next() => match event {
                    Ok(_) => {}
                    Err(StoreError::Closed) => return,
                    // Too far behind: start over.
                    Err(_) => break,
                },
                () = tokio::time::sleep(wait) => {}
                () = stopped(&mut stopping) => return,
            }
            again = sync(&state, &resource, &mut compiled).await;
        }
        from = state.store.revision();
    }
}

/// Reconciles all CRDs; returns whether work is left.
async fn sync(state: &Arc<State>, resource: &Arc<Resource>, compiled: &mut Compiled) -> bool {
    let mut definitions = match read_all(state, resource) {
        Ok(definitions) => definitions,
        Err(status) => {
            tracing::error!(%status, "cannot list CRDs");
            return true;
        }
    };
    let mut unsettled = Vec::new();
    // In order of creation, each with the names just accepted for those before it: of two new CRDs
    // with the same names the older one wins.
    for index in 0..definitions.len() {
        if !meta::is_deleting(&definitions[index])
            && let Some(status) = settled(&definitions[index], &definitions)
        {
            definitions[index]["status"] = status;
            unsettled.push(index);
        }
    }
    // Served before it is reported: a client that reads Established can use the kind at once.
    compiled.serve(state, &definitions);
    let mut again = false;
    for (index, definition) in definitions.iter().enumerate() {
        let outcome = if meta::is_deleting(definition) {
            finalize(state, resource, definition).await
        } else if unsettled.contains(&index) {
            let status = definition["status"].clone();
            write_status(state, resource, meta::name(definition), status)
                .await
                .map(|()| false)
        } else {
            Ok(false)
        };
        match outcome {
            Ok(pending) => again |= pending,
            // Changed meanwhile: its event triggers another pass.
            Err(status) if matches!(status.code, 404 | 409) => {}
            Err(status) => {
                tracing::warn!(definition = meta::name(definition), %status, "cannot update the status of a CRD");
                again = true;
            }
        }
    }
    again
}

fn read_all(state: &State, resource: &Resource) -> Result<Vec<Value>, Status> {
    let page = state
        .store
        .list(&resource.prefix, Bound::Unbounded, 0, None)
        .map_err(|error| Status::internal(&error.to_string()))?;
    let mut entries = page.entries;
    // The oldest CRD keeps a name.
    entries.sort_by_key(|entry| entry.create_revision);
    // The resource of a damaged CRD is not served; its objects stay, and are back when the CRD is
    // created again.
    entries.retain(|entry| entry.damage().is_none());
    entries.iter().map(|entry| resource.read(entry)).collect()
}

/// Resources of CRDs, compiled once for each relevant state.
#[derive(Default)]
struct Compiled(HashMap<String, (Value, Vec<Arc<Resource>>)>);

impl Compiled {
    /// Serves the resources of the CRDs.
    fn serve(&mut self, state: &State, definitions: &[Value]) {
        let mut changed = self.0.len() != definitions.len();
        let mut next = HashMap::with_capacity(definitions.len());
        let mut resources = Vec::new();
        for definition in definitions {
            let name = meta::name(definition).to_owned();
            let state = fingerprint(definition);
            let known = self.0.remove(&name).filter(|(known, _)| *known == state);
            let (state, served) = known.unwrap_or_else(|| {
                changed = true;
                (state, resources_of(definition))
            });
            resources.extend(served.iter().cloned());
            next.insert(name, (state, served));
        }
        self.0 = next;
        if changed {
            state.registry.set_custom(resources);
        }
    }
}

/// The fields of a CRD that its resources depend on.
fn fingerprint(definition: &Value) -> Value {
    json!([
        meta::uid(definition),
        meta::generation(definition),
        definition["status"]["acceptedNames"],
        crd::is_condition_true(definition, "Established"),
        crd::is_condition_true(definition, "Terminating"),
    ])
}

/// The status of a CRD with accepted names and Established condition, if it differs.
fn settled(definition: &Value, all: &[Value]) -> Option<Value> {
    let accepted = accept(definition, all);
    let now = Timestamp::now();
    let mut status = definition["status"].clone();
    status["acceptedNames"] = accepted.names;
    let (value, reason, message) = accepted.condition;
    let mut changed = set_condition(&mut status, "NamesAccepted", value, reason, &message, now);
    let established = crd::is_condition_true(definition, "Established");
    if value == "True" {
        if !established {
            let text = "the initial names have been accepted";
            changed |= set_condition(
                &mut status,
                "Established",
                "True",
                "InitialNamesAccepted",
                text,
                now,
            );
        }
    } else if !established {
        let text = "not all names are accepted";
        changed |= set_condition(
            &mut status,
            "Established",
            "False",
            "NotAccepted",
            text,
            now,
        );
    }
    (changed || status != definition["status"]).then_some(status)
}

/// Marks a CRD as terminating: its instances are deleted first.
pub(crate) fn mark_terminating(definition: &mut Value, now: Timestamp) {
    let mut finalizers: Vec<String> = meta::finalizers(definition)
        .into_iter()
        .map(str::to_owned)
        .collect();
    if !finalizers.iter().any(|name| name == CLEANUP) {
        finalizers.push(CLEANUP.to_owned());
        meta::set_finalizers(definition, finalizers);
    }
    let text =
        "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    set_condition(
        &mut definition["status"],
        "Terminating",
        "True",
        "InstanceDeletionPending",
        text,
        now,
    );
}

/// Deletes the instances of a deleted CRD, then removes its finalizer.
async fn finalize(
    state: &Arc<State>,
    resource: &Resource,
    definition: &Value,
) -> Result<bool, Status> {
    if !meta::finalizers(definition).contains(&CLEANUP) {
        return Ok(false);
    }
    let name = meta::name(definition);
    let now = Timestamp::now();
    let mut status = definition["status"].clone();
    let context = Context::internal(Arc::clone(state), now);
    let mut left = 0;
    if let Some(instances) = resources_of(definition).first() {
        let page = state
            .store
            .list(&instances.prefix, Bound::Unbounded, 0, None)
            .map_err(|error| Status::internal(&error.to_string()))?;
        for entry in &page.entries {
            let object = instances.read(entry)?;
            let (namespace, name) = (meta::namespace(&object), meta::name(&object));
            if !meta::is_deleting(&object) {
                match delete_object(
                    &context,
                    instances,
                    namespace,
                    name,
                    &DeleteOptions::default(),
                    Requested::Internally,
                )
                .await
                {
                    Err(status) if status.code != 404 => return Err(status),
                    _ => {}
                }
            }
        }
        // Counted after the deletes: an instance with a finalizer is still there, and one created
        // meanwhile is too.
        left = state.store.count(&instances.prefix);
    }
    if left > 0 {
        return Ok(true);
    }
    set_condition(
        &mut status,
        "Terminating",
        "False",
        "InstanceDeletionCompleted",
        "removed all instances",
        now,
    );
    // The condition before the finalizer, as
    // `apiextensions-apiserver/pkg/controller/finalizer/crd_finalizer.go`: removing the last
    // finalizer deletes the CRD, and the condition could not be written any more.
    write_status(state, resource, name, status).await?;
    let job = UpdateJob::new(resource, "", name, Part::Main, false);
    let change = |live: &Value| {
        let mut object = live.clone();
        let rest: Vec<String> = meta::finalizers(live)
            .into_iter()
            .filter(|finalizer| *finalizer != CLEANUP)
            .map(str::to_owned)
            .collect();
        meta::set_finalizers(&mut object, rest);
        Ok(Changed { object })
    };
    update_object(&context, &job, &change).await?;
    Ok(false)
}

async fn write_status(
    state: &Arc<State>,
    resource: &Resource,
    name: &str,
    status: Value,
) -> Result<(), Status> {
    let context = Context::internal(Arc::clone(state), Timestamp::now());
    let job = UpdateJob::new(resource, "", name, Part::Status, false);
    let change = |live: &Value| {
        let mut object = live.clone();
        object["status"] = status.clone();
        record_update(&context, resource, Part::Status, live, &mut object);
        Ok(Changed { object })
    };
    update_object(&context, &job, &change).await.map(|_| ())
}

/// Sets a condition; returns whether it changed.
fn set_condition(
    status: &mut Value,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> bool {
    let mut condition = json!({
        "type": kind,
        "status": value,
        "lastTransitionTime": format_time(now),
        "reason": reason,
        "message": message,
    });
    if !status["conditions"].is_array() {
        status["conditions"] = json!([]);
    }
    let Some(conditions) = status["conditions"].as_array_mut() else {
        return false;
    };
    let Some(existing) = conditions
        .iter_mut()
        .find(|condition| condition["type"] == kind)
    else {
        conditions.push(condition);
        return true;
    };
    if existing["status"] == value {
        condition["lastTransitionTime"] = existing["lastTransitionTime"].clone();
    }
    let changed = *existing != condition;
    *existing = condition;
    changed
}
