//! Reasons of placement: events and conditions of pods and of PlacementPolicies.

use api::reasons::{Conditions, Event, Reason};
use api::{condition_reasons, conditions, events};

const POD: &str = "Pod";
const POLICY: &str = "PlacementPolicy";

/// Event reasons of pods.
pub const EVENTS: &[Event] = events! {
    Normal "Placed" POD => "a gated pod was released to nodes that run its images";
    Either "NotPlaced" POD
        => "a gated pod was released unchanged: no policy applies to it, its constraints cannot be narrowed, or its images were not inspected while no controller was running (warnings)";
    Warning "ImageNotInspected" POD => "a gated pod was released although one of its images could not be inspected";
    Warning "NoCommonPlatform" POD => "the images of a pod have no platform in common";
    Warning "NoMatchingNode" POD => "no node has a platform of the images of a pod";
    Warning "NodesExcluded" POD
        => "nodes could run the images of a pod, but its selectors or their taints exclude them";
};

/// Event reasons of RuntimeClasses.
pub const CLASS_EVENTS: &[Event] = events! {
    Normal "WindowsBuildLabelled" "Node" => "a node was labelled with its Windows build";
    Normal "RuntimeClassMade" "RuntimeClass" => "a RuntimeClass for a Windows build was created";
    Warning "RuntimeClassKept" "RuntimeClass" => "no node serves a RuntimeClass any more, but pods use it";
    Warning "RuntimeHandlerMissing" "Node" => "a node lacks the runtime handler for the RuntimeClass of its build";
};

/// Condition types and reasons.
pub const CONDITIONS: &[Conditions] = conditions! {
    of POLICY, "Ready": "The policy is valid and applied to pods." {
        "True" "Placing": "Pods are placed.";
        "True" "Warning": "No pod is changed; clients get a warning for pods that no node can run.";
        "True" "Auditing": "No pod is changed; outcomes are only counted.";
        "True" "StandingBack": "No pod is changed: spec.operatorMode of the policy default is Assist or Off.";
        "False" "InvalidPolicy": "The policy is invalid." => "Correct the fields named in the message.";
    }
    of POLICY, "PullSecretsReadable": "The pull secrets that images are inspected with can be read." {
        "True" "Readable": "No read was forbidden.";
        "True" "NotRead": "The policy inspects images without pull secrets.";
        "False" "Forbidden": "RBAC forbids the operator to read pull secrets: private images cannot be inspected."
            => "Grant the permissions named in the message, or set spec.pullSecrets.mode to Named or None.";
    }
    of POLICY, "AdmissionReady": "The API server calls the placement webhook for new pods." {
        "True" "Registered": "The webhook is registered.";
        "False" "NotRegistered": "The webhook is not registered: pods are scheduled to any node."
            => "Run `medley webhook --register --controllers placement`.";
    }
    of POLICY, "Managing": "Medley places the pods of all namespaces. Only the policy default has this condition." {
        "True" "Managing": "No other operator places pods.";
        "False" "UpstreamOperatorRuns": "The multiarch-tuning-operator places the pods of the namespaces that the message names."
            => "None, unless Medley should: see `medley place take-over`.";
        "False" "UpstreamOperatorStopped": "The multiarch-tuning-operator does not run, but its webhook is registered, so no operator places the pods of the namespaces that it selects."
            => "Start it, or delete the MutatingWebhookConfiguration that the message names.";
        "False" "SetByPolicy": "spec.operatorMode is Assist or Off." => "Set it to Auto.";
    }
    of POLICY, "NothingHeld": "No pod waits for a node that runs its images." {
        "True" "NothingHeld": "No pod is held.";
        "False" "PodsHeld": "Pods are held." => "`medley place report` lists them and what is missing.";
    }
    of POD, "medley.dev/Placed": "Nodes can run a pod that was held." with [SHORTFALLS, RELEASED] {}
};

/// Reasons of pods that no node can run.
const SHORTFALLS: &[Reason] = condition_reasons! {
    "True, False" "NoCommonPlatform": "The images of the pod have no platform in common."
        => "`medley place explain` lists the platforms of each image.";
    "True, False" "NoMatchingNode": "No node has a platform of the images."
        => "Add such a node, or use an image for the platforms of the nodes.";
    "True, False" "NodesExcluded": "Nodes could run the images, but selectors, affinity or taints exclude the pod."
        => "Change the selectors or tolerations of the pod, or the taints of the nodes.";
};

/// Reasons of released pods.
const RELEASED: &[Reason] = condition_reasons! {
    "True" "Placed": "Nodes can run its images.";
    "True" "NotPlaced": "It was released unchanged.";
    "True" "ImageNotInspected": "It was released although one of its images could not be inspected."
        => "Check that the registry is reachable and the pull secrets of the pod are valid.";
};
