//! Grafana dashboards.
//!
//! The panels are defined in the crate of each controller; this module renders them. A dashboard does
//! not fix a data source: the user selects one.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::metadata;

/// Grafana's schema version of dashboards.
const SCHEMA: u32 = 39;
/// The width of a dashboard in grid units.
const WIDTH: u32 = 24;
/// The selected data source.
const CHOSEN: &str = "${datasource}";

/// A dashboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dashboard {
    /// The name in objects and files.
    pub name: &'static str,
    /// The title.
    pub title: &'static str,
    /// The description.
    pub about: &'static str,
    /// The panels, in reading order.
    pub panels: &'static [Panel],
}

/// A panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panel {
    /// The title.
    pub title: &'static str,
    /// The description.
    pub about: &'static str,
    /// The visualization.
    pub shape: Shape,
    /// The unit.
    pub unit: Unit,
    /// The PromQL queries with their legends.
    pub queries: &'static [(&'static str, &'static str)],
}

/// The visualization of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The last value, large.
    Number,
    /// A time series.
    Lines,
    /// The last values, in rows.
    Table,
}

/// The unit of a panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// A number.
    Count,
    /// A number per second.
    Rate,
    /// Seconds.
    Seconds,
    /// Percent.
    Percent,
    /// A boolean.
    Truth,
}

impl Shape {
    fn kind(self) -> &'static str {
        match self {
            Self::Number => "stat",
            Self::Lines => "timeseries",
            Self::Table => "table",
        }
    }

    /// Width and height in grid units.
    fn size(self) -> (u32, u32) {
        match self {
            Self::Number => (6, 4),
            Self::Lines => (12, 8),
            Self::Table => (24, 8),
        }
    }
}

impl Unit {
    fn as_str(self) -> &'static str {
        match self {
            Self::Count => "short",
            Self::Rate => "ops",
            Self::Seconds => "s",
            Self::Percent => "percent",
            Self::Truth => "bool_yes_no",
        }
    }
}

impl Dashboard {
    /// The dashboard as Grafana reads it.
    pub fn model(&self) -> Value {
        let (mut x, mut y, mut row) = (0, 0, 0);
        let panels = self.panels.iter().zip(1..).map(|(panel, id)| {
            let (width, height) = panel.shape.size();
            if x + width > WIDTH {
                (x, y, row) = (0, y + row, 0);
            }
            let place = json!({ "x": x, "y": y, "w": width, "h": height });
            x += width;
            row = row.max(height);
            panel.model(id, &place)
        });
        let panels: Vec<Value> = panels.collect();
        json!({
            "title": self.title,
            "description": self.about,
            "tags": ["medley"],
            "schemaVersion": SCHEMA,
            "editable": true,
            "graphTooltip": 1,
            "refresh": "1m",
            "time": { "from": "now-6h", "to": "now" },
            "templating": { "list": [{
                "name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus",
            }] },
            "links": [{
                "title": "Medley", "type": "dashboards", "tags": ["medley"], "asDropdown": true,
                "includeVars": true, "keepTime": true,
            }],
            "panels": panels,
        })
    }

    /// The dashboard in a ConfigMap that Grafana's sidecar picks up.
    pub fn config_map(&self, namespace: &str) -> Value {
        let mut meta = metadata(&format!("medley-dashboard-{}", self.name), namespace);
        // The label that the sidecar of Grafana's Helm chart selects unless configured otherwise.
        meta["labels"]["grafana_dashboard"] = json!("1");
        let text = format!("{:#}\n", self.model());
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": { format!("medley-{}.json", self.name): text },
        })
    }

    /// The expressions of all panels.
    pub fn expressions(&self) -> impl Iterator<Item = &'static str> {
        let queries = self.panels.iter().flat_map(|panel| panel.queries);
        queries.map(|(expression, _)| *expression)
    }
}

impl Panel {
    fn model(&self, id: u32, place: &Value) -> Value {
        let source = json!({ "type": "prometheus", "uid": CHOSEN });
        let instant = self.shape != Shape::Lines;
        let targets = self.queries.iter().zip('A'..);
        let targets = targets.map(|((expression, legend), letter)| {
            json!({
                "refId": letter, "expr": expression, "legendFormat": legend, "datasource": source,
                // Numbers and tables show the last value, so they ask for one sample instead of six hours of them.
                "instant": instant, "range": !instant,
                "format": if self.shape == Shape::Table { "table" } else { "time_series" },
            })
        });
        let targets: Vec<Value> = targets.collect();
        json!({
            "id": id,
            "type": self.shape.kind(),
            "title": self.title,
            "description": self.about,
            "gridPos": place,
            "datasource": source,
            "targets": targets,
            "fieldConfig": { "defaults": { "unit": self.unit.as_str(), "min": 0 }, "overrides": [] },
        })
    }
}
