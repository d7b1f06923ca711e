//! Renders findings as text.

use std::fmt::Write as _;

use super::decide::{Finding, State};
use crate::terminal::Tone;

/// Findings by group, with a summary line.
pub(super) fn render(findings: &[Finding], colours: bool) -> String {
    let mut text = String::new();
    let mut group = "";
    for finding in findings {
        if finding.group != group {
            if !group.is_empty() {
                text.push('\n');
            }
            group = finding.group;
            let _ = writeln!(text, "{}", Tone::Heading.paint(group, colours));
        }
        let (mark, tone) = mark(finding.state);
        let _ = write!(text, "  {} {}", tone.paint(mark, colours), finding.title);
        if !finding.message.is_empty() {
            let _ = write!(text, ": {}", finding.message);
        }
        text.push('\n');
        let is_problem = matches!(finding.state, State::Warning | State::Failed);
        if let Some(hint) = &finding.hint {
            let _ = writeln!(text, "      hint: {hint}");
        }
        if is_problem {
            let docs = format!("see {}", finding.docs);
            let _ = writeln!(text, "      {}", Tone::Faint.paint(&docs, colours));
        }
    }
    let count = |state: State| findings.iter().filter(|it| it.state == state).count();
    let _ = writeln!(
        text,
        "\n{} ok, {} off, {} warnings, {} failed",
        count(State::Ok),
        count(State::Off),
        count(State::Warning),
        count(State::Failed)
    );
    text
}

fn mark(state: State) -> (&'static str, Tone) {
    match state {
        State::Ok => ("✓", Tone::Good),
        State::Off => ("-", Tone::Faint),
        State::Warning => ("!", Tone::Busy),
        State::Failed => ("✗", Tone::Bad),
    }
}
