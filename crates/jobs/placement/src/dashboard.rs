//! The Grafana dashboard of placement.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The dashboard.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "placement",
    title: "Medley: placement",
    about: "Pods, the nodes that run their images, and registry requests.",
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
            about: "Pods whose images are being inspected.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("sum(medley_placement_gated_pods)", "gated")],
        },
        Panel {
            title: "Known images",
            about: "Share of images whose platforms were cached at admission.",
            shape: Shape::Number,
            unit: Unit::Percent,
            queries: &[(
                "100 * sum(rate(medley_placement_image_lookups_total{cache=\"hit\"}[15m])) / sum(rate(medley_placement_image_lookups_total[15m]))",
                "known",
            )],
        },
        Panel {
            title: "Admission",
            about: "Whether the API server calls the placement webhook for new pods.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(medley_placement_admission_registered)", "asks")],
        },
        Panel {
            title: "Held by reason",
            about: "Why no node can run the pods.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("sum by (reason) (medley_placement_held_pods)", "{{reason}}")],
        },
        Panel {
            title: "Released",
            about: "Gated pods released, by reason.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (reason) (rate(medley_placement_released_total[15m]))",
                "{{reason}}",
            )],
        },
        Panel {
            title: "Time at the gate",
            about: "99th percentile.",
            shape: Shape::Lines,
            unit: Unit::Seconds,
            queries: &[(
                "histogram_quantile(0.99, sum by (le, reason) (rate(medley_placement_gate_duration_seconds_bucket[15m])))",
                "{{reason}}",
            )],
        },
        Panel {
            title: "Time in admission",
            about: "99th percentile.",
            shape: Shape::Lines,
            unit: Unit::Seconds,
            queries: &[(
                "histogram_quantile(0.99, sum by (le, outcome) (rate(medley_placement_admission_duration_seconds_bucket[5m])))",
                "{{outcome}}",
            )],
        },
        Panel {
            title: "Requests to registries",
            about: "Requests per registry and operation since the start of the process.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[(
                "sum by (host, operation) (medley_placement_registry_requests)",
                "{{host}} {{operation}}",
            )],
        },
        Panel {
            title: "Requests left",
            about: "Remaining requests of the rate limit per registry.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[(
                "min by (host) (medley_placement_registry_rate_limit_remaining)",
                "{{host}}",
            )],
        },
        Panel {
            title: "RuntimeClasses",
            about: "RuntimeClasses for Windows builds.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[(
                "sum by (state) (medley_placement_runtime_classes)",
                "{{state}}",
            )],
        },
        Panel {
            title: "Nodes with Windows",
            about: "Number of nodes per Windows build.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[(
                "sum by (build) (medley_placement_windows_nodes)",
                "{{build}}",
            )],
        },
    ],
};
