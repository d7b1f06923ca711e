//! The Grafana dashboard of releases.

use api::monitoring::dashboard::{Dashboard, Panel, Shape, Unit};

/// The dashboard.
pub const DASHBOARD: Dashboard = Dashboard {
    name: "release",
    title: "Medley: release",
    about: "Whether the release is complete, and which operators are not updated.",
    panels: &[
        Panel {
            title: "Arrived",
            about: "Whether the release is complete.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(medley_release_complete)", "arrived")],
        },
        Panel {
            title: "Claimed early",
            about: "Whether ClusterVersion claims completion too early.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("max(medley_release_claimed_early)", "early")],
        },
        Panel {
            title: "Failing",
            about: "Whether the update fails or is slow.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("max(medley_release_failing)", "failing")],
        },
        Panel {
            title: "Files of the release",
            about: "Whether the files of the release are loaded.",
            shape: Shape::Number,
            unit: Unit::Truth,
            queries: &[("min(medley_release_payload_ready)", "there")],
        },
        Panel {
            title: "Operators",
            about: "Operators by state.",
            shape: Shape::Lines,
            unit: Unit::Count,
            queries: &[("sum by (state) (medley_release_operators)", "{{state}}")],
        },
        Panel {
            title: "ClusterVersion not maintained",
            about: "Whether spec.mode is Own, but Medley does not write the status.",
            shape: Shape::Lines,
            unit: Unit::Truth,
            queries: &[("max(medley_release_not_owned)", "not kept")],
        },
    ],
};
