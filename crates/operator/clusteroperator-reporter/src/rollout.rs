//! Whether the new code truly runs, and no old code any more.
//!
//! A Deployment is at its target long before its last old pod has ended. An operator must go on reporting
//! its old version until none of it runs, so pods are looked at as well, also those that are about to go.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};

/// How far the pods of a workload are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rollout {
    /// All of them run what the workload says, and can be used.
    Done,
    /// They are on their way.
    Underway {
        /// What is missing.
        why: String,
        /// Whether some can be used meanwhile.
        available: bool,
    },
    /// They do not get on.
    Stuck {
        /// What the controller says.
        why: String,
        /// Whether some can be used meanwhile.
        available: bool,
    },
}

impl Rollout {
    /// How far a Deployment is, by what it says and by its pods: those that its selector matches.
    pub fn of_deployment<P: Borrow<Pod>>(deployment: &Deployment, pods: &[P]) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        let spec = deployment.spec.as_ref();
        let wanted = spec.and_then(|it| it.replicas).unwrap_or(1);
        let count = |count: Option<i32>| count.unwrap_or_default();
        let (all, updated) = (count(status.replicas), count(status.updated_replicas));
        let usable = count(status.available_replicas);
        let available = usable > 0 || wanted == 0;
        let generation = deployment.metadata.generation.unwrap_or_default();
        if status.observed_generation.unwrap_or_default() < generation {
            return Self::unseen(available);
        }
        let mut conditions = status.conditions.iter().flatten();
        let late = conditions.find(|it| {
            it.type_ == "Progressing"
                && it.status == "False"
                && it.reason.as_deref() == Some("ProgressDeadlineExceeded")
        });
        if let Some(late) = late {
            let why = late.message.clone().unwrap_or_default();
            return Self::Stuck { why, available };
        }
        if updated < wanted {
            return Self::underway(format!("{updated} of {wanted} pods are updated"), available);
        }
        if all > updated {
            return Self::underway(
                format!("{} old pods are still there", all - updated),
                available,
            );
        }
        if usable < updated {
            return Self::underway(
                format!("{usable} of {updated} updated pods are available"),
                available,
            );
        }
        old_code(spec.map(|it| &it.template), pods)
            .map_or(Self::Done, |why| Self::underway(why, available))
    }

    /// How far a DaemonSet is, by what it says and by its pods: those that its selector matches.
    pub fn of_daemon_set<P: Borrow<Pod>>(daemons: &DaemonSet, pods: &[P]) -> Self {
        let status = daemons.status.clone().unwrap_or_default();
        let wanted = status.desired_number_scheduled;
        let updated = status.updated_number_scheduled.unwrap_or_default();
        let usable = status.number_available.unwrap_or_default();
        let available = usable > 0 || wanted == 0;
        let generation = daemons.metadata.generation.unwrap_or_default();
        if status.observed_generation.unwrap_or_default() < generation {
            return Self::unseen(available);
        }
        if updated < wanted {
            return Self::underway(format!("{updated} of {wanted} pods are updated"), available);
        }
        if usable < wanted {
            return Self::underway(
                format!("{usable} of {wanted} updated pods are available"),
                available,
            );
        }
        let template = daemons.spec.as_ref().map(|it| &it.template);
        old_code(template, pods).map_or(Self::Done, |why| Self::underway(why, available))
    }

    /// The same, but on its way for as long as the workload is not even told to run an image: the one who
    /// wants to report it is then a pod from before, or from after.
    #[must_use]
    pub fn of_image(self, template: Option<&PodTemplateSpec>, image: &str) -> Self {
        let told = images(template);
        if told.contains(image) {
            return self;
        }
        let told: Vec<&str> = told.into_iter().collect();
        let why = format!("it is told to run {}, and not {image}", told.join(", "));
        let available = self.is_available();
        Self::Underway { why, available }
    }

    /// Whether all is as it should be.
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }

    /// Whether something can be used.
    pub fn is_available(&self) -> bool {
        match self {
            Self::Done => true,
            Self::Underway { available, .. } | Self::Stuck { available, .. } => *available,
        }
    }

    /// What is missing; nothing if all is as it should be.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Underway { why, .. } | Self::Stuck { why, .. } => Some(why),
        }
    }

    fn unseen(available: bool) -> Self {
        Self::underway(
            "the last change has not been seen yet".to_owned(),
            available,
        )
    }

    fn underway(why: String, available: bool) -> Self {
        Self::Underway { why, available }
    }
}

/// What containers are told to run.
fn images(template: Option<&PodTemplateSpec>) -> BTreeSet<&str> {
    let spec = template.and_then(|it| it.spec.as_ref());
    let containers = spec.into_iter().flat_map(|it| &it.containers);
    containers.filter_map(|it| it.image.as_deref()).collect()
}

/// Which pod still runs something else, if one does. Who has ended runs nothing.
fn old_code<P: Borrow<Pod>>(template: Option<&PodTemplateSpec>, pods: &[P]) -> Option<String> {
    let wanted = images(template);
    pods.iter().find_map(|pod| {
        let pod: &Pod = pod.borrow();
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
        if matches!(phase, Some("Succeeded" | "Failed")) {
            return None;
        }
        let mut containers = pod.spec.iter().flat_map(|it| &it.containers);
        let old = containers.find_map(|it| {
            let image = it.image.as_deref()?;
            (!wanted.contains(image)).then_some(image)
        })?;
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        Some(format!("pod {name} still runs {old}"))
    })
}
