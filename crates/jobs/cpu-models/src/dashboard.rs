//! What Grafana shows of CPU models.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The page.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "cpu-models",
    title: "Medley: CPU models",
    about: "Virtual machines that leave the choice of their CPU model to Medley, and where they could go.",
    panels: &[
        Panel {
            title: "Model chosen",
            about: "Machines for which a model was chosen.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("medley_cpu_machines{state=\"resolved\"}", "chosen")],
        },
        Panel {
            title: "Cannot migrate",
            about: "Machines that no other node could take.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("medley_cpu_machines{state=\"no_target\"}", "no target")],
        },
        Panel {
            title: "Wait for a model",
            about: "Machines that have none yet.",
            shape: Shape::Number,
            unit: Unit::Count,
            queries: &[("medley_cpu_machines{state=\"undecided\"}", "undecided")],
        },
        Panel {
            title: "Admission",
            about: "Whether the API server asks before machines start.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(medley_cpu_admission_registered)", "asks")],
        },
        Panel {
            title: "Machines",
            about: "How machines fare.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("sum by (state) (medley_cpu_machines)", "{{state}}")],
        },
        Panel {
            title: "Repairs",
            about: "What had slipped through while nobody checked.",
            shape: Shape::Lines,
            unit: Unit::Rate,
            queries: &[(
                "sum by (what) (rate(medley_cpu_repairs_total[15m]))",
                "{{what}}",
            )],
        },
        Panel {
            title: "Fewest targets",
            about: "The machines with the fewest nodes that could take them.",
            shape: Shape::Table,
            unit: Unit::Count,
            queries: &[(
                "bottomk(20, medley_cpu_migration_targets)",
                "{{namespace}}/{{name}}",
            )],
        },
    ],
};
