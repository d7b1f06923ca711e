//! The words of placement: reasons of events and of conditions, of pods and of a PlacementPolicy.

use api::words::{Conditions, Event, Reason, either, fine, normal, reason, warning};

const POD: &str = "Pod";
const POLICY: &str = "PlacementPolicy";

/// What events say of pods.
pub const EVENTS: &[Event] = &[
    normal(
        "Placed",
        POD,
        "a pod was let go from the gate, to nodes that run its images",
    ),
    either(
        "NotPlaced",
        POD,
        "a pod was let go as it is: no policy places it, or it cannot be narrowed (a warning)",
    ),
    warning(
        "ImageNotInspected",
        POD,
        "a pod was let go although nobody could look at one of its images",
    ),
    warning(
        "NoCommonPlatform",
        POD,
        "the images of a pod have no platform in common",
    ),
    warning(
        "NoMatchingNode",
        POD,
        "no node has a platform that the images of a pod are for",
    ),
    warning(
        "NodesExcluded",
        POD,
        "nodes could run the images of a pod, but the pod itself keeps away from them",
    ),
];

/// What events say of RuntimeClasses.
pub const CLASS_EVENTS: &[Event] = &[
    normal(
        "WindowsBuildLabelled",
        "Node",
        "a node was labelled with its build of Windows",
    ),
    normal(
        "RuntimeClassMade",
        "RuntimeClass",
        "there is a class for a build of Windows",
    ),
    warning(
        "RuntimeClassKept",
        "RuntimeClass",
        "no node serves a class any more, and pods use it",
    ),
    warning(
        "RuntimeHandlerMissing",
        "Node",
        "a node does not have the handler that the class of its build needs",
    ),
];

/// What conditions say.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: POLICY,
        types: &[("Ready", "Pods are treated as the policy says.")],
        reasons: &[&[
            fine("True", "Placing", "Pods are placed."),
            fine(
                "True",
                "Warning",
                "No pod is changed; who makes one that runs nowhere is warned.",
            ),
            fine("True", "Auditing", "No pod is changed; it is counted."),
            reason(
                "False",
                "InvalidPolicy",
                "The policy makes no sense.",
                "Correct what the message names.",
            ),
        ]],
    },
    Conditions {
        of: POLICY,
        types: &[(
            "PullSecretsReadable",
            "The pull secrets that images are inspected with can be read.",
        )],
        reasons: &[&[
            fine("True", "Readable", "None was refused."),
            fine(
                "True",
                "NotRead",
                "The policy inspects images without pull secrets.",
            ),
            reason(
                "False",
                "Forbidden",
                "RBAC keeps the operator from pull secrets: private images cannot be inspected.",
                "Grant what the message names, or set spec.pullSecrets.mode to Named or None.",
            ),
        ]],
    },
    Conditions {
        of: POLICY,
        types: &[(
            "AdmissionReady",
            "The API server asks before pods are made.",
        )],
        reasons: &[&[
            fine("True", "Registered", "It asks."),
            reason(
                "False",
                "NotRegistered",
                "It does not ask: pods go to any node.",
                "Run `medley webhook --register --controllers placement`.",
            ),
        ]],
    },
    Conditions {
        of: POLICY,
        types: &[(
            "NothingHeld",
            "No pod waits for a node that runs its images.",
        )],
        reasons: &[&[
            fine("True", "NothingHeld", "None waits."),
            reason(
                "False",
                "PodsHeld",
                "Some wait.",
                "`medley place report` names them and what is missing.",
            ),
        ]],
    },
    Conditions {
        of: POD,
        types: &[("medley.dev/Placed", "A pod that was held has a place.")],
        reasons: &[SHORTFALLS, RELEASED],
    },
];

/// Why a pod has no place.
const SHORTFALLS: &[Reason] = &[
    reason(
        "True, False",
        "NoCommonPlatform",
        "The images of the pod have no platform in common.",
        "`medley place explain` says which image is for what.",
    ),
    reason(
        "True, False",
        "NoMatchingNode",
        "No node has a platform that the images are for.",
        "Add such a node, or use an image for the nodes there are.",
    ),
    reason(
        "True, False",
        "NodesExcluded",
        "Nodes could run the images, but selectors, affinity or taints keep the pod away.",
        "Correct the pod, or the taints.",
    ),
];

/// Why it has one after all.
const RELEASED: &[Reason] = &[
    fine("True", "Placed", "There are nodes that run its images."),
    fine("True", "NotPlaced", "It was let go as it is."),
    reason(
        "True",
        "ImageNotInspected",
        "It was let go although nobody could look at one of its images.",
        "Look whether the registry can be reached, with the pull secrets of the pod.",
    ),
];
