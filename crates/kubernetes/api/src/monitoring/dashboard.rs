//! Pictures of metrics, as Grafana takes them.
//!
//! What is shown is said in the crate of each job; this is how it is drawn. A dashboard names no data
//! source of its own: whoever looks chooses one.

#[cfg(test)]
mod tests;

use serde_json::{Value, json};

use super::metadata;

/// What Grafana calls the version of this form.
const SCHEMA: u32 = 39;
/// How wide a dashboard is.
const WIDTH: u32 = 24;
/// The data source that was chosen.
const CHOSEN: &str = "${datasource}";

/// A page of pictures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Dashboard {
    /// What it is called in names of objects and files.
    pub name: &'static str,
    /// What it is called by people.
    pub title: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// The pictures, in reading order.
    pub panels: &'static [Panel],
}

/// One picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Panel {
    /// What it shows, in a few words.
    pub title: &'static str,
    /// What it means.
    pub about: &'static str,
    /// How it is drawn.
    pub shape: Shape,
    /// What is counted.
    pub unit: Unit,
    /// Where the numbers come from, in PromQL, and what they are called.
    pub queries: &'static [(&'static str, &'static str)],
}

/// How numbers are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The last one, large.
    Number,
    /// Over time.
    Lines,
    /// The last ones, in rows.
    Table,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Things.
    Count,
    /// Things in a second.
    Rate,
    /// Seconds.
    Seconds,
    /// Parts of a hundred.
    Percent,
    /// Whether something is so.
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

    /// Width and height.
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
    /// The page, as Grafana reads it.
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

    /// The page in an object that Grafana's sidecar picks up.
    pub fn config_map(&self, namespace: &str) -> Value {
        let mut meta = metadata(&format!("medley-dashboard-{}", self.name), namespace);
        meta["labels"]["grafana_dashboard"] = json!("1");
        let text = format!("{:#}\n", self.model());
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": meta,
            "data": { format!("medley-{}.json", self.name): text },
        })
    }

    /// The expressions of all pictures.
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
