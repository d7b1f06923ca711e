//! What Grafana shows of releases.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The page.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "release",
    title: "Medley: release",
    about: "Whether the cluster has truly arrived at its release, and who has not.",
    panels: &[
        Panel {
            title: "Arrived",
            about: "Whether everything is there.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(medley_release_complete)", "arrived")],
        },
        Panel {
            title: "Claimed early",
            about: "Whether ClusterVersion says so and it is not.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("max(medley_release_claimed_early)", "early")],
        },
        Panel {
            title: "Failing",
            about: "Whether it does not get on.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("max(medley_release_failing)", "failing")],
        },
        Panel {
            title: "Files of the release",
            about: "Whether they are there.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(medley_release_payload_ready)", "there")],
        },
        Panel {
            title: "Operators",
            about: "How they fare.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("sum by (state) (medley_release_operators)", "{{state}}")],
        },
        Panel {
            title: "ClusterVersion is not kept",
            about: "Whether Medley is to keep it, and does not.",
            shape: Shape::Lines,
            unit: Unit::Truth,
            queries: &[("max(medley_release_not_owned)", "not kept")],
        },
    ],
};
