//! Nodes as a table.

use ::fleet::commands::NodeLine;

use crate::output::table;

const HEADERS: [&str; 6] = ["NAME", "STATUS", "POOL", "OS", "ARCH", "CPU"];

/// One line per node, under headers.
pub(super) fn render(nodes: &[NodeLine]) -> String {
    if nodes.is_empty() {
        return "no nodes\n".to_owned();
    }
    table(&HEADERS, nodes.iter().map(row))
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
