//! What Grafana shows of placement.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The page.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "placement",
    title: "Medley: placement",
    about: "Pods and the nodes that run their images; what registries are asked.",
    panels: &[
        Panel {
            title: "Held",
            about: "Pods that no node can run.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_placement_held_pods)", "held")],
        },
        Panel {
            title: "At the gate",
            about: "Pods whose images are being looked at.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_placement_gated_pods)", "gated")],
        },
        Panel {
            title: "Known images",
            about: "Of images in admission, how many were known.",
            shape: Shape::Number,
            unit: Unit::Percent,
            queries: &[(
                "100 * sum(rate(medley_placement_image_lookups_total{cache=\"hit\"}[15m])) / sum(rate(medley_placement_image_lookups_total[15m]))",
                "known",
            )],
        },
        Panel {
            title: "Admission",
            about: "Whether the API server asks before pods are made.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(medley_placement_admission_registered)", "asks")],
        },
        Panel {
            title: "Held, by what is missing",
            about: "Why pods have no place.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("sum by (reason) (medley_placement_held_pods)", "{{reason}}")],
        },
        Panel {
            title: "Released",
            about: "What becomes of pods at the gate.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (reason) (rate(medley_placement_released_total[15m]))",
                "{{reason}}",
            )],
        },
        Panel {
            title: "Time at the gate",
            about: "99 of 100 pods wait no longer.",
            shape: Shape::Lines,
            unit: Unit::Seconds,
            queries: &[(
                "histogram_quantile(0.99, sum by (le, reason) (rate(medley_placement_gate_duration_seconds_bucket[15m])))",
                "{{reason}}",
            )],
        },
        Panel {
            title: "Time in admission",
            about: "99 of 100 pods take no longer.",
            shape: Shape::Lines,
            unit: Unit::Seconds,
            queries: &[(
                "histogram_quantile(0.99, sum by (le, outcome) (rate(medley_placement_admission_duration_seconds_bucket[5m])))",
                "{{outcome}}",
            )],
        },
        Panel {
            title: "Requests to registries",
            about: "What is asked of each, since the start.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[(
                "sum by (host, operation) (medley_placement_registry_requests)",
                "{{host}} {{operation}}",
            )],
        },
        Panel {
            title: "Requests left",
            about: "How often registries may still be asked.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[(
                "min by (host) (medley_placement_registry_rate_limit_remaining)",
                "{{host}}",
            )],
        },
        Panel {
            title: "RuntimeClasses",
            about: "Classes for builds of Windows.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[(
                "sum by (state) (medley_placement_runtime_classes)",
                "{{state}}",
            )],
        },
        Panel {
            title: "Nodes with Windows",
            about: "How many there are of each build.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[(
                "sum by (build) (medley_placement_windows_nodes)",
                "{{build}}",
            )],
        },
    ],
};
