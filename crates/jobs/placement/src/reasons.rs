//! Reasons of placement: events and conditions of pods and of PlacementPolicies.

use api::reasons::{Conditions, Event, Reason, either, fine, normal, reason, warning};

const POD: &str = "Pod";
const POLICY: &str = "PlacementPolicy";

/// Event reasons of pods.
pub const EVENTS: &[Event] = &[
    normal(
        "Placed",
        POD,
        "a gated pod was released to nodes that run its images",
    ),
    either(
        "NotPlaced",
        POD,
        "a gated pod was released unchanged: no policy applies to it, or its constraints cannot be narrowed (a warning)",
    ),
    warning(
        "ImageNotInspected",
        POD,
        "a gated pod was released although one of its images could not be inspected",
    ),
    warning(
        "NoCommonPlatform",
        POD,
        "the images of a pod have no platform in common",
    ),
    warning(
        "NoMatchingNode",
        POD,
        "no node has a platform of the images of a pod",
    ),
    warning(
        "NodesExcluded",
        POD,
        "nodes could run the images of a pod, but its selectors or their taints exclude them",
    ),
];

/// Event reasons of RuntimeClasses.
pub const CLASS_EVENTS: &[Event] = &[
    normal(
        "WindowsBuildLabelled",
        "Node",
        "a node was labelled with its Windows build",
    ),
    normal(
        "RuntimeClassMade",
        "RuntimeClass",
        "a RuntimeClass for a Windows build was created",
    ),
    warning(
        "RuntimeClassKept",
        "RuntimeClass",
        "no node serves a RuntimeClass any more, but pods use it",
    ),
    warning(
        "RuntimeHandlerMissing",
        "Node",
        "a node lacks the runtime handler for the RuntimeClass of its build",
    ),
];

/// Condition types and reasons.
pub const CONDITIONS: &[Conditions] = &[
    Conditions {
        of: POLICY,
        types: &[("Ready", "The policy is valid and applied to pods.")],
        reasons: &[&[
            fine("True", "Placing", "Pods are placed."),
            fine(
                "True",
                "Warning",
                "No pod is changed; clients get a warning for pods that no node can run.",
            ),
            fine(
                "True",
                "Auditing",
                "No pod is changed; outcomes are only counted.",
            ),
            reason(
                "False",
                "InvalidPolicy",
                "The policy is invalid.",
                "Correct the fields named in the message.",
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
            fine("True", "Readable", "No read was forbidden."),
            fine(
                "True",
                "NotRead",
                "The policy inspects images without pull secrets.",
            ),
            reason(
                "False",
                "Forbidden",
                "RBAC forbids the operator to read pull secrets: private images cannot be inspected.",
                "Grant the permissions named in the message, or set spec.pullSecrets.mode to Named or None.",
            ),
        ]],
    },
    Conditions {
        of: POLICY,
        types: &[(
            "AdmissionReady",
            "The API server calls the placement webhook for new pods.",
        )],
        reasons: &[&[
            fine("True", "Registered", "The webhook is registered."),
            reason(
                "False",
                "NotRegistered",
                "The webhook is not registered: pods are scheduled to any node.",
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
            fine("True", "NothingHeld", "No pod is held."),
            reason(
                "False",
                "PodsHeld",
                "Pods are held.",
                "`medley place report` lists them and what is missing.",
            ),
        ]],
    },
    Conditions {
        of: POD,
        types: &[("medley.dev/Placed", "Nodes can run a pod that was held.")],
        reasons: &[SHORTFALLS, RELEASED],
    },
];

/// Reasons of pods that no node can run.
const SHORTFALLS: &[Reason] = &[
    reason(
        "True, False",
        "NoCommonPlatform",
        "The images of the pod have no platform in common.",
        "`medley place explain` lists the platforms of each image.",
    ),
    reason(
        "True, False",
        "NoMatchingNode",
        "No node has a platform of the images.",
        "Add such a node, or use an image for the platforms of the nodes.",
    ),
    reason(
        "True, False",
        "NodesExcluded",
        "Nodes could run the images, but selectors, affinity or taints exclude the pod.",
        "Change the selectors or tolerations of the pod, or the taints of the nodes.",
    ),
];

/// Reasons of released pods.
const RELEASED: &[Reason] = &[
    fine("True", "Placed", "Nodes can run its images."),
    fine("True", "NotPlaced", "It was released unchanged."),
    reason(
        "True",
        "ImageNotInspected",
        "It was released although one of its images could not be inspected.",
        "Check that the registry is reachable and the pull secrets of the pod are valid.",
    ),
];
