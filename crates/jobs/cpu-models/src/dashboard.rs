//! The Grafana dashboard of CPU models.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The dashboard.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "cpu-models",
    title: "Medley: CPU models",
    about: "Virtual machines that request best-match-model, and their migration targets.",
    panels: &[
        Panel {
            title: "Model chosen",
            about: "VMs with a chosen model.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("medley_cpu_machines{state=\"resolved\"}", "chosen")],
        },
        Panel {
            title: "Cannot migrate",
            about: "VMs without a migration target.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("medley_cpu_machines{state=\"no_target\"}", "no target")],
        },
        Panel {
            title: "Wait for a model",
            about: "VMs that have no model yet.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("medley_cpu_machines{state=\"undecided\"}", "undecided")],
        },
        Panel {
            title: "Admission",
            about: "Whether the admission webhook is registered.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(medley_cpu_admission_registered)", "asks")],
        },
        Panel {
            title: "VMs",
            about: "VMs by state.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("sum by (state) (medley_cpu_machines)", "{{state}}")],
        },
        Panel {
            title: "Repairs",
            about: "Objects repaired after they were admitted without the webhook.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (what) (rate(medley_cpu_repairs_total[15m]))",
                "{{what}}",
            )],
        },
        Panel {
            title: "Fewest targets",
            about: "The VMs with the fewest migration targets.",
            shape: Shape::Table,
            unit: Unit::Count,
            queries: &[(
                "bottomk(20, medley_cpu_migration_targets)",
                "{{namespace}}/{{name}}",
            )],
        },
    ],
};
