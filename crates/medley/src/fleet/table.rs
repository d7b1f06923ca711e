//! Nodes as a table.

use ::fleet::commands::NodeLine;

const HEADERS: [&str; 6] = ["NAME", "STATUS", "POOL", "OS", "ARCH", "CPU"];

/// One line a node, under headers.
pub(super) fn render(nodes: &[NodeLine]) -> String {
    if nodes.is_empty() {
        return "no nodes\n".to_owned();
    }
    let mut rows = vec![HEADERS.map(str::to_owned)];
    rows.extend(nodes.iter().map(row));
    let widths: Vec<usize> = (0..HEADERS.len())
        .map(|column| rows.iter().map(|row| row[column].len()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths);
        let cells: Vec<String> = cells
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("   ").trim_end());
        text.push('\n');
    }
    text
}

fn row(node: &NodeLine) -> [String; 6] {
    let mut status = vec![if node.ready { "Ready" } else { "NotReady" }];
    if !node.schedulable {
        status.push("SchedulingDisabled");
    }
    if node.failed {
        status.push("Failed");
    }
    if !node.simulated {
        status.push("Real");
    }
    let or_dash = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
    [
        node.name.clone(),
        status.join(","),
        or_dash(&node.pool),
        node.os.clone(),
        node.arch.clone(),
        or_dash(&node.cpu),
    ]
}
