//! Compile errors of an expression, printed as cel-go prints them.

use std::fmt::Write as _;

/// Longest line that is repeated in a message.
const MAX_SNIPPET: usize = 16_384;

/// Something wrong at a place in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Issue {
    /// Line from one.
    pub(crate) line: usize,
    /// Column from zero, in code points.
    pub(crate) column: usize,
    /// What.
    pub(crate) message: String,
}

impl Issue {
    /// An issue at a code point offset of `source`.
    pub(crate) fn at(source: &str, offset: usize, message: impl Into<String>) -> Self {
        let (mut line, mut column) = (1, 0);
        for c in source.chars().take(offset) {
            if c == '\n' {
                line += 1;
                column = 0;
            } else {
                column += 1;
            }
        }
        Self {
            line,
            column,
            message: message.into(),
        }
    }

    /// The message with its place and a copy of the line, a caret under the column.
    fn display(&self, source: &str) -> String {
        let mut text = format!(
            "ERROR: <input>:{}:{}: {}",
            self.line,
            self.column + 1,
            self.message
        );
        let Some(snippet) = source.split('\n').nth(self.line.saturating_sub(1)) else {
            return text;
        };
        if snippet.len() > MAX_SNIPPET {
            return text;
        }
        let snippet = snippet.replace('\t', " ");
        let mut caret = String::new();
        let mut chars = snippet.chars();
        for c in chars.by_ref().take(self.column) {
            caret.push(if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' });
        }
        caret.push(match chars.next() {
            Some(c) if c.len_utf8() > 1 => '\u{ff3e}',
            _ => '^',
        });
        let _ = write!(text, "\n | {snippet}\n | {caret}");
        text
    }
}

/// All issues, in the order of the source, as one text. cel-go prints at most a hundred.
pub(crate) fn display_all(source: &str, issues: &[Issue]) -> String {
    const LIMIT: usize = 100;
    let mut sorted: Vec<&Issue> = issues.iter().collect();
    sorted.sort_by_key(|i| (i.line, i.column));
    let more = sorted.len().saturating_sub(LIMIT);
    let mut lines: Vec<String> = sorted
        .iter()
        .take(LIMIT)
        .map(|i| i.display(source))
        .collect();
    if more > 0 {
        lines.push(format!("{more} more errors were truncated"));
    }
    lines.join("\n")
}
