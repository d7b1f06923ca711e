use std::collections::BTreeSet;

use super::*;

const PANEL: Panel = Panel {
    title: "Things",
    about: "How many there are.",
    shape: Shape::Number,
    unit: Unit::Count,
    queries: &[
        ("sum(medley_things)", "things"),
        ("medley_others", "others"),
    ],
};

const LINES: Panel = Panel {
    shape: Shape::Lines,
    ..PANEL
};

const PAGE: Dashboard = Dashboard {
    name: "things",
    title: "Medley: things",
    about: "Things.",
    panels: &[PANEL, PANEL, LINES, LINES, PANEL],
};

#[test]
fn panels_do_not_overlap() {
    let model = PAGE.model();
    let mut taken = BTreeSet::new();
    for panel in model["panels"].as_array().unwrap() {
        let of = |name: &str| panel["gridPos"][name].as_u64().unwrap();
        assert!(of("x") + of("w") <= u64::from(WIDTH), "{panel}");
        for x in of("x")..of("x") + of("w") {
            for y in of("y")..of("y") + of("h") {
                assert!(taken.insert((x, y)), "({x}, {y}) is taken: {panel}");
            }
        }
    }
    let ids: BTreeSet<_> = (0..5)
        .map(|at| model["panels"][at]["id"].as_u64())
        .collect();
    assert_eq!(ids.len(), 5);
}

#[test]
fn dashboard_does_not_fix_the_data_source() {
    let map = PAGE.config_map("here");
    assert_eq!(map["metadata"]["name"], "medley-dashboard-things");
    assert_eq!(map["metadata"]["namespace"], "here");
    assert_eq!(map["metadata"]["labels"]["grafana_dashboard"], "1");
    let text = map["data"]["medley-things.json"].as_str().unwrap();
    let model: Value = serde_json::from_str(text).unwrap();
    assert_eq!(model, PAGE.model());
    assert_eq!(model.get("uid"), None, "Grafana gives it one");
    assert_eq!(model["templating"]["list"][0]["type"], "datasource");
    for panel in model["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().unwrap() {
            assert_eq!(target["datasource"]["uid"], "${datasource}");
        }
    }
    assert_eq!(model["panels"][0]["targets"][1]["refId"], "B");
    let all: Vec<_> = PAGE.expressions().collect();
    assert_eq!(&all[..2], ["sum(medley_things)", "medley_others"]);
}
