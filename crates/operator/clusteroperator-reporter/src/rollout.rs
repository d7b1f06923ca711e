//! Whether all pods run the new code.
//!
//! A Deployment reports completion before its last old pod has terminated. An operator must report its old version
//! until then, so pods count as well, including terminating ones.

#[cfg(test)]
mod tests;

use std::borrow::Borrow;
use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Pod, PodTemplateSpec};

/// State of a rollout.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rollout {
    /// All pods run the template and are available.
    Done,
    /// In progress.
    Underway {
        /// What is missing.
        why: String,
        /// Whether some pods are available.
        available: bool,
    },
    /// The progress deadline has passed.
    UnrunnablePod {
        /// Message of the workload controller.
        why: String,
        /// Whether some pods are available.
        available: bool,
    },
}

impl Rollout {
    /// State of a Deployment, from its status and the pods that its selector matches.
    pub fn of_deployment<P: Borrow<Pod>>(deployment: &Deployment, pods: &[P]) -> Self {
        let status = deployment.status.clone().unwrap_or_default();
        let spec = deployment.spec.as_ref();
        let wanted = spec.and_then(|it| it.replicas).unwrap_or(1);
        let count = |count: Option<i32>| count.unwrap_or_default();
        let (all, updated) = (count(status.replicas), count(status.updated_replicas));
        let usable = count(status.available_replicas);
        let available = usable > 0 || wanted == 0;
        let generation = deployment.metadata.generation.unwrap_or_default();
        // First: until the workload controller has seen the new template, all counts
        // are those of the old one and look complete.
        if status.observed_generation.unwrap_or_default() < generation {
            return Self::unobserved(available);
        }
        let mut conditions = status.conditions.iter().flatten();
        let late = conditions.find(|it| {
            it.type_ == "Progressing"
                && it.status == "False"
                && it.reason.as_deref() == Some("ProgressDeadlineExceeded")
        });
        if let Some(late) = late {
            let why = late.message.clone().unwrap_or_default();
            return Self::UnrunnablePod { why, available };
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

    /// State of a DaemonSet, from its status and the pods that its selector matches.
    pub fn of_daemon_set<P: Borrow<Pod>>(daemons: &DaemonSet, pods: &[P]) -> Self {
        let status = daemons.status.clone().unwrap_or_default();
        let wanted = status.desired_number_scheduled;
        let updated = status.updated_number_scheduled.unwrap_or_default();
        let usable = status.number_available.unwrap_or_default();
        let available = usable > 0 || wanted == 0;
        let generation = daemons.metadata.generation.unwrap_or_default();
        if status.observed_generation.unwrap_or_default() < generation {
            return Self::unobserved(available);
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

    /// In progress unless the template contains `image`: otherwise the caller runs in a pod from before or after this
    /// template.
    #[must_use]
    pub fn of_image(self, template: Option<&PodTemplateSpec>, image: &str) -> Self {
        let in_template = images(template);
        if in_template.contains(image) {
            return self;
        }
        let in_template: Vec<&str> = in_template.into_iter().collect();
        let why = format!("its template runs {}, not {image}", in_template.join(", "));
        let available = self.is_available();
        Self::Underway { why, available }
    }

    /// Whether the rollout is complete.
    pub fn is_done(&self) -> bool {
        *self == Self::Done
    }

    /// Whether some pods are available.
    pub fn is_available(&self) -> bool {
        match self {
            Self::Done => true,
            Self::Underway { available, .. } | Self::UnrunnablePod { available, .. } => *available,
        }
    }

    /// What is missing; `None` if the rollout is complete.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Done => None,
            Self::Underway { why, .. } | Self::UnrunnablePod { why, .. } => Some(why),
        }
    }

    fn unobserved(available: bool) -> Self {
        Self::underway(
            "the last change has not been observed yet".to_owned(),
            available,
        )
    }

    fn underway(why: String, available: bool) -> Self {
        Self::Underway { why, available }
    }
}

/// Images of the containers in a template.
fn images(template: Option<&PodTemplateSpec>) -> BTreeSet<&str> {
    let spec = template.and_then(|it| it.spec.as_ref());
    let containers = spec.into_iter().flat_map(|it| &it.containers);
    containers.filter_map(|it| it.image.as_deref()).collect()
}

/// A pod that still runs another image; terminated pods do not count.
fn old_code<P: Borrow<Pod>>(template: Option<&PodTemplateSpec>, pods: &[P]) -> Option<String> {
    let wanted = images(template);
    pods.iter().find_map(|pod| {
        let pod: &Pod = pod.borrow();
        let phase = pod.status.as_ref().and_then(|it| it.phase.as_deref());
        // Evicted pods stay as Failed objects until garbage collection; they run no code.
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
