//! Eviction of pods, subject to disruption budgets (`pkg/registry/core/pod/storage/eviction.go`).

use std::ops::Bound;
use std::sync::Arc;

use http::Response;
use machinery::meta;
use machinery::selector::LabelSelector;
use machinery::status::{Details, Status};
use machinery::time::format_time;
use serde_json::{Value, json};

use super::{created, set_pod_condition};
use crate::builtin::print::condition_is_true;
use crate::builtin::value::Read as _;
use crate::kind::Part;
use crate::request::{DeleteOptions, Query, WriteKind, WriteOptions};
use crate::resource::Resource;
use crate::respond::Body;
use crate::rest::{Changed, Context, Requested, UpdateJob, delete_object, update_object};

const BUDGET_VIOLATED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Evicts a pod.
pub(super) async fn evict(
    context: &Context,
    pods: &Resource,
    namespace: &str,
    name: &str,
    eviction: &Value,
) -> Result<Response<Body>, Status> {
    let given = meta::name(eviction);
    if given != name {
        return Err(Status::bad_request(
            "name in URL does not match name in Eviction object",
        ));
    }
    let mut options = DeleteOptions::parse(&Query::default(), eviction.get("deleteOptions"))?;
    // A dry run may be requested in the query or in the body.
    options.dry_run |= WriteOptions::parse(&context.query, WriteKind::Create)?.dry_run;
    let entry = context.entry(pods, namespace, name)?;
    let pod = pods.read(&entry)?;
    // The budget is reduced before the pod is deleted: if the delete then fails, one disruption too
    // few is allowed until the disruption controller corrects it, never one too many.
    if !ignores_budget(&pod) {
        take_from_budget(context, namespace, name, &pod, options.dry_run).await?;
    }
    let job = UpdateJob::new(pods, namespace, name, Part::Status, options.dry_run);
    let change = |live: &Value| {
        let mut object = live.clone();
        let evicted = json!({
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting",
        });
        set_pod_condition(&mut object, evicted, context.now);
        Ok(Changed { object })
    };
    update_object(context, &job, &change).await?;
    let requested = Requested::Internally;
    delete_object(context, pods, namespace, name, &options, requested).await?;
    Ok(created(context))
}

/// Pods that no longer count, or do not count yet.
fn ignores_budget(pod: &Value) -> bool {
    let phase = pod.text("status.phase");
    matches!(phase, "Succeeded" | "Failed" | "Pending") || meta::is_deleting(pod)
}

fn is_ready(pod: &Value) -> bool {
    condition_is_true(pod.items("status.conditions"), "Ready")
}

/// Whether unready pods may be evicted without counting: always, or while enough are ready
/// (`unhealthyPodEvictionPolicy`).
fn spares_unhealthy(budget: &Value) -> bool {
    if budget.pointer("/spec/unhealthyPodEvictionPolicy") == Some(&json!("AlwaysAllow")) {
        return true;
    }
    let status = |field: &str| budget["status"][field].as_i64().unwrap_or_default();
    status("desiredHealthy") > 0 && status("currentHealthy") >= status("desiredHealthy")
}

async fn take_from_budget(
    context: &Context,
    namespace: &str,
    name: &str,
    pod: &Value,
    dry_run: bool,
) -> Result<(), Status> {
    let snapshot = context.state.registry.snapshot();
    let Some(budgets) = snapshot.find("policy", "v1", "poddisruptionbudgets") else {
        return Ok(());
    };
    let matching = matching_budgets(context, budgets, namespace, pod)?;
    let budget = match matching.as_slice() {
        [] => return Ok(()),
        [one] => one,
        _ => {
            return Err(Status::internal(
                "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            ));
        }
    };
    if !is_ready(pod) && spares_unhealthy(budget) {
        return Ok(());
    }
    let budget_name = meta::name(budget).to_owned();
    let job = UpdateJob::new(budgets, namespace, &budget_name, Part::Status, dry_run);
    let change = |live: &Value| {
        let mut object = live.clone();
        let status = |field: &str| {
            live.pointer(&format!("/status/{field}"))
                .and_then(Value::as_i64)
                .unwrap_or_default()
        };
        // The numbers belong to an older spec; ten seconds is upstream's suggestion for the retry.
        if status("observedGeneration") < meta::generation(live) {
            let why = format!(
                "The disruption budget {budget_name} is still being processed by the server."
            );
            return Err(refused(10, &why));
        }
        let allowed = status("disruptionsAllowed");
        if allowed <= 0 {
            let why = format!(
                "The disruption budget {budget_name} needs {} healthy pods and has {} currently",
                status("desiredHealthy"),
                status("currentHealthy")
            );
            return Err(refused(0, &why));
        }
        object["status"]["disruptionsAllowed"] = (allowed - 1).into();
        // The disruption controller counts the pod as gone before it sees the deletion, and drops
        // the entry if the pod is still there after two minutes.
        object["status"]["disruptedPods"][name] = format_time(context.now).into();
        Ok(Changed { object })
    };
    update_object(context, &job, &change).await?;
    Ok(())
}

fn refused(retry_after_seconds: u16, why: &str) -> Status {
    Status::failure(429, "TooManyRequests", BUDGET_VIOLATED)
        .with_details(Details {
            retry_after_seconds,
            ..Details::default()
        })
        .with_cause("DisruptionBudget", why, "")
}

fn matching_budgets(
    context: &Context,
    budgets: &Arc<Resource>,
    namespace: &str,
    pod: &Value,
) -> Result<Vec<Value>, Status> {
    let page = context
        .state
        .store
        .list(&budgets.collection(namespace), Bound::Unbounded, 0, None)
        .map_err(|error| Status::internal(&error.to_string()))?;
    let mut matching = Vec::new();
    for entry in page.entries {
        let budget = budgets.read(&entry)?;
        let Some(selector) = budget.pointer("/spec/selector") else {
            continue;
        };
        let selected = LabelSelector::from_label_selector_object(selector)
            .is_ok_and(|selector| selector.matches_object(pod));
        if selected {
            matching.push(budget);
        }
    }
    Ok(matching)
}
